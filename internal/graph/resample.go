// SPDX-License-Identifier: Apache-2.0

package graph

import "math"

// Tap is one input position that an output of Resize2D is made of.
type Tap struct {
	At     int
	Weight float64
}

// Taps are what each of the m outputs of an axis with n inputs is made of, by
// the coordinate rule of Resize2D; scale is the axis' ScaleH or ScaleW. Backends
// make their tables from it. Package ref has the rule once more, on purpose: it
// is what the tables are tested against.
func (o Resize2D) Taps(n, m int, scale float64) [][]Tap {
	all := make([][]Tap, m)
	for i := range all {
		if o.Mode == Nearest {
			all[i] = []Tap{{min(i*n/m, n-1), 1}}
			continue
		}
		r := o.source(i, n, m, scale)
		first := math.Floor(r)
		f := r - first
		weights := []float64{1 - f, f}
		if o.Mode == Bicubic {
			weights = []float64{cubicFar(1 + f), cubicNear(f), cubicNear(1 - f), cubicFar(2 - f)}
			first--
		}
		for j, w := range weights {
			all[i] = append(all[i], Tap{min(max(int(first)+j, 0), n-1), w})
		}
	}
	return all
}

// source is the coordinate in the input of output i on an axis n -> m.
func (o Resize2D) source(i, n, m int, scale float64) float64 {
	if o.AlignCorners {
		if m == 1 {
			return 0
		}
		return float64(i) * float64(n-1) / float64(m-1)
	}
	if scale == 0 {
		scale = float64(n) / float64(m)
	}
	r := (float64(i)+0.5)*scale - 0.5
	if o.Mode == Bilinear {
		r = max(r, 0)
	}
	// A huge scale must not overflow the index; taps are clamped to the edge.
	return min(r, float64(n+1))
}

// cubicNear and cubicFar are the cubic convolution kernel with a = -0.75 for
// |x| < 1 and 1 <= |x| < 2.
const cubicA = -0.75

func cubicNear(x float64) float64 { return ((cubicA+2)*x-(cubicA+3))*x*x + 1 }
func cubicFar(x float64) float64  { return ((cubicA*x-5*cubicA)*x+8*cubicA)*x - 4*cubicA }
