// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/bufpool"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

var background = context.Background()

func floats(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// shared is a weight of every graph of scaled.
var shared = floats(1, 2)

// scaled is x*k + w with a weight.
func scaled(k float32) *graph.Graph {
	g := graph.New("scaled")
	x := g.Input("x", tensor.F32, 2, 2)
	g.Output("y", g.AddTo(g.Affine(x, k, 0), g.Param(graph.Param{Name: "w", Shape: tensor.Shape{2}, DType: tensor.F32, Data: shared})))
	return g
}

func compile(t *testing.T, b *Backend, g *graph.Graph) backend.Program {
	t.Helper()
	p, err := b.Compile(background, g, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func alloc(t *testing.T, b *Backend, data []byte, n int) backend.Buffer {
	t.Helper()
	x, err := b.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Release)
	if data != nil {
		copy(x.Bytes(), data)
	}
	return x
}

func once(t *testing.T, b *Backend, p backend.Program, in, out []backend.Buffer) error {
	t.Helper()
	w, err := b.Begin(backend.First)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(background, p, in, out); err != nil {
		return err
	}
	done, err := w.Submit()
	if err != nil {
		t.Fatal(err)
	}
	times, err := done.Wait(background)
	if err == nil && (len(times) != 1 || times[0] <= 0) {
		t.Errorf("times %v", times)
	}
	return err
}

// TestResultsStay: a result goes into the next run without the host, is read when
// somebody asks, and read anew after another run.
func TestResultsStay(t *testing.T) {
	b := open(t, Config{})
	p, q := compile(t, b, scaled(2)), compile(t, b, scaled(10))
	x, y, z := alloc(t, b, floats(1, 2, 3, 4), 16), alloc(t, b, nil, 16), alloc(t, b, nil, 16)
	if err := errors.Join(once(t, b, p, []backend.Buffer{x}, []backend.Buffer{y}), once(t, b, q, []backend.Buffer{y}, []backend.Buffer{z})); err != nil {
		t.Fatal(err)
	}
	if y.(*buffer).host != nil {
		t.Error("the host has a copy that nobody asked for")
	}
	if got, want := z.Bytes(), floats(31, 62, 71, 102); !bytes.Equal(got, want) {
		t.Errorf("z is %v, want %v", got, want)
	}
	if got, want := y.Bytes(), floats(3, 6, 7, 10); !bytes.Equal(got, want) {
		t.Errorf("y is %v, want %v", got, want)
	}
	if err := once(t, b, q, []backend.Buffer{x}, []backend.Buffer{y}); err != nil {
		t.Fatal(err)
	}
	if got, want := y.Bytes(), floats(11, 22, 31, 42); !bytes.Equal(got, want) {
		t.Errorf("after another run y is %v, want %v", got, want)
	}
	if _, _, err := y.(*buffer).Device(); err == nil {
		t.Error("a buffer of the CPU has an address on a GPU")
	}
	if s := b.Stats(); s.Runs != 3 || b.Device().WeightsCopied != 8 {
		t.Errorf("%+v, %d bytes of weights: one weight of two programs is on the device once", s, b.Device().WeightsCopied)
	}
}

// TestWrongBuffers: sizes and states that do not fit are errors.
func TestWrongBuffers(t *testing.T) {
	b := open(t, Config{})
	p := compile(t, b, scaled(2))
	good, short, empty, released := alloc(t, b, floats(1, 2, 3, 4), 16), alloc(t, b, nil, 12), alloc(t, b, nil, 16), alloc(t, b, floats(1, 2, 3, 4), 16)
	released.Release()
	out := []backend.Buffer{alloc(t, b, nil, 16)}
	for name, in := range map[string][]backend.Buffer{"none": nil, "short": {short}, "unwritten": {empty}, "released": {released}} {
		if err := once(t, b, p, in, out); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := released.Fetch(); !errors.Is(err, bufpool.ErrReleased) {
		t.Errorf("fetch after release: %v", err)
	}
	if err := once(t, b, p, []backend.Buffer{good}, out); err != nil {
		t.Errorf("after the errors: %v", err)
	}
	if _, err := b.Compile(background, scaled(3), backend.Options{Precision: 99}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("precision 99: %v", err)
	}
	p.Close()
	if err := once(t, b, p, []backend.Buffer{good}, out); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed program: %v", err)
	}
}

// TestCache: a second backend loads what the first compiled; a damaged file is
// compiled anew and replaced.
func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "xla")
	check := func(what string, compiled, cached int) {
		t.Helper()
		b := open(t, Config{Cache: dir})
		p := compile(t, b, scaled(2))
		x, y := alloc(t, b, floats(1, 2, 3, 4), 16), alloc(t, b, nil, 16)
		if err := once(t, b, p, []backend.Buffer{x}, []backend.Buffer{y}); err != nil || !bytes.Equal(y.Bytes(), floats(3, 6, 7, 10)) {
			t.Errorf("%s: %v, %v", what, y.Bytes(), err)
		}
		if s := b.Stats(); s.Compiled != compiled || s.FromCache != cached {
			t.Errorf("%s: %+v, want %d compiled and %d from the cache", what, s, compiled, cached)
		}
	}
	check("first", 1, 0)
	check("second", 0, 1)
	files, err := filepath.Glob(filepath.Join(dir, "*.xla"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"cut": data[:len(data)/2], "empty": {}, "flipped": append(bytes.Clone(data[:len(data)-1]), data[len(data)-1]^1)} {
		if err := os.WriteFile(files[0], bad, 0o644); err != nil {
			t.Fatal(err)
		}
		check(name, 1, 0)
		check("after "+name, 0, 1)
	}
}

// TestNumberedDevice: a backend runs on the device with its number, each with programs of
// its own in the cache; one that the process does not have is named, with those it has.
func TestNumberedDevice(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ device, compiled, cached int }{{0, 1, 0}, {2, 1, 0}, {0, 0, 1}, {2, 0, 1}} {
		b := open(t, Config{Cache: dir, Device: c.device})
		p := compile(t, b, scaled(2))
		x, y := alloc(t, b, floats(1, 2, 3, 4), 16), alloc(t, b, nil, 16)
		if err := once(t, b, p, []backend.Buffer{x}, []backend.Buffer{y}); err != nil || !bytes.Equal(y.Bytes(), floats(3, 6, 7, 10)) {
			t.Errorf("device %d: %v, %v", c.device, y.Bytes(), err)
		}
		if s := b.Stats(); s.Compiled != c.compiled || s.FromCache != c.cached {
			t.Errorf("device %d: %+v, want %d compiled and %d from the cache", c.device, s, c.compiled, c.cached)
		}
		if b.dev.HardwareID != c.device { // XLA refuses arrays of another device than the program's
			t.Errorf("device %d, want %d", b.dev.HardwareID, c.device)
		}
	}
	_, err := New(Config{Plugin: os.Getenv("MAST3R_PJRT_CPU"), Options: map[string]any{"cpu_device_count": int64(2)}, Device: 2})
	if !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "number 2 of cpu, of which this process has [0 1]") {
		t.Errorf("a device that is not there: %v", err)
	}
}

