// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
)

// kernel is one function, written once for every isa: body emits it through the
// methods of asm, which know the instruction set.
type kernel struct {
	name string
	args []arg
	ret  string
	body func(a *asm)
}

const f32p = "*float32"

// args lists names and types by turns.
func args(l ...string) []arg {
	var r []arg
	for i := 0; i < len(l); i += 2 {
		r = append(r, arg{l[i], l[i+1]})
	}
	return r
}

// exp replaces x by e^x: x = n ln2 + r with |r| <= ln2/2, a degree-6
// polynomial of r (Cephes expf), and a scaling by 2^n. The clamps keep n in
// range and turn infinities into overflow and underflow; NaN passes them.
func exp(a *asm, x reg) {
	n, t := a.reg(), a.reg()
	a.set(t, konst(-105))
	a.op("max", x, t, x)
	a.set(t, konst(90))
	a.op("min", x, t, x)
	a.op("mul", n, x, konst(math.Log2E))
	a.un("round", n, n)
	a.op("fnma", x, n, konst(0.693359375))
	a.op("fnma", x, n, konst(-2.12194440e-4))
	a.horner(t, x, konst(1.9875691500e-4), konst(1.3981999507e-3), konst(8.3334519073e-3),
		konst(4.1665795894e-2), konst(1.6666665459e-1), konst(5.0000001201e-1), konst(1), konst(1))
	a.scale(x, t, n)
	a.free(n, t)
}

// expm1 replaces x by e^x - 1. With q = e^r - 1 the result is
// 2^n q + (2^n - 1), which keeps every bit near 0, where n = 0. Half of it is
// formed first, so that 2^n never overflows where the result does not.
func expm1(a *asm, x reg) {
	n, t, z := a.reg(), a.reg(), a.reg()
	a.un("mov", z, x)
	a.set(t, konst(-30))
	a.op("max", x, t, x)
	a.set(t, konst(89))
	a.op("min", x, t, x)
	a.op("mul", n, x, konst(math.Log2E))
	a.un("round", n, n)
	a.op("fnma", x, n, konst(0.693359375))
	a.op("fnma", x, n, konst(-2.12194440e-4))
	a.horner(t, x, konst(1.9875691500e-4), konst(1.3981999507e-3), konst(8.3334519073e-3),
		konst(4.1665795894e-2), konst(1.6666665459e-1), konst(5.0000001201e-1))
	s := a.reg()
	a.op("mul", s, x, x)
	a.op("fma", x, s, t) // q = r + r^2 P(r)
	a.op("add", n, n, konst(-1))
	a.pow2(s, n)
	a.op("add", t, s, konst(-0.5))
	a.op("fma", t, s, x)
	a.op("add", x, t, t)
	// Halving loses bits of a subnormal; there e^x - 1 is x itself.
	a.op("and", t, z, kbits(0x7fffffff))
	a.selectLess(x, t, konst(0x1p-60), z)
	a.free(n, t, z, s)
}

// erfc leaves exp(-z^2) (a1 t + ... + a5 t^5), t = 1/(1 + p z), in d for
// z >= 0: Abramowitz and Stegun 7.1.26, absolute error 1.5e-7.
func erfc(a *asm, d, z reg) {
	t, e := a.reg(), a.reg()
	a.set(t, konst(1))
	a.set(e, konst(1))
	a.op("fma", t, z, konst(0.3275911))
	a.op("div", t, e, t)
	a.horner(d, t, konst(1.061405429), konst(-1.453152027), konst(1.421413741), konst(-0.284496736), konst(0.254829592))
	a.op("mul", d, d, t)
	a.op("mul", e, z, z)
	a.op("xor", e, e, kbits(0x80000000))
	a.free(t)
	exp(a, e)
	a.op("mul", d, d, e)
	a.free(e)
}

// absClamp leaves min(|x| * f, lim) in d, NaN kept.
func absClamp(a *asm, d, x reg, f, lim float64) {
	t := a.kreg(konst(lim))
	a.op("mul", d, x, konst(f))
	a.op("and", d, d, kbits(0x7fffffff))
	a.op("min", d, t, d)
	a.free(t)
}

