// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// TestCast converts between all three types.
func TestCast(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		x := keep(c.FromFloat32s([]float32{1.9, -1.9, 0, 65504, 1 + 1.0/2048, 1 + 3.0/2048, -0.25}, 7))
		i := keep(c.Cast(x, I32))
		if got := must[[]int32](t)(i.Int32s()); !slices.Equal(got, []int32{1, -1, 0, 65504, 1, 1, 0}) {
			t.Errorf("to i32: %v", got)
		}
		// Halfway between two neighbours: to the even one, once down and once up.
		h := must[[]float32](t)(keep(c.Cast(x, F16)).Float32s())
		if h[3] != 65504 || h[4] != 1 || h[5] != 1+4.0/2048 || h[6] != -0.25 {
			t.Errorf("to f16: %v", h)
		}
		back := keep(c.Cast(i, F32))
		if got := must[[]float32](t)(back.Float32s()); back.DType() != F32 || got[1] != -1 || got[3] != 65504 {
			t.Errorf("i32 to f32: %v", got)
		}
		if got := must[[]float32](t)(keep(c.Cast(i, F16)).Float32s()); got[0] != 1 {
			t.Errorf("i32 to f16: %v", got)
		}
		if _, err := i.Float32s(); err != nil {
			t.Error(err)
		}
		if _, err := x.Int32s(); !errors.Is(err, ErrDType) {
			t.Errorf("floats as indices: %v", err)
		}
	})
}

// TestDropout: the share and the scale of what stays, the same for one seed.
func TestDropout(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		x := keep(c.Full(3, 100, 100))
		draw := func(p float32, seed uint64) []float32 {
			y, mask, err := c.Dropout(x, p, seed)
			keep(mask, err)
			return must[[]float32](t)(keep(y, err).Float32s())
		}
		y := draw(0.25, 1)
		zeros := 0
		for _, v := range y {
			switch {
			case v == 0:
				zeros++
			case math.Abs(float64(v)-4) > 1e-6:
				t.Fatalf("%v stays, want 3/(1-0.25)", v)
			}
		}
		// 10,000 draws: the standard deviation is 43.
		if zeros < 2500-200 || zeros > 2500+200 {
			t.Errorf("%d of 10000 are zero, want about 2500", zeros)
		}
		if !slices.Equal(y, draw(0.25, 1)) || slices.Equal(y, draw(0.25, 2)) {
			t.Error("the mask does not follow from the seed")
		}
		if slices.Contains(draw(0, 1), 0) {
			t.Error("zeros with probability 0")
		}
		for _, p := range []float32{-0.1, 1, float32(math.NaN())} {
			if _, _, err := c.Dropout(x, p, 1); !errors.Is(err, ErrOption) {
				t.Errorf("probability %v: %v", p, err)
			}
		}
	})
}

// TestArgAll: positions in the flattened tensor, the lowest on ties.
func TestArgAll(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		x := keep(c.FromFloat32s([]float32{0, 5, -2, 5, -2, 1}, 2, 3))
		high, low := must[[]int32](t)(keep(c.ArgMaxAll(x)).Int32s()), must[[]int32](t)(keep(c.ArgMinAll(x)).Int32s())
		if high[0] != 1 || low[0] != 2 {
			t.Errorf("largest at %v, smallest at %v, want 1 and 2", high, low)
		}
	})
}

// TestConfusionMatrix counts into both types, with labels and with scores as
// targets, twice.
func TestConfusionMatrix(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		preds := keep(c.FromFloat32s([]float32{1, 3, 2, 5, 1, 0, 0, 0, 9, 0, 8, 8}, 4, 3)) // 1, 0, 2, 1
		labels := keep(c.FromInt32s([]int32{1, 2, 2, 0}, 4))
		scores := keep(c.FromFloat32s([]float32{0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0}, 4, 3))
		want := []float32{0, 2, 0, 0, 2, 0, 2, 0, 2}
		for _, d := range []DType{F32, I32} {
			cm := keep(c.Zeros(d, 3, 3))
			for _, targets := range []*Tensor{labels, scores} {
				if err := c.UpdateConfusionMatrix(preds, targets, cm); err != nil {
					t.Fatal(err)
				}
			}
			if got := must[[]float32](t)(cm.Float32s()); cm.DType() != d || !slices.Equal(got, want) {
				t.Errorf("%v: %v, want %v", d, got, want)
			}
			if err := c.UpdateConfusionMatrix(preds, labels, keep(c.Zeros(d, 4, 4))); !errors.Is(err, ErrShape) {
				t.Errorf("a matrix of another size: %v", err)
			}
		}
	})
}

