// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"archive/zip"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func convertAll(t *testing.T, in, out string, opt ConvertOptions) []string {
	t.Helper()
	paths, err := Convert(context.Background(), in, out, opt)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestConvertCheckpoint(t *testing.T) {
	in := filepath.Join("testdata", "checkpoint.pth")
	source, err := Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for _, d := range []tensor.DType{tensor.Invalid, tensor.F32, tensor.F16, tensor.BF16} {
		out := filepath.Join(t.TempDir(), "m.safetensors")
		var calls, last int64
		paths := convertAll(t, in, out, ConvertOptions{DType: d, Progress: func(done, total int64) {
			calls++
			if last = done; done > total {
				t.Errorf("progress %d of %d", done, total)
			}
		}})
		if !slices.Equal(paths, []string{out}) || calls == 0 || last == 0 {
			t.Errorf("wrote %q after %d calls of Progress", paths, calls)
		}
		f, err := Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, want := len(f.Names()), len(source.Names())-1; got != want {
			t.Errorf("%v: %d tensors, want %d: an alias is written once", d, got, want)
		}
		for _, name := range source.Names() {
			s, _ := source.Tensor(name)
			short := mergeLayerRN(strings.TrimPrefix(name, "module."))
			got, ok := f.Tensor(short)
			if !ok {
				t.Errorf("%v: no %s", d, short)
				continue
			}
			want := s
			if s.DType.Float() && d != tensor.Invalid {
				if want, err = s.Cast(d); err != nil {
					t.Fatal(err)
				}
			}
			if got.DType != want.DType || !got.Shape.Equal(s.Shape) || !slices.Equal(got.Float64s(nil), want.Float64s(nil)) {
				t.Errorf("%v: %s: got %v %v %v, want %v %v", d, short, got.DType, got.Shape, got.Float64s(nil), want.DType, want.Float64s(nil))
			}
			if _, at, ok := got.Offset(); !ok || at%convertAlign != 0 {
				t.Errorf("%v: %s at %d, no multiple of %d", d, short, at, convertAlign)
			}
		}
		meta := f.Metadata()
		if meta["conf_mode"] != "exp,1,inf" || meta["enc_heads"] != "16" || meta["format"] != "pt" {
			t.Errorf("metadata %v", meta)
		}
	}
}

// A tensor of several chunks, of which the last is short, and unaligned.
func TestConvertChunks(t *testing.T) {
	dir := t.TempDir()
	values := make([]float32, 2*chunk+777)
	for i := range values {
		values[i] = float32(i%65521) / 7
	}
	in, out := filepath.Join(dir, "in.safetensors"), filepath.Join(dir, "out.safetensors")
	odd := Tensor{Name: "a", DType: tensor.U8, Shape: tensor.Shape{3}, Data: []byte{1, 2, 3}}
	big := FromFloat32s("b", tensor.Shape{len(values)}, values)
	if err := Write(in, []Tensor{odd, big}, map[string]string{"k": "v"}, 0); err != nil {
		t.Fatal(err)
	}
	convertAll(t, in, out, ConvertOptions{DType: tensor.F16})
	f, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, _ := f.Tensor("b")
	want, err := big.Cast(tensor.F16)
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Data) != string(want.Data) || f.Metadata()["k"] != "v" {
		t.Error("the chunks do not make up the tensor")
	}
	// Over itself: the source is mapped until the new file takes its name.
	convertAll(t, out, out, ConvertOptions{DType: tensor.F32})
	again, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if b, _ := again.Tensor("b"); !slices.Equal(b.Float32s(nil), want.Float32s(nil)) {
		t.Error("widening changed the numbers")
	}
}

