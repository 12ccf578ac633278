// SPDX-License-Identifier: Apache-2.0

package preprocess

import "math"

// precision is the number of fractional bits of a fixed-point weight: 8 bits of
// sample, 22 of weight and 2 of head room for the negative lobes fill an int32.
const precision = 22

// filter is a resampling kernel and the radius it reaches at scale 1.
type filter struct {
	radius float64
	at     func(x float64) float64
}

// The conversions to float64 in the kernels forbid the fused multiply-add that
// the Go compiler uses on arm64: a last bit here may flip a rounded weight.

// lanczos3 is sinc(x) sinc(x/3), for shrinking.
var lanczos3 = &filter{3, func(x float64) float64 {
	if x < -3 || x >= 3 {
		return 0
	}
	return sinc(x) * sinc(x/3)
}}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

// bicubic is Keys' kernel with a = -0.5, for enlarging.
var bicubic = &filter{2, func(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return float64(float64(float64(float64((a+2)*x)-(a+3))*x)*x) + 1
	case x < 2:
		return float64(float64(float64(float64((x-5)*x)+8)*x)-4) * a
	}
	return 0
}}

// taps are the weights of one axis: output i is the sum over j of
// k[i*size+j] * input[lo[i]+j], j < n[i].
type taps struct {
	from, to, first, count int // what the table was made for
	filter                 *filter

	size  int
	lo, n []int
	k     []int32
	w     []float64
}

// prepare fills the table for outputs first to first+count-1 of an axis that is
// resized from one length to another. It keeps a table that is right already:
// the pictures of a sequence have one size.
func (t *taps) prepare(f *filter, from, to, first, count int) {
	if t.filter == f && t.from == from && t.to == to && t.first == first && t.count == count {
		return
	}
	t.filter, t.from, t.to, t.first, t.count = f, from, to, first, count
	scale := float64(from) / float64(to)
	wide := max(scale, 1) // shrinking widens the kernel: that is the antialiasing
	support := float64(wide * f.radius)
	t.size = 2*int(math.Ceil(support)) + 1
	t.lo, t.n = resized(t.lo, count), resized(t.n, count)
	t.k, t.w = resized(t.k, count*t.size), resized(t.w, t.size)
	for i := range count {
		centre := float64((float64(first+i) + 0.5) * scale)
		lo := max(int(centre-support+0.5), 0)
		n := min(int(centre+support+0.5), from) - lo
		t.lo[i], t.n[i] = lo, n
		sum := 0.0
		for j := range n {
			t.w[j] = f.at(float64((float64(j+lo) - centre + 0.5) * (1 / wide)))
			sum += t.w[j]
		}
		for j := range n {
			t.k[i*t.size+j] = fixed(t.w[j] / sum)
		}
	}
}

// fixed rounds half away from zero.
func fixed(w float64) int32 {
	w = float64(w * (1 << precision))
	if w < 0 {
		return int32(w - 0.5)
	}
	return int32(w + 0.5)
}

// resized returns s with length n, reusing its memory.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
