// SPDX-License-Identifier: Apache-2.0

package vec

import "math"

// The portable forms. Functions of one number go through float64, so they are
// right to float32 rounding; sums run in float64 for the same reason.

func mapGo(dst, src []float32, f func(float64) float64) {
	for i, x := range src {
		dst[i] = float32(f(float64(x)))
	}
}

func gelu64(x float64) float64 {
	// erfc has no cancellation in the negative tail, 1+erf has.
	return 0.5 * x * math.Erfc(-x/math.Sqrt2)
}

// geluGo treats the infinities apart: 0 * inf is not the limit.
func geluGo(x float64) float64 {
	if math.IsInf(x, 0) {
		return max(x, 0)
	}
	return gelu64(x)
}

func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// relu64 keeps NaN, as comparisons alone would not.
func relu64(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}

func dotGo(x, y []float32) float32 {
	var s float64
	for i := range x {
		s += float64(x[i]) * float64(y[i])
	}
	return float32(s)
}

func softmaxGo(dst, src []float32, scale float32) float32 {
	m := math.Inf(-1)
	for _, v := range src {
		m = math.Max(m, float64(v))
	}
	var s float64
	for i, v := range src {
		e := math.Exp((float64(v) - m) * float64(scale))
		dst[i] = float32(e)
		s += e
	}
	return float32(s)
}

func layerNormGo(dst, src, gamma, beta []float32, eps float32) {
	var mean, v float64
	for _, x := range src {
		mean += float64(x)
	}
	mean /= float64(len(src))
	for _, x := range src {
		d := float64(x) - mean
		v += d * d
	}
	r := 1 / math.Sqrt(v/float64(len(src))+float64(eps))
	for i, x := range src {
		dst[i] = float32((float64(x)-mean)*r*float64(gamma[i]) + float64(beta[i]))
	}
}

func rmsNormGo(dst, src, gamma []float32, eps float32) {
	var v float64
	for _, x := range src {
		v += float64(x) * float64(x)
	}
	r := 1 / math.Sqrt(v/float64(len(src))+float64(eps))
	for i, x := range src {
		dst[i] = float32(float64(x) * r * float64(gamma[i]))
	}
}

func l2normGo(dst, src []float32, floor float32) float32 {
	var v float64
	for _, x := range src {
		v += float64(x) * float64(x)
	}
	norm := float32(math.Sqrt(v))
	d := max(norm, floor)
	for i, x := range src {
		dst[i] = x / d
	}
	return norm
}

func lerp4Go(dst, a, b, c, d []float32, wx, wy float32) {
	for i := range dst {
		t := a[i] + wx*(b[i]-a[i])
		u := c[i] + wx*(d[i]-c[i])
		dst[i] = t + wy*(u-t)
	}
}

func rotateGo(du, dv, u, v, cos, sin []float32) {
	for i := range u {
		x, y := u[i], v[i]
		du[i] = x*cos[i] - y*sin[i]
		dv[i] = y*cos[i] + x*sin[i]
	}
}