func TestConvertDirectory(t *testing.T) {
	in, out := t.TempDir(), filepath.Join(t.TempDir(), "new", "dir")
	one := pTensor("0", 1, 0, pTuple(1), pTuple(1))
	file := func(name string, items ...string) {
		b := torchZip(t, "x/", map[string][]byte{"data.pkl": pkl(pDict(pStr("model"), pDict(items...))), "data/0": {0, 0, 0x80, 0x3f}}, zip.Store)
		if err := os.WriteFile(filepath.Join(in, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file("dune_vitsmall14_336.pth", pStr("encoder.blocks.0.0.norm1.weight"), one, pStr("projectors.x"), one)
	file("dunemast3r_cvpr25_vitsmall.pth", pStr("mast3r.dec_norm.weight"), one, pStr("norm.weight"), one)
	file("retrieval.pth", pStr("prewhiten.m"), one, pStr("prewhiten.p"), one)
	book, err := os.ReadFile(filepath.Join("testdata", "codebook_c_4.pkl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(in, "codebook.pkl"), book, 0o600); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range convertAll(t, in, out, ConvertOptions{DType: tensor.F16}) {
		names = append(names, filepath.Base(p))
	}
	if want := []string{"encoder.safetensors", "decoder.safetensors", "retrieval.safetensors", "codebook.safetensors"}; !slices.Equal(names, want) {
		t.Errorf("wrote %q, want %q", names, want)
	}
	s, err := OpenSet(out)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := []string{"encoder.blocks.0.0.norm1.weight", "mast3r.dec_norm.weight", "norm.weight", "projectors.x"}
	if !slices.Equal(s.Names(), want) {
		t.Errorf("names %q, want %q", s.Names(), want)
	}
	for _, path := range []string{"retrieval.safetensors", "codebook.safetensors"} {
		f, err := Open(filepath.Join(out, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range f.Names() {
			if w, _ := f.Tensor(name); w.DType != tensor.F32 {
				t.Errorf("%s: %s is %v, want it kept as f32", path, name, w.DType)
			}
		}
		f.Close()
	}
}

func TestConvertWhitening(t *testing.T) {
	dir := t.TempDir()
	whitening := Tensor{Name: "prewhiten.p", DType: tensor.F64, Shape: tensor.Shape{1}, Data: little64(1e-300)}
	other := Tensor{Name: "projector.0.weight", DType: tensor.F64, Shape: tensor.Shape{1}, Data: little64(0.5)}
	in := filepath.Join(dir, "in.safetensors")
	if err := Write(in, []Tensor{whitening, other}, nil, 0); err != nil {
		t.Fatal(err)
	}
	paths := convertAll(t, in, dir, ConvertOptions{DType: tensor.F16})
	if filepath.Base(paths[0]) != "retrieval.safetensors" {
		t.Errorf("wrote %q", paths)
	}
	f, err := Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, _ := f.Tensor("prewhiten.p")
	o, _ := f.Tensor("projector.0.weight")
	if p.DType != tensor.F64 || p.Float64s(nil)[0] != 1e-300 || o.DType != tensor.F16 || o.Float64s(nil)[0] != 0.5 {
		t.Errorf("got %v %v, %v %v", p.DType, p.Float64s(nil), o.DType, o.Float64s(nil))
	}
}

func little64(v float64) []byte {
	t, err := FromFloat32s("", tensor.Shape{1}, []float32{0}).Cast(tensor.F64)
	if err != nil {
		panic(err)
	}
	for i := range 8 {
		t.Data[i] = byte(math.Float64bits(v) >> (8 * i))
	}
	return t.Data
}

func TestConvertFailures(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, tensors ...Tensor) string {
		p := filepath.Join(dir, name)
		if err := Write(p, tensors, nil, 0); err != nil {
			t.Fatal(err)
		}
		return p
	}
	num := func(name string, v ...float32) Tensor { return FromFloat32s(name, tensor.Shape{len(v)}, v) }
	wide := write("wide.safetensors", num("a", 1), num("b", 1, 65520))
	fits := write("fits.safetensors", num("b", 65519, -65519, 0))
	huge := write("huge.safetensors", num("b", math.MaxFloat32))
	doubles := write("doubles.safetensors", Tensor{Name: "d", DType: tensor.F64, Shape: tensor.Shape{1}, Data: little64(1e40)})
	clash := write("clash.safetensors", num("x.scratch.layer1_rn.weight", 1), num("x.scratch.layer_rn.0.weight", 2))
	pointer := filepath.Join(dir, "pointer.pth")
	if err := os.WriteFile(pointer, []byte("version https://git-lfs.github.com/spec/v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.safetensors")
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for _, c := range []struct {
		name, in, out string
		ctx           context.Context
		dtype         tensor.DType
		text          string
	}{
		{"f16 overflow", wide, out, nil, tensor.F16, `"b", element 1 is 65520`},
		{"bf16 overflow", huge, out, nil, tensor.BF16, "does not fit"},
		{"f32 overflow", doubles, out, nil, tensor.F32, "does not fit"},
		{"two contents", clash, out, nil, tensor.F16, "different contents"},
		{"LFS pointer", pointer, out, nil, tensor.F16, "git LFS"},
		{"missing", filepath.Join(dir, "none"), out, nil, tensor.F16, "none"},
		{"out is below a file", fits, filepath.Join(fits, "x.safetensors"), nil, tensor.F16, "fits.safetensors"},
		{"out is a file", fits, filepath.Join(fits, "x"), nil, tensor.F16, "fits.safetensors"},
		{"integer", fits, out, nil, tensor.I8, "i8"},
		{"cancelled", fits, out, stopped, tensor.F16, "canceled"},
	} {
		ctx := c.ctx
		if ctx == nil {
			ctx = context.Background()
		}
		if _, err := Convert(ctx, c.in, c.out, ConvertOptions{DType: c.dtype}); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.text)
		}
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d files before, %d after: something was left behind", len(before), len(after))
	}
	convertAll(t, fits, out, ConvertOptions{DType: tensor.F16})
}

// Cancelled half way, nothing stays: no file, no temporary one.
func TestConvertCancel(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	in := filepath.Join(dir, "in.safetensors")
	values := make([]float32, 24*chunk)
	if err := Write(in, []Tensor{FromFloat32s("a", tensor.Shape{len(values)}, values)}, nil, 0); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var seen int64
	_, err := Convert(ctx, in, out, ConvertOptions{DType: tensor.BF16, Progress: func(done, total int64) {
		seen = done
		stop()
	}})
	if !errors.Is(err, context.Canceled) || seen == 0 || seen >= int64(4*len(values)) {
		t.Errorf("got %v after %d bytes", err, seen)
	}
	if left, _ := os.ReadDir(out); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// torch writes the 64-bit form of the directory once a file is past 4 GiB; here a
// small one is given it by hand.
func TestZip64(t *testing.T) {
	image := torchZip(t, "z/", map[string][]byte{
		"data.pkl": pkl(pDict(pStr("model"), pDict(pStr("w"), pTensor("0", 2, 1, pTuple(1), pTuple(1))))),
		"data/0":   {0, 0, 0, 0, 0, 0, 0x80, 0x3f},
	}, zip.Store)
	f, err := OpenBytes(zip64(image))
	if err != nil {
		t.Fatal(err)
	}
	if w, ok := f.Tensor("w"); !ok || w.Float32s(nil)[0] != 1 {
		t.Errorf("got %v", w)
	}
}
