// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// The two-dimensional transforms of Winograd's F(4x4, 3x3) of one tile, on
// vectors of channels: both passes of six one-dimensional transforms, with the
// values between them in a square of 6x6 vectors that stays in the first-level
// cache. See package vec for the matrices. Interpolation at 0, +-a, +-b and
// infinity makes their rows sums and differences of the same two terms.
const (
	pointA = 5.0 / 8
	pointB = 3.0 / 2
)

// hold keeps constants in registers where there are enough of them.
func (a *asm) hold(ks ...float64) (l []any, free func()) {
	var rs []reg
	for _, k := range ks {
		if a.isa == avx2 {
			l = append(l, konst(k))
			continue
		}
		rs = append(rs, a.kreg(konst(k)))
		l = append(l, rs[len(rs)-1])
	}
	return l, func() { a.free(rs...) }
}

// work is pointer register i, which holds no argument.
func (a *asm) work(i int) string {
	if a.x86 {
		return x86Ptrs[i]
	}
	return neonPtrs[i]
}

// move and advance are the arithmetic of pointers; by is a register or $number.
func (a *asm) move(d, s string) {
	a.p(map[bool]string{true: "MOVQ", false: "MOVD"}[a.x86]+" %s, %s", s, d)
}

func (a *asm) advance(p, by string) {
	a.p(map[bool]string{true: "ADDQ", false: "ADD"}[a.x86]+" %s, %s", by, p)
}

// spill and fill move whole vectors to and from the square, in a tail too.
func (a *asm) spill(x reg, off int, p string) {
	if a.x86 {
		a.p("VMOVUPS %s, %d(%s)", a.r(x), off, p)
	} else {
		a.p("FMOVQ F%d, %d(%s)", x, off, p)
	}
}

func (a *asm) fill(d reg, off int, p string) {
	if a.x86 {
		a.p("VMOVUPS %d(%s), %s", off, p, a.r(d))
	} else {
		a.p("FMOVQ %d(%s), F%d", off, p, d)
	}
}

// times repeats body n times.
func (a *asm) times(n int, body func()) {
	top := a.newLabel("times")
	if a.x86 {
		a.p("MOVQ $%d, AX", n)
		a.label(top)
		body()
		a.p("DECQ AX")
		a.p("JNE %s", top)
		return
	}
	a.p("MOVD $%d, R12", n)
	a.label(top)
	body()
	a.p("SUBS $1, R12")
	a.p("BNE %s", top)
}

// fused leaves x + y*k or, for fnma, x - y*k in a new register.
func (a *asm) fused(name string, x, y reg, k any) reg {
	d := a.reg()
	a.un("mov", d, x)
	a.op(name, d, y, k)
	return d
}

// transformIn hands the six values of B^T x to put, in order: the values at +-a
// are e +- a o with e = x4 - b^2 x2 and o = x3 - b^2 x1, and likewise at +-b.
func transformIn(a *asm, x [6]reg, k []any, put func(i int, y reg)) {
	pa, pb, aa, bb, sum, prod := k[0], k[1], k[2], k[3], k[4], k[5]
	y := a.fused("fnma", x[4], x[2], sum)
	a.op("fma", y, x[0], prod)
	put(0, y)
	a.free(y)
	for i, c := range [][2]any{{bb, pa}, {aa, pb}} {
		e, o := a.fused("fnma", x[4], x[2], c[0]), a.fused("fnma", x[3], x[1], c[0])
		y := a.fused("fma", e, o, c[1])
		put(2*i+1, y)
		a.op("fnma", e, o, c[1])
		put(2*i+2, e)
		a.free(y, e, o)
	}
	a.op("fnma", x[5], x[3], sum)
	a.op("fma", x[5], x[1], prod)
	put(5, x[5])
}

// transformOut hands the four values of A^T x to put, in order, and loses x.
func transformOut(a *asm, x [6]reg, k []any, put func(i int, y reg)) {
	s, t := a.reg(), a.reg()
	a.op("add", s, x[1], x[2])
	a.op("sub", x[1], x[1], x[2])
	a.op("add", t, x[3], x[4])
	a.op("sub", x[3], x[3], x[4])
	a.op("add", x[0], x[0], s)
	a.op("add", x[0], x[0], t)
	put(0, x[0])
	a.op("mul", x[0], x[1], k[0])
	a.op("fma", x[0], x[3], k[1])
	put(1, x[0])
	a.op("mul", x[0], s, k[2])
	a.op("fma", x[0], t, k[3])
	put(2, x[0])
	a.op("fma", x[5], x[1], k[4])
	a.op("fma", x[5], x[3], k[5])
	put(3, x[5])
	a.free(s, t)
}