// gelu replaces x by x/2 (1 + erf(x/sqrt 2)) = max(x, 0) - |x|/2 erfc(|x|/sqrt 2),
// a form without cancellation on either side.
func gelu(a *asm, x reg) {
	z, d := a.reg(), a.reg()
	absClamp(a, z, x, math.Sqrt2/2, 14) // erfc(14) is 0 in float32
	erfc(a, d, z)
	a.op("mul", d, d, z)
	a.set(z, konst(0))
	a.op("max", x, z, x)
	a.op("fnma", x, d, konst(math.Sqrt2/2))
	a.free(z, d)
}

// erf replaces x by sign(x) (1 - erfc(|x|)), or near 0 by the power series.
func erf(a *asm, x reg) {
	z, d := a.reg(), a.reg()
	absClamp(a, z, x, 1, 14)
	erfc(a, d, z)
	a.set(z, konst(1))
	a.op("sub", d, z, d)
	copySign(a, d, x, z)
	// Below 1/2 the power series: 1 - erfc would lose the small results.
	t, p := a.reg(), a.reg()
	a.op("mul", t, x, x)
	var coef []any
	for _, f := range []float64{-1320, 216, -42, 10, -3, 1} {
		coef = append(coef, konst(2/math.Sqrt(math.Pi)/f))
	}
	a.horner(p, t, coef...)
	a.op("mul", p, p, x)
	a.op("and", t, x, kbits(0x7fffffff))
	a.selectLess(d, t, 0.5, p)
	a.un("mov", x, d)
	a.free(z, d, t, p)
}

// copySign gives the non-negative d the sign of x; t is scratch.
func copySign(a *asm, d, x, t reg) {
	a.op("and", t, x, kbits(0x80000000))
	a.op("or", d, d, t)
}

// sigmoid replaces x by 1/(1 + e^-x). Where e^-x overflows, below -88.7, the
// result is 0 and not the subnormal it should be.
func sigmoid(a *asm, x reg) {
	o := a.reg()
	a.op("xor", x, x, kbits(0x80000000))
	exp(a, x)
	a.op("add", x, x, konst(1))
	a.set(o, konst(1))
	a.op("div", x, o, x)
	a.free(o)
}

// tanh x = sign(x) m / (m + 2) with m = e^(2|x|) - 1: relative accuracy near 0.
func tanh(a *asm, x reg) {
	m, t := a.reg(), a.reg()
	absClamp(a, m, x, 2, 40)
	expm1(a, m)
	a.op("add", t, m, konst(2))
	a.op("div", m, m, t)
	copySign(a, m, x, t)
	a.un("mov", x, m)
	a.free(m, t)
}

// relu replaces x by max(0, x), in the order that keeps NaN.
func relu(a *asm, x reg) {
	z := a.kreg(konst(0))
	a.op("max", x, z, x)
	a.free(z)
}

// unary is dst[i] = f(src[i]). Elements are independent, so that the processor
// overlaps the long dependency chains of several of them by itself and nothing
// is gained by unrolling.
func unary(name string, f func(a *asm, x reg)) kernel {
	return kernel{name, args("dst", f32p, "src", f32p, "n", "int"), "", func(a *asm) {
		d, s := a.ptr(0, "dst"), a.ptr(1, "src")
		a.loop(1, []string{d, s}, func(int) {
			x := a.reg()
			a.load(x, s)
			f(a, x)
			a.store(x, d)
			a.free(x)
		})
	}}
}

// binary is dst[i] = x[i] op y[i]: bound by memory, unrolled by two to spread the
// loop's own instructions.
func binary(name, op string) kernel {
	return kernel{name, args("dst", f32p, "x", f32p, "y", f32p, "n", "int"), "", func(a *asm) {
		d, s, t := a.ptr(0, "dst"), a.ptr(1, "x"), a.ptr(2, "y")
		a.loop(2, []string{d, s, t}, func(int) {
			x, y := a.reg(), a.reg()
			a.load(x, s)
			a.load(y, t)
			a.op(op, x, x, y)
			a.store(x, d)
			a.free(x, y)
		})
	}}
}