// TestThreads: runs from several goroutines on one backend.
func TestThreads(t *testing.T) {
	b := open(t, Config{})
	p := compile(t, b, scaled(2))
	var wg sync.WaitGroup
	for i := range 8 {
		x, y := alloc(t, b, floats(float32(i), 0, 0, 0), 16), alloc(t, b, nil, 16)
		wg.Go(func() {
			for range 20 {
				if err := once(t, b, p, []backend.Buffer{x}, []backend.Buffer{y}); err != nil {
					t.Error(err)
					return
				}
			}
			if want := floats(float32(2*i+1), 2, 1, 2); !bytes.Equal(y.Bytes(), want) {
				t.Errorf("run %d: %v, want %v", i, y.Bytes(), want)
			}
		})
	}
	wg.Wait()
}

// TestNothingIsLeft: buffers outlive their backend, and the client goes with the
// last of them.
func TestNothingIsLeft(t *testing.T) {
	b := open(t, Config{})
	p := compile(t, b, scaled(2))
	x, y := alloc(t, b, floats(1, 2, 3, 4), 16), alloc(t, b, nil, 16)
	if err := once(t, b, p, []backend.Buffer{x}, []backend.Buffer{y}); err != nil {
		t.Fatal(err)
	}
	if n := b.Device().LiveBuffers; n != 2 {
		t.Errorf("%d live buffers, want 2", n)
	}
	if err := errors.Join(p.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Alloc(4); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed backend: %v", err)
	}
	if got := y.Bytes(); !bytes.Equal(got, floats(3, 6, 7, 10)) {
		t.Errorf("after the backend has closed the result reads %v", got)
	}
	x.Release()
	if b.client == nil {
		t.Error("the client is gone while a buffer is left")
	}
	y.Release()
	if b.client != nil {
		t.Error("the client is left")
	}
}

// TestOutOfMemory: what the device has no memory for is an error of its own kind,
// and the backend goes on.
func TestOutOfMemory(t *testing.T) {
	b := open(t, Config{})
	g := graph.New("large")
	x := g.Input("x", tensor.F32, 2, 2)
	g.Output("y", g.Add(graph.Broadcast{Shape: tensor.Shape{1 << 40, 4}}, g.Reshape(x, 1, 4)))
	p := compile(t, b, g)
	large, err := b.Alloc(1 << 44)
	if err != nil {
		t.Fatal(err)
	}
	defer large.Release()
	in := alloc(t, b, floats(1, 2, 3, 4), 16)
	if err := once(t, b, p, []backend.Buffer{in}, []backend.Buffer{large}); !errors.Is(err, backend.ErrOutOfMemory) {
		t.Errorf("16 TB: %v, want ErrOutOfMemory", err)
	}
	q, y := compile(t, b, scaled(2)), alloc(t, b, nil, 16)
	if err := once(t, b, q, []backend.Buffer{in}, []backend.Buffer{y}); err != nil || !bytes.Equal(y.Bytes(), floats(3, 6, 7, 10)) {
		t.Errorf("afterwards: %v, %v", y.Bytes(), err)
	}
}
