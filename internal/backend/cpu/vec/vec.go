// SPDX-License-Identifier: Apache-2.0

package vec

import "math"

// Exp writes e^src with a relative error of at most 2e-7; overflow gives +Inf,
// underflow subnormals and 0.
func Exp(dst, src []float32) {
	if n := check(dst, src); n > 0 && !kExp(&dst[0], &src[0], n) {
		mapGo(dst, src[:n], math.Exp)
	}
}

// Expm1 writes e^src - 1, accurate near 0 (relative error at most 3e-7).
func Expm1(dst, src []float32) {
	if n := check(dst, src); n > 0 && !kExpm1(&dst[0], &src[0], n) {
		mapGo(dst, src[:n], math.Expm1)
	}
}

// Erf writes the error function with an absolute error of at most 3e-7 and a
// relative one of at most 7e-7.
func Erf(dst, src []float32) {
	if n := check(dst, src); n > 0 && !kErf(&dst[0], &src[0], n) {
		mapGo(dst, src[:n], math.Erf)
	}
}

// GELU writes src/2 (1 + erf(src/sqrt 2)), the exact form (network.md 4), with
// an absolute error of at most 3e-7.
func GELU(dst, src []float32) {
	if n := check(dst, src); n > 0 && !kGelu(&dst[0], &src[0], n) {
		mapGo(dst, src[:n], geluGo)
	}
}

// Sigmoid writes 1/(1 + e^-src).
func Sigmoid(dst, src []float32) {
	if n := check(dst, src); n > 0 && !kSigmoid(&dst[0], &src[0], n) {
		mapGo(dst, src[:n], sigmoid64)
	}
}

// Tanh writes the hyperbolic tangent, relatively accurate near 0.
func Tanh(dst, src []float32) {
	if n := check(dst, src); n > 0 && !kTanh(&dst[0], &src[0], n) {
		mapGo(dst, src[:n], math.Tanh)
	}
}

// ReLU writes max(src, 0); NaN stays NaN.
func ReLU(dst, src []float32) {
	if n := check(dst, src); n > 0 && !kRelu(&dst[0], &src[0], n) {
		mapGo(dst, src[:n], relu64)
	}
}

// check panics when src is shorter than dst and returns the length of dst.
func check(dst, src []float32) int {
	_ = src[:len(dst)]
	return len(dst)
}

// Add writes x + y.
func Add(dst, x, y []float32) {
	n := len(dst)
	x, y = x[:n], y[:n]
	if n > 0 && !kAdd(&dst[0], &x[0], &y[0], n) {
		for i := range dst {
			dst[i] = x[i] + y[i]
		}
	}
}

// Sub writes x - y.
func Sub(dst, x, y []float32) {
	n := len(dst)
	x, y = x[:n], y[:n]
	if n > 0 && !kSub(&dst[0], &x[0], &y[0], n) {
		for i := range dst {
			dst[i] = x[i] - y[i]
		}
	}
}

// Mul writes x * y.
func Mul(dst, x, y []float32) {
	n := len(dst)
	x, y = x[:n], y[:n]
	if n > 0 && !kMul(&dst[0], &x[0], &y[0], n) {
		for i := range dst {
			dst[i] = x[i] * y[i]
		}
	}
}

// Div writes x / y, correctly rounded.
func Div(dst, x, y []float32) {
	n := len(dst)
	x, y = x[:n], y[:n]
	if n > 0 && !kDiv(&dst[0], &x[0], &y[0], n) {
		for i := range dst {
			dst[i] = x[i] / y[i]
		}
	}
}

// Scale writes s * src.
func Scale(dst, src []float32, s float32) {
	if n := check(dst, src); n > 0 && !kScale(&dst[0], &src[0], n, s) {
		for i := range dst {
			dst[i] = s * src[i]
		}
	}
}

// Affine writes scale*src + shift, the product rounded before the sum.
func Affine(dst, src []float32, scale, shift float32) {
	if n := check(dst, src); n > 0 && !kAffine(&dst[0], &src[0], n, scale, shift) {
		for i := range dst {
			dst[i] = float32(scale*src[i]) + shift
		}
	}
}

