// SPDX-License-Identifier: Apache-2.0

package pjrt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/bufpool"
)

// client is XLA on the CPU, which speaks the same interface as on a GPU.
func client(t *testing.T) *Client {
	t.Helper()
	file := os.Getenv("MAST3R_PJRT_CPU")
	if file == "" {
		t.Skip("MAST3R_PJRT_CPU is not set: no plugin is loaded (make xla-test)")
	}
	p, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.NewClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

const double = `module @double {
  func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    %1 = stablehlo.slice %0 [1:3] : (tensor<4xf32>) -> tensor<2xf32>
    return %0, %1 : tensor<4xf32>, tensor<2xf32>
  }
}
`

func floats(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// TestRoundTrip compiles, runs, reads back, keeps the executable as bytes and
// runs it again.
func TestRoundTrip(t *testing.T) {
	c := client(t)
	if c.Platform != "cpu" || len(c.Devices()) == 0 {
		t.Fatalf("platform %q with %d devices", c.Platform, len(c.Devices()))
	}
	if v, ok := c.Plugin().Attributes()["stablehlo_current_version"].([]int64); !ok || len(v) != 3 {
		t.Errorf("attributes %v", c.Plugin().Attributes())
	}
	d := c.Devices()[0]
	x, err := d.Compile(double, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	kept, err := x.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	y, err := d.Load(kept)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	for _, e := range []*Executable{x, y} {
		in, err := d.Upload(floats(1, 2, 3, 4), F32, []int64{4})
		if err != nil {
			t.Fatal(err)
		}
		out, done, err := e.Execute([]*Buffer{in})
		if err != nil {
			t.Fatal(err)
		}
		if err := done.Await(); err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]byte{floats(2, 4, 6, 8), floats(4, 6)} {
			got := make([]byte, len(want))
			if err := out[i].Download(got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("result %d: %v, %v, want %v", i, got, err, want)
			}
			if p, err := out[i].Pointer(); err != nil || p == 0 {
				t.Errorf("result %d is at %#x, %v", i, p, err)
			}
			out[i].Close()
		}
		in.Close()
	}
}

// TestErrors: the plugin's own words come back, and nothing is lost.
func TestErrors(t *testing.T) {
	c := client(t)
	d := c.Devices()[0]
	var said *Error
	if _, err := d.Compile("nonsense", nil); !errors.As(err, &said) || !strings.Contains(said.Text, "nonsense") {
		t.Errorf("compile nonsense: %v", err)
	}
	if _, err := d.Compile(double, map[string]any{"xla_no_such_flag": true}); !errors.As(err, &said) {
		t.Errorf("a flag that is none: %v", err)
	}
	if _, err := d.Compile(double, map[string]any{"xla_no_such_flag": []int{1}}); err == nil || errors.As(err, &said) {
		t.Errorf("a flag of a wrong type: %v", err)
	}
	x, err := d.Compile(double, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, _, err := x.Execute(nil); !errors.As(err, &said) {
		t.Errorf("run without an input: %v", err)
	}
	in, err := d.Upload(floats(1, 2), F32, []int64{2})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Download(make([]byte, 1)); err == nil {
		t.Error("a download into one byte of eight went well")
	}
	if _, err := c.Plugin().NewClient(map[string]any{"x": struct{}{}}); err == nil {
		t.Error("an option of a wrong type was taken")
	}
}

// TestNoPlugin: a file that is none is an error.
func TestNoPlugin(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "plugin.so")
	if err := os.WriteFile(text, []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(dir, "missing.so"), text} {
		if _, err := Load(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, err := os.Stat("/lib/x86_64-linux-gnu/libm.so.6"); err == nil {
		if _, err := Load("/lib/x86_64-linux-gnu/libm.so.6"); err == nil || !strings.Contains(err.Error(), "no PJRT plugin") {
			t.Errorf("libm: %v", err)
		}
	}
}

// TestErrorKinds: one code is about memory.
func TestErrorKinds(t *testing.T) {
	for code, want := range map[Code]bool{ResourceExhausted: true, Internal: false, Unimplemented: false} {
		if got := errors.Is(&Error{Code: code}, bufpool.ErrOutOfMemory); got != want {
			t.Errorf("code %d is about memory: %v", code, got)
		}
	}
}