// TestHost: sizes that do not fit, types, empty tensors.
func TestHost(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		for _, err := range []error{
			second(c.FromFloat32s(make([]float32, 3), 2, 2)), second(c.FromInt32s(nil, 1)), second(c.FromBytes(F32, make([]byte, 5), 1)),
			second(c.Zeros(F32, -1)), second(c.Zeros(F32, 1<<40, 1<<40)), second(c.Zeros(F32, 1, 1, 1, 1, 1, 1, 1, 1, 1)),
		} {
			if !errors.Is(err, ErrShape) {
				t.Errorf("%v, want %v", err, ErrShape)
			}
		}
		empty := keep(c.Zeros(F32, 0, 4))
		y := keep(c.Exp(keep(empty.Copy())))
		if v := must[[]float32](t)(y.Float32s()); len(v) != 0 || y.Dim(-1) != 4 {
			t.Errorf("exp of nothing is %v of shape %v", v, y.Shape())
		}
		x := keep(c.FromFloat16s([]uint16{0x3c00, 0xc000}, 2))
		raw := make([]byte, 4)
		if err := x.CopyBytes(raw); err != nil || raw[1] != 0x3c || raw[3] != 0xc0 {
			t.Errorf("bytes %x: %v", raw, err)
		}
		back := must[[]float32](t)(keep(c.FromBytes(F16, raw, 2)).Float32s())
		if back[0] != 1 || back[1] != -2 {
			t.Errorf("read back %v", back)
		}
		var none *Tensor
		none.Release()
		if none.Valid() || !errors.Is(none.CopyTo(nil), ErrReleased) || !errors.Is(none.Zero(), ErrReleased) {
			t.Error("a nil tensor")
		}
	})
}

func second(_ *Tensor, err error) error { return err }

// TestRectangularPooling: windows of 2 rows and 3 columns, 1 row and 2 columns apart,
// against a loop over [B,C,H,W].
func TestRectangularPooling(t *testing.T) {
	const h, w, kh, kw, sy, sx = 4, 7, 2, 3, 1, 2
	const oh, ow = (h-kh)/sy + 1, (w-kw)/sx + 1
	kernel, stride := [2]int{kh, kw}, [2]int{sy, sx}
	x, gy := make([]float32, h*w), make([]float32, oh*ow)
	for i := range x {
		x[i] = float32(i * 11 % 29) // all different
	}
	var top, mean []float32
	var at []int32
	gx := make([]float32, h*w)
	for o := range oh * ow {
		gy[o] = float32(o + 1)
		best, sum := -1, float32(0)
		for k := range kh * kw {
			p := (o/ow*sy+k/kw)*w + o%ow*sx + k%kw
			sum += x[p]
			if best < 0 || x[p] > x[best] {
				best = p
			}
		}
		top, mean, at = append(top, x[best]), append(mean, sum/(kh*kw)), append(at, int32(best))
		gx[best] += gy[o]
	}
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		a, g := keep(c.FromFloat32s(x, 1, 1, h, w)), keep(c.FromFloat32s(gy, 1, 1, oh, ow))
		y, index, err := c.MaxPool2D(a, kernel, stride)
		keep(y, err)
		for name, pair := range map[string][2][]float32{
			"max":      {must[[]float32](t)(y.Float32s()), top},
			"mean":     {must[[]float32](t)(keep(c.AvgPool2D(a, kernel, stride)).Float32s()), mean},
			"gradient": {must[[]float32](t)(keep(c.MaxPool2DBackward(g, a, kernel, stride)).Float32s()), gx},
		} {
			if !slices.EqualFunc(pair[0], pair[1], func(got, want float32) bool { return math.Abs(float64(got-want)) <= 1e-5 }) {
				t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
			}
		}
		if got := must[[]int32](t)(keep(index, nil).Int32s()); !slices.Equal(got, at) {
			t.Errorf("positions %v, want %v", got, at)
		}
	})
}

// Array is a value on the host.
type Array struct {
	Data  []float32
	Shape []int
}

// wave is a deterministic array.
func wave(shape ...int) Array {
	n := 1
	for _, d := range shape {
		n *= d
	}
	a := Array{Data: make([]float32, n), Shape: shape}
	for i := range a.Data {
		a.Data[i] = float32(math.Sin(float64(i)*0.37 + float64(len(shape)+n)))
	}
	return a
}