// affine is dst = scale*src + shift, rounded twice (graph.Affine).
var affine = kernel{"affine", args("dst", f32p, "src", f32p, "n", "int", "scale", "float32", "shift", "float32"), "", func(a *asm) {
	d, s := a.ptr(0, "dst"), a.ptr(1, "src")
	sc, sh := a.scalar("scale"), a.scalar("shift")
	a.loop(2, []string{d, s}, func(int) {
		x := a.reg()
		a.load(x, s)
		a.op("mul", x, x, sc)
		a.op("add", x, x, sh)
		a.store(x, d)
		a.free(x)
	})
	a.free(sc, sh)
}}

// scale is dst = s*src.
var scale = kernel{"scale", args("dst", f32p, "src", f32p, "n", "int", "s", "float32"), "", func(a *asm) {
	d, s := a.ptr(0, "dst"), a.ptr(1, "src")
	sc := a.scalar("s")
	a.loop(2, []string{d, s}, func(int) {
		x := a.reg()
		a.load(x, s)
		a.op("mul", x, x, sc)
		a.store(x, d)
		a.free(x)
	})
	a.free(sc)
}}

// axpy is dst += s*src.
var axpy = kernel{"axpy", args("dst", f32p, "src", f32p, "n", "int", "s", "float32"), "", func(a *asm) {
	d, p := a.ptr(0, "dst"), a.ptr(1, "src")
	s := a.scalar("s")
	a.loop(2, []string{d, p}, func(int) {
		x, y := a.reg(), a.reg()
		a.load(x, p)
		a.load(y, d)
		a.op("fma", y, x, s)
		a.store(y, d)
		a.free(x, y)
	})
	a.free(s)
}}

// accumulators hands out n registers that hold the neutral element k. Several
// of them hide the latency of the sum; which element goes to which depends on
// its position in the row alone.
func accumulators(a *asm, n int, k any) []reg {
	s := make([]reg, n)
	for i := range s {
		s[i] = a.kreg(k)
	}
	return s
}

// total folds the accumulators into the first and reduces its lanes.
func total(a *asm, op string, s []reg) reg {
	for n := len(s); n > 1; n /= 2 {
		for i := range n / 2 {
			a.op(op, s[i], s[i], s[i+n/2])
		}
	}
	a.reduce(op, s[0])
	a.free(s[1:]...)
	return s[0]
}

// dot returns the sum of x*y over four accumulators, then lanes.
var dot = kernel{"dot", args("x", f32p, "y", f32p, "n", "int"), "float32", func(a *asm) {
	p, q := a.ptr(0, "x"), a.ptr(1, "y")
	s := accumulators(a, 4, konst(0))
	a.loop(4, []string{p, q}, func(u int) {
		x, y := a.reg(), a.reg()
		a.load(x, p)
		a.load(y, q)
		a.acc("fma", s[u], x, y)
		a.free(x, y)
	})
	r := total(a, "add", s)
	a.ret(r)
	a.free(r)
}}

// softmax is x = exp(scale (x - max x)), unnormalised, returning the sum.
var softmax = kernel{"softmax", args("dst", f32p, "src", f32p, "n", "int", "scale", "float32"), "float32", func(a *asm) {
	p := a.ptr(1, "src")
	m := accumulators(a, 4, konst(math.Inf(-1)))
	a.loop(4, []string{p}, func(u int) {
		x := a.reg()
		a.load(x, p)
		a.acc("max", m[u], x, 0)
		a.free(x)
	})
	mx := total(a, "max", m)
	sc := a.scalar("scale")
	s := accumulators(a, 2, konst(0))
	d, p := a.ptr(0, "dst"), a.ptr(1, "src")
	a.loop(2, []string{d, p}, func(u int) {
		x := a.reg()
		a.load(x, p)
		a.op("sub", x, x, mx)
		a.op("mul", x, x, sc)
		exp(a, x)
		a.acc("add", s[u], x, 0)
		a.store(x, d)
		a.free(x)
	})
	r := total(a, "add", s)
	a.ret(r)
	a.free(r, mx, sc)
}}