// winogradIn writes B^T max(x, floor) B of 6x6 pixels x, sx bytes apart, with
// skip bytes more from the end of a line to the next; the value at row i and
// column j goes to v + (6j+i)*sv.
var winogradIn = kernel{"winogradIn", args("v", f32p, "x", f32p, "sv", "int", "sx", "int", "skip", "int", "square", f32p,
	"n", "int", "floor", "float32"), "", func(a *asm) {
	v, x, sv, sx, skip, square := a.ptr(0, "v"), a.ptr(1, "x"), a.ptr(2, "sv"), a.ptr(3, "sx"), a.ptr(4, "skip"), a.ptr(5, "square")
	cursor, to, size := a.work(6), a.work(7), a.lanes*4
	floor := a.scalar("floor")
	k, free := a.hold(pointA, pointB, pointA*pointA, pointB*pointB, pointA*pointA+pointB*pointB, pointA*pointA*pointB*pointB)
	a.loop(1, []string{v, x}, func(int) {
		var r [6]reg
		for i := range r {
			r[i] = a.reg()
		}
		a.move(cursor, x)
		a.move(to, square)
		a.times(6, func() {
			for i := range r {
				a.load(r[i], cursor)
				a.op("max", r[i], floor, r[i])
				a.advance(cursor, sx)
			}
			a.advance(cursor, skip)
			transformIn(a, r, k, func(i int, y reg) { a.spill(y, i*size, to) })
			a.advance(to, fmt.Sprintf("$%d", 6*size))
		})
		a.move(cursor, v)
		a.move(to, square)
		a.times(6, func() {
			for i := range r {
				a.fill(r[i], 6*i*size, to)
			}
			transformIn(a, r, k, func(i int, y reg) {
				a.store(y, cursor)
				a.advance(cursor, sv)
			})
			a.advance(to, fmt.Sprintf("$%d", size))
		})
		a.free(r[:]...)
	})
	free()
	a.free(floor)
}}

// winogradOut writes max(A^T m A + bias, floor) of 6x6 values, that at row i and
// column j from m + (6j+i)*sm, to 4x4 pixels y, sx bytes apart, with skip bytes
// more from the end of a line to the next.
var winogradOut = kernel{"winogradOut", args("y", f32p, "m", f32p, "sm", "int", "sx", "int", "skip", "int", "square", f32p,
	"bias", f32p, "n", "int", "floor", "float32"), "", func(a *asm) {
	y, m, sm, sx, skip, square := a.ptr(0, "y"), a.ptr(1, "m"), a.ptr(2, "sm"), a.ptr(3, "sx"), a.ptr(4, "skip"), a.ptr(5, "square")
	bias, cursor, to, size := a.ptr(6, "bias"), a.work(7), a.work(8), a.lanes*4
	floor := a.scalar("floor")
	k, free := a.hold(pointA, pointB, pointA*pointA, pointB*pointB, pointA*pointA*pointA, pointB*pointB*pointB)
	a.loop(1, []string{y, m, bias}, func(int) {
		var r [6]reg
		for i := range r {
			r[i] = a.reg()
		}
		a.move(cursor, m)
		a.move(to, square)
		a.times(6, func() {
			for i := range r {
				a.load(r[i], cursor)
				a.advance(cursor, sm)
			}
			transformOut(a, r, k, func(i int, v reg) { a.spill(v, i*size, to) })
			a.advance(to, fmt.Sprintf("$%d", 4*size))
		})
		b := a.reg()
		a.load(b, bias)
		a.move(cursor, y)
		a.move(to, square)
		a.times(4, func() {
			for i := range r {
				a.fill(r[i], 4*i*size, to)
			}
			transformOut(a, r, k, func(_ int, v reg) {
				a.op("add", v, v, b)
				a.op("max", v, floor, v)
				a.store(v, cursor)
				a.advance(cursor, sx)
			})
			a.advance(cursor, skip)
			a.advance(to, fmt.Sprintf("$%d", size))
		})
		a.free(b)
		a.free(r[:]...)
	})
	free()
	a.free(floor)
}}
