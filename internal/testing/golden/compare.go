// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Profile chooses the limits.
type Profile uint8

const (
	// FP32 is for float32 implementations: max(1e-5, 20 x the reference's own
	// distance from float64), and 2e-5 instead of 1e-5 for real-size runs.
	FP32 Profile = iota
	// FP16 is for half-precision weights or activations: 3e-2, and for
	// descriptors a worst cosine distance of 1e-3.
	FP16
)

// Diff is how far a tensor is from the golden one.
type Diff struct {
	MaxAbs, MaxRel, RelL2 float64
	NonFinite             int
	CosDist               float64 // descriptors: the worst 1 - cosine

	Worst     int // flat index of MaxAbs, or of the first number that is not finite
	Got, Want float64
}

// Compare measures got against want, which have the same length.
func Compare(got, want []float32) Diff {
	var d Diff
	var norm2 float64
	for _, w := range want {
		norm2 += float64(w) * float64(w)
	}
	rms := 0.0
	if len(want) > 0 {
		rms = math.Sqrt(norm2 / float64(len(want)))
	}
	sum := 0.0
	worst := -1.0
	for i, w := range want {
		g := float64(got[i])
		a := math.Abs(g - float64(w))
		// NaN compares false with everything and would slip through as no error.
		if math.IsNaN(g) || math.IsInf(g, 0) {
			d.NonFinite++
			a = math.Inf(1)
		}
		sum += a * a
		// Relative to the value, but not below a thousandth of the tensor's usual
		// size: near zero a relative error says nothing.
		d.MaxRel = max(d.MaxRel, a/(math.Abs(float64(w))+1e-3*rms+1e-30))
		if a > worst {
			worst, d.Worst, d.Got, d.Want = a, i, g, float64(w)
		}
	}
	d.MaxAbs = max(worst, 0)
	if len(want) > 0 {
		d.RelL2 = math.Sqrt(sum) / max(math.Sqrt(norm2), 1e-30)
	}
	return d
}

// cosDist is the worst cosine distance between rows of width elements.
func cosDist(got, want []float32, width int) float64 {
	worst := 0.0
	for at := 0; width > 0 && at+width <= len(want); at += width {
		var gg, ww, gw float64
		for i := at; i < at+width; i++ {
			g, w := float64(got[i]), float64(want[i])
			gg, ww, gw = gg+g*g, ww+w*w, gw+g*w
		}
		worst = max(worst, 1-gw/max(math.Sqrt(gg)*math.Sqrt(ww), 1e-30))
	}
	return worst
}

// Limit is the largest relative L2 error that passes for a tensor.
func (c *Case) Limit(name string, p Profile) float64 {
	if p == FP16 {
		return 3e-2
	}
	// Only real-size runs are subsampled so coarsely; they are 36 blocks deep.
	floor := 1e-5
	if c.stride("token_stride", 1) >= 16 {
		floor = 2e-5
	}
	return max(floor, 20*c.noise[name].RelL2)
}

// Diff accepts the tensor whole or already subsampled, with or without a batch
// dimension of 1. It reduces got by the strides of the golden tensor and compares.
func (c *Case) Diff(tb testing.TB, name string, got []float32, shape tensor.Shape) (Diff, tensor.Shape, error) {
	tb.Helper()
	want, ws := c.Floats(tb, name)
	if len(got) != shape.Numel() {
		return Diff{}, nil, fmt.Errorf("golden: %s %s: %d values for shape %v", c.Name, name, len(got), shape)
	}
	red, rs := c.reduce(name, got, shape, ws)
	if !rs.Equal(ws) {
		return Diff{}, nil, fmt.Errorf("golden: %s %s: shape %v, want %v", c.Name, name, shape, ws)
	}
	d := Compare(red, want)
	if strings.HasSuffix(name, ".desc") {
		d.CosDist = cosDist(red, want, ws[len(ws)-1])
	}
	return d, ws, nil
}

// Check fails the test when got is further from the golden tensor than the
// profile allows.
func (c *Case) Check(tb testing.TB, name string, got []float32, shape tensor.Shape, p Profile) {
	tb.Helper()
	c.check(tb, name, got, shape, c.Limit(name, p), p == FP16)
}

// CheckRel is Check with a given limit on the relative L2 error.
func (c *Case) CheckRel(tb testing.TB, name string, got []float32, shape tensor.Shape, relL2 float64) {
	tb.Helper()
	c.check(tb, name, got, shape, relL2, false)
}

func (c *Case) check(tb testing.TB, name string, got []float32, shape tensor.Shape, limit float64, cosine bool) {
	tb.Helper()
	d, ws, err := c.Diff(tb, name, got, shape)
	if err != nil {
		tb.Error(err)
		return
	}
	if d.RelL2 <= limit && d.NonFinite == 0 && !(cosine && d.CosDist > 1e-3) {
		return
	}
	tb.Errorf("golden: %s %s %v: relative L2 %.3g (limit %.3g), max abs %.3g, max rel %.3g, %d not finite, cosine distance %.3g; worst at %v: got %g, want %g",
		c.Name, name, ws, d.RelL2, limit, d.MaxAbs, d.MaxRel, d.NonFinite, d.CosDist, unravel(d.Worst, ws), d.Got, d.Want)
}

// unravel turns a flat index into one index for each dimension.
func unravel(i int, shape tensor.Shape) []int {
	idx := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		idx[k] = i % shape[k]
		i /= shape[k]
	}
	return idx
}

// reduce brings a whole tensor to the golden one's subsampling. The rule goes
// by name and rank: predictions in both image axes, raw head outputs in the
// last two, tokens in the second.
func (c *Case) reduce(name string, x []float32, s, want tensor.Shape) ([]float32, tensor.Shape) {
	if len(s) == len(want)+1 && s[0] == 1 {
		s = s[1:]
	}
	if len(s)+1 == len(want) && want[0] == 1 {
		s = append(tensor.Shape{1}, s...)
	}
	if s.Equal(want) {
		return x, s
	}
	pred := c.stride("pred_stride", 1)
	if strings.HasSuffix(name, ".desc") {
		pred = c.stride("desc_stride", pred)
	}
	steps := make([]int, len(s))
	for i := range steps {
		steps[i] = 1
	}
	switch {
	case (strings.HasPrefix(name, "pred") || strings.HasPrefix(name, "res")) && len(s) >= 3:
		steps[1], steps[2] = pred, pred
	case strings.HasSuffix(name, "dpt_raw") && len(s) == 4:
		steps[2] = c.stride("dpt_raw_stride", 1)
		steps[3] = steps[2]
	case len(s) == 3:
		steps[1] = c.stride("token_stride", 1)
	}
	return subsample(x, s, steps)
}

// subsample keeps every steps[k]-th index of dimension k.
func subsample(x []float32, s tensor.Shape, steps []int) ([]float32, tensor.Shape) {
	out := make(tensor.Shape, len(s))
	for k := range s {
		out[k] = (s[k] + steps[k] - 1) / steps[k]
	}
	strides := s.Strides()
	y := make([]float32, out.Numel())
	for i := range y {
		at := 0
		for k, v := range unravel(i, out) {
			at += v * steps[k] * strides[k]
		}
		y[i] = x[at]
	}
	return y, out
}
