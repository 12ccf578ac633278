// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// recorder is a testing.TB that keeps failures instead of failing.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Error(args ...any) { r.failures = append(r.failures, fmt.Sprint(args...)) }
func (r *recorder) Helper()           {}

func TestCompare(t *testing.T) {
	d := Compare([]float32{3, 4, 0}, []float32{3, 4.5, 0})
	if math.Abs(d.RelL2-0.5/math.Sqrt(9+20.25)) > 1e-12 || d.MaxAbs != 0.5 || d.Worst != 1 || d.Got != 4 {
		t.Errorf("%+v", d)
	}
	nan := float32(math.NaN())
	if d := Compare([]float32{1, nan}, []float32{1, 1}); d.NonFinite != 1 || !math.IsInf(d.RelL2, 1) || d.Worst != 1 {
		t.Errorf("NaN: %+v", d)
	}
	if d := Compare(nil, nil); d != (Diff{}) {
		t.Errorf("empty: %+v", d)
	}
	if got := cosDist([]float32{1, 0, 0, 1}, []float32{2, 0, 1, 0}, 2); got != 1 {
		t.Errorf("cosine distance %g, want 1", got)
	}
}

func TestSubsample(t *testing.T) {
	x := make([]float32, 2*3*5)
	for i := range x {
		x[i] = float32(i)
	}
	y, s := subsample(x, tensor.Shape{2, 3, 5}, []int{1, 2, 3})
	if want := []float32{0, 3, 10, 13, 15, 18, 25, 28}; !slices.Equal(y, want) || !s.Equal(tensor.Shape{2, 2, 2}) {
		t.Errorf("got %v %v, want %v", y, s, want)
	}
}

// TestCheckOnRealCase feeds a case its own tensors, exact and disturbed: the
// check must pass the first and catch the second.
func TestCheckOnRealCase(t *testing.T) {
	c := Load(t, Path(t, "golden", "mast3r_micro", "landscape.safetensors"))
	if c.Limit("pred2.conf", FP32) < 1e-5 || c.Limit("enc1.block0", FP32) != 20*c.noise["enc1.block0"].RelL2 {
		t.Errorf("limits %g, %g", c.Limit("pred2.conf", FP32), c.Limit("enc1.block0", FP32))
	}
	for _, name := range []string{"pred1.desc", "enc1.out", "head1.dpt_raw"} {
		x, s := c.Floats(t, name)
		c.Check(t, name, x, s, FP32)
		c.Check(t, name, x, s[1:], FP32) // without the batch dimension
		for i := range x {
			x[i] *= 1.001
		}
		rec := &recorder{TB: t}
		c.Check(rec, name, x, s, FP32)
		c.Check(rec, name, x[1:], s, FP32)
		c.Check(rec, name, x, slices.Insert(slices.Clone(s), 0, 2), FP32)
		keep := x[7]
		x[7] = float32(math.Inf(1))
		c.Check(rec, name, x, s, FP16)
		if len(rec.failures) != 4 || !strings.Contains(rec.failures[0], name) || !strings.Contains(rec.failures[3], "worst at [0 ") {
			t.Errorf("%s: failures %q", name, rec.failures)
		}
		x[7] = keep
		c.Check(t, name, x, s, FP16)
	}
	turned, s := c.Floats(t, "pred1.desc")
	copy(turned[48:72], turned[1200:1224])
	rec := &recorder{TB: t}
	c.Check(rec, "pred1.desc", turned, s, FP16)
	if len(rec.failures) != 1 {
		t.Errorf("one wrong descriptor: failures %q", rec.failures)
	}
}

func TestStridesOfFullSizeCase(t *testing.T) {
	c := Load(t, Path(t, "golden", "fullsize", "mast3r_mini_96x64.safetensors"))
	if len(c.noise) == 0 {
		t.Error("no noise found")
	}
	// A whole tensor of the size of the run, from which the golden values are
	// picked with the strides of the README: 3, 3, 5, 5.
	for name, s := range map[string]tensor.Shape{
		"pred1.pts3d": {1, 64, 96, 3}, "pred1.desc": {1, 64, 96, 24}, "pred1.conf": {1, 64, 96},
		"dec1.out": {1, 24, 64}, "head1.dpt_raw": {1, 4, 64, 96},
	} {
		_, got := c.reduce(name, make([]float32, s.Numel()), s, c.Tensor(t, name).Shape)
		if want := c.Tensor(t, name).Shape; !got.Equal(want) {
			t.Errorf("%s: reduced to %v, want %v", name, got, want)
		}
	}
	st := LoadStats(t, Path(t, "golden", "fullsize", "mast3r_mini.json"), "96x64")
	rec := &recorder{TB: t}
	w := st["pred1.conf"]
	st.Check(rec, "pred1.conf", make([]float32, w.Shape.Numel()), w.Shape, 1e-4)
	st.Check(rec, "none", nil, nil, 1e-4)
	if len(rec.failures) != 2 {
		t.Errorf("failures %q", rec.failures)
	}
	flat := make([]float32, w.Shape.Numel())
	for i := range flat {
		flat[i] = float32(w.RMS)
	}
	w.Mean = w.RMS
	Stats{"x": w}.Check(t, "x", flat, w.Shape, 1e-4)
}

func TestInputOfPicture(t *testing.T) {
	dir := Path(t, "golden", "mast3r_micro")
	c := Load(t, dir+"/landscape.safetensors")
	pix, w, h := Picture(t, dir+"/landscape_view1_0.png")
	got, s := Input(pix, w, h)
	want, ws := c.Floats(t, "in.img1")
	if !s.Equal(ws) || !slices.Equal(got, want) {
		t.Errorf("input of %dx%d picture differs from in.img1 %v", w, h, ws)
	}
	if ints, s := c.Ints(t, "in.true_shape1"); !slices.Equal(ints, []int{h, w}) || !s.Equal(tensor.Shape{1, 2}) {
		t.Errorf("true shape %v %v", ints, s)
	}
}

// TestInputOfEveryByte checks the normalisation against the golden table.
func TestInputOfEveryByte(t *testing.T) {
	c := Load(t, Path(t, "golden", "preprocess", "preprocess.safetensors"))
	want, _ := c.Floats(t, "norm_lut")
	pix := make([]byte, 3*256)
	for i := range 256 {
		pix[3*i] = byte(i)
	}
	got, _ := Input(pix, 256, 1)
	if !slices.Equal(got[:256], want) {
		t.Errorf("got %v, want %v", got[:256], want)
	}
}