// Axpy adds s*src to dst.
func Axpy(dst, src []float32, s float32) {
	if n := check(dst, src); n > 0 && !kAxpy(&dst[0], &src[0], n, s) {
		for i := range dst {
			dst[i] = float32(float64(s)*float64(src[i]) + float64(dst[i]))
		}
	}
}

// Dot returns the scalar product of x and y, over len(x) elements.
func Dot(x, y []float32) float32 {
	n := len(x)
	y = y[:n]
	if n == 0 {
		return 0
	}
	if s, ok := kDot(&x[0], &y[0], n); ok {
		return s
	}
	return dotGo(x, y)
}

// SoftmaxExp writes exp(scale (src - max src)) and returns the sum of what it
// wrote; dividing by it is left to the caller, who often has a shorter row to
// divide. scale must be positive.
func SoftmaxExp(dst, src []float32, scale float32) float32 {
	n := check(dst, src)
	if n == 0 {
		return 0
	}
	if s, ok := kSoftmax(&dst[0], &src[0], n, scale); ok {
		return s
	}
	return softmaxGo(dst, src[:n], scale)
}

// LayerNorm writes (src - mean)/sqrt(var + eps) gamma + beta with the biased
// variance. Rows that are constant but for rounding come out right: mean and
// variance are those of the exact differences to a first mean.
func LayerNorm(dst, src, gamma, beta []float32, eps float32) {
	n := len(dst)
	src, gamma, beta = src[:n], gamma[:n], beta[:n]
	if n > 0 && !kLayerNorm(&dst[0], &src[0], &gamma[0], &beta[0], n, float32(n), eps) {
		layerNormGo(dst, src, gamma, beta, eps)
	}
}

// RMSNorm writes src/sqrt(mean(src^2) + eps) gamma.
func RMSNorm(dst, src, gamma []float32, eps float32) {
	n := len(dst)
	src, gamma = src[:n], gamma[:n]
	if n > 0 && !kRmsNorm(&dst[0], &src[0], &gamma[0], n, float32(n), eps) {
		rmsNormGo(dst, src, gamma, eps)
	}
}

// L2Normalize writes src divided by the larger of its length and floor, and
// returns the length. With floor 0 a zero vector gives NaN, as the networks'
// descriptors define it (network.md 8).
func L2Normalize(dst, src []float32, floor float32) float32 {
	n := check(dst, src)
	if n == 0 {
		return 0
	}
	if s, ok := kL2norm(&dst[0], &src[0], n, floor); ok {
		return s
	}
	return l2normGo(dst, src[:n], floor)
}

// Lerp4 interpolates bilinearly between four rows: wx leads from a to b and
// from c to d, wy from the first pair to the second. Weight 0 is exact.
func Lerp4(dst, a, b, c, d []float32, wx, wy float32) {
	n := len(dst)
	a, b, c, d = a[:n], b[:n], c[:n], d[:n]
	if n > 0 && !kLerp4(&dst[0], &a[0], &b[0], &c[0], &d[0], n, wx, wy) {
		lerp4Go(dst, a, b, c, d, wx, wy)
	}
}

// rotate turns the pairs (u, v) by the given angles into (du, dv); in place
// means du is u and dv is v.
func rotate(du, dv, u, v, cos, sin []float32) {
	n := len(du)
	dv, u, v, cos, sin = dv[:n], u[:n], v[:n], cos[:n], sin[:n]
	if n > 0 && !kRotate(&du[0], &dv[0], &u[0], &v[0], &cos[0], &sin[0], n) {
		rotateGo(du, dv, u, v, cos, sin)
	}
}

// RoPE2D applies the two-axis rotary embedding (network.md 4.1) to every head
// of a row. A head is four quarters u_y, v_y, u_x, v_x; the tables hold a
// quarter's cosines and sines for this token's row and column.
func RoPE2D(dst, src, cosY, sinY, cosX, sinX []float32) {
	q := len(cosY)
	src = src[:len(dst)]
	for i := 0; i+4*q <= len(dst); i += 4 * q {
		d, s := dst[i:i+4*q], src[i:i+4*q]
		rotate(d[:q], d[q:2*q], s[:q], s[q:2*q], cosY, sinY)
		rotate(d[2*q:3*q], d[3*q:], s[2*q:3*q], s[3*q:], cosX, sinX)
	}
}