// layerNorm normalises a row. The mean is found twice: the first one rounds,
// and a row that is nearly constant (a picture of one grey level) has a spread
// smaller than that rounding. The second pass works on the exact differences
// to the first mean and corrects mean and variance by their own mean.
var layerNorm = kernel{"layerNorm", args("dst", f32p, "src", f32p, "gamma", f32p, "beta", f32p, "n", "int", "nf", "float32", "eps", "float32"), "", func(a *asm) {
	p := a.ptr(1, "src")
	nf := a.scalar("nf")
	s := accumulators(a, 4, konst(0))
	a.loop(4, []string{p}, func(u int) {
		x := a.reg()
		a.load(x, p)
		a.acc("add", s[u], x, 0)
		a.free(x)
	})
	mean := total(a, "add", s)
	a.op("div", mean, mean, nf)
	s, q := accumulators(a, 2, konst(0)), accumulators(a, 2, konst(0))
	p = a.ptr(1, "src")
	a.loop(2, []string{p}, func(u int) {
		x := a.reg()
		a.load(x, p)
		a.op("sub", x, x, mean)
		a.acc("add", s[u], x, 0)
		a.acc("fma", q[u], x, x)
		a.free(x)
	})
	m1, v := total(a, "add", s), total(a, "add", q)
	a.op("div", m1, m1, nf)
	a.op("div", v, v, nf)
	a.op("fnma", v, m1, m1)
	rstdOf(a, v)
	d, p, g, b := a.ptr(0, "dst"), a.ptr(1, "src"), a.ptr(2, "gamma"), a.ptr(3, "beta")
	a.loop(2, []string{d, p, g, b}, func(int) {
		x, y, z := a.reg(), a.reg(), a.reg()
		a.load(x, p)
		a.load(y, g)
		a.load(z, b)
		a.op("sub", x, x, mean)
		a.op("sub", x, x, m1)
		a.op("mul", x, x, v)
		a.op("fma", z, x, y)
		a.store(z, d)
		a.free(x, y, z)
	})
	a.free(nf, mean, m1, v)
}}

// rstdOf replaces the variance v by 1/sqrt(v + eps); a variance that rounding
// made negative counts as 0.
func rstdOf(a *asm, v reg) {
	t, e := a.kreg(konst(0)), a.scalar("eps")
	a.op("max", v, t, v)
	a.op("add", v, v, e)
	a.un("sqrt", v, v)
	a.set(t, konst(1))
	a.op("div", v, t, v)
	a.free(t, e)
}

// rmsNorm is dst = src / sqrt(mean(src^2) + eps) * gamma.
var rmsNorm = kernel{"rmsNorm", args("dst", f32p, "src", f32p, "gamma", f32p, "n", "int", "nf", "float32", "eps", "float32"), "", func(a *asm) {
	p := a.ptr(1, "src")
	nf := a.scalar("nf")
	s := accumulators(a, 4, konst(0))
	a.loop(4, []string{p}, func(u int) {
		x := a.reg()
		a.load(x, p)
		a.acc("fma", s[u], x, x)
		a.free(x)
	})
	v := total(a, "add", s)
	a.op("div", v, v, nf)
	a.free(nf)
	rstdOf(a, v)
	d, p, g := a.ptr(0, "dst"), a.ptr(1, "src"), a.ptr(2, "gamma")
	a.loop(2, []string{d, p, g}, func(int) {
		x, y := a.reg(), a.reg()
		a.load(x, p)
		a.load(y, g)
		a.op("mul", x, x, v)
		a.op("mul", x, x, y)
		a.store(x, d)
		a.free(x, y)
	})
	a.free(v)
}}

