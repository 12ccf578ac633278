// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// field is one entry of a decoded protobuf message.
type field struct {
	number int
	value  uint64
	bytes  []byte
}

// decode reads a message back with the rules of the wire format alone.
func decode(t *testing.T, b []byte) []field {
	t.Helper()
	var fs []field
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatal("bad tag")
		}
		b = b[n:]
		f := field{number: int(tag >> 3)}
		switch tag & 7 {
		case wireVarint:
			f.value, n = binary.Uvarint(b)
			b = b[n:]
		case wire32:
			f.value = uint64(binary.LittleEndian.Uint32(b))
			b = b[4:]
		case wireBytes:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				t.Fatal("bad length")
			}
			f.bytes = b[n : n+int(size)]
			b = b[n+int(size):]
		default:
			t.Fatalf("wire type %d", tag&7)
		}
		fs = append(fs, f)
	}
	return fs
}

func all(fs []field, number int) []field {
	var out []field
	for _, f := range fs {
		if f.number == number {
			out = append(out, f)
		}
	}
	return out
}

func sample(t *testing.T) *graph.Graph {
	t.Helper()
	g := graph.New("sample")
	x := g.Input("x", tensor.F32, 2, 3, 40)
	w := g.Param(graph.Param{Name: "w", Shape: tensor.Shape{50, 40}, DType: tensor.F32, Data: make([]byte, 8000)})
	g.Output("y", g.Unary(graph.Gelu, g.Linear(x, w, nil)))
	g, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestExportStructure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	if err := Export(t.Context(), sample(t), path, Options{Producer: "p", Metadata: map[string]string{"k": "v"}}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := decode(t, b)
	if v := all(m, 1); len(v) != 1 || v[0].value != 9 {
		t.Errorf("IR version %v", v)
	}
	g := decode(t, all(m, 7)[0].bytes)
	var ops []string
	for _, n := range all(g, 1) {
		ops = append(ops, string(all(decode(t, n.bytes), 4)[0].bytes))
	}
	if got := strings.Join(ops, " "); got != "Reshape Gemm Reshape Gelu Identity" {
		t.Errorf("nodes %s", got)
	}
	names := func(number int) (out []string) {
		for _, v := range all(g, number) {
			out = append(out, string(all(decode(t, v.bytes), 1)[0].bytes))
		}
		return out
	}
	if in, out := names(11), names(12); len(in) != 1 || in[0] != "x" || len(out) != 1 || out[0] != "y" {
		t.Errorf("inputs %v, outputs %v", in, out)
	}
	data, err := os.ReadFile(path + ".data")
	if err != nil || len(data) != 8000 {
		t.Errorf("data file of %d bytes, want 8000 (%v)", len(data), err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	if err != nil || len(left) != 0 {
		t.Errorf("temporary files left: %v, %v", left, err)
	}
}

func TestHalfWeights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := Export(t.Context(), sample(t), path, Options{HalfWeights: true}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path + ".data"); err != nil || st.Size() != 4000 {
		t.Errorf("data file %v, want 4000 bytes (%v)", st, err)
	}
}

// TestUnsupported: what has no form is an error, and leaves no file.
func TestUnsupported(t *testing.T) {
	dir := t.TempDir()
	g := graph.New("t")
	x := g.Input("x", tensor.F32, 1, 4, 4, 3)
	g.Output("y", g.Add(graph.Resize2D{H: 5, W: 5, Mode: graph.Bicubic, ScaleH: 0.7, ScaleW: 0.7}, x))
	err := Export(t.Context(), g, filepath.Join(dir, "m.onnx"), Options{})
	if !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
	if err := Export(t.Context(), sample(t), filepath.Join(dir, "missing", "m.onnx"), Options{}); err == nil {
		t.Error("a folder that is not there")
	}
}

// TestTable: what graph.Operations says of ONNX is so.
func TestTable(t *testing.T) {
	for _, o := range graph.Operations() {
		g := graph.New(o.Kind)
		g.Output("y", o.Example(g))
		err := Export(t.Context(), g, filepath.Join(t.TempDir(), "m.onnx"), Options{})
		switch {
		case o.Has("onnx") && err != nil:
			t.Errorf("onnx does not have %s, which the table says it has: %v", o.Kind, err)
		case !o.Has("onnx") && !errors.Is(err, ErrUnsupported):
			t.Errorf("%s, which the table says onnx does not have: %v", o.Kind, err)
		}
	}
}