// l2norm is dst = src / max(|src|, floor), returning |src|.
var l2norm = kernel{"l2norm", args("dst", f32p, "src", f32p, "n", "int", "floor", "float32"), "float32", func(a *asm) {
	p := a.ptr(1, "src")
	s := accumulators(a, 2, konst(0))
	a.loop(2, []string{p}, func(u int) {
		x := a.reg()
		a.load(x, p)
		a.acc("fma", s[u], x, x)
		a.free(x)
	})
	v := total(a, "add", s)
	a.un("sqrt", v, v)
	a.ret(v)
	f := a.scalar("floor")
	a.op("max", v, f, v)
	a.free(f)
	d, p := a.ptr(0, "dst"), a.ptr(1, "src")
	a.loop(2, []string{d, p}, func(int) {
		x := a.reg()
		a.load(x, p)
		a.op("div", x, x, v)
		a.store(x, d)
		a.free(x)
	})
	a.free(v)
}}

// lerp4 interpolates between four rows: t = a + wx (b - a), u = c + wx (d - c),
// dst = t + wy (u - t). A weight of 0 returns the first row exactly.
var lerp4 = kernel{"lerp4", args("dst", f32p, "a", f32p, "b", f32p, "c", f32p, "d", f32p, "n", "int", "wx", "float32", "wy", "float32"), "", func(a *asm) {
	o, pa, pb, pc, pd := a.ptr(0, "dst"), a.ptr(1, "a"), a.ptr(2, "b"), a.ptr(3, "c"), a.ptr(4, "d")
	wx, wy := a.scalar("wx"), a.scalar("wy")
	a.loop(2, []string{o, pa, pb, pc, pd}, func(int) {
		w, x, y, z := a.reg(), a.reg(), a.reg(), a.reg()
		a.load(w, pa)
		a.load(x, pb)
		a.load(y, pc)
		a.load(z, pd)
		a.op("sub", x, x, w)
		a.op("sub", z, z, y)
		a.op("fma", w, x, wx)
		a.op("fma", y, z, wx)
		a.op("sub", y, y, w)
		a.op("fma", w, y, wy)
		a.store(w, o)
		a.free(w, x, y, z)
	})
	a.free(wx, wy)
}}

// rotate turns the pairs (u, v) by the angles whose cosine and sine are given
// (RoPE, network.md 4.1): u' = u cos - v sin, v' = v cos + u sin.
var rotate = kernel{"rotate", args("du", f32p, "dv", f32p, "u", f32p, "v", f32p, "cos", f32p, "sin", f32p, "n", "int"), "", func(a *asm) {
	du, dv, pu, pv, pc, ps := a.ptr(0, "du"), a.ptr(1, "dv"), a.ptr(2, "u"), a.ptr(3, "v"), a.ptr(4, "cos"), a.ptr(5, "sin")
	a.loop(1, []string{du, dv, pu, pv, pc, ps}, func(int) {
		u, v, c, s, x, y := a.reg(), a.reg(), a.reg(), a.reg(), a.reg(), a.reg()
		a.load(u, pu)
		a.load(v, pv)
		a.load(c, pc)
		a.load(s, ps)
		a.op("mul", x, u, c)
		a.op("fnma", x, v, s)
		a.op("mul", y, v, c)
		a.op("fma", y, u, s)
		a.store(x, du)
		a.store(y, dv)
		a.free(u, v, c, s, x, y)
	})
}}

// kernels are all functions, in the order of the files.
var kernels = []kernel{
	unary("exp", exp), unary("expm1", expm1), unary("erf", erf), unary("gelu", gelu),
	unary("sigmoid", sigmoid), unary("tanh", tanh), unary("relu", relu),
	binary("add", "add"), binary("sub", "sub"), binary("mul", "mul"), binary("div", "div"),
	scale, affine, axpy, dot, softmax, layerNorm, rmsNorm, l2norm, lerp4, rotate,
	winogradIn, winogradOut, narrow,
	f16ToF32, f32ToF16, bf16ToF32, f32ToBF16, u8ToF32,
}

// signature is the parameter list in Go.
func (k kernel) signature() string {
	s := ""
	for i, g := range k.args {
		if i > 0 {
			s += ", "
		}
		s += g.name + " " + g.typ
	}
	return fmt.Sprintf("(%s)", s)
}
