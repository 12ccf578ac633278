// SPDX-License-Identifier: Apache-2.0

package main

// The two one-dimensional transforms of Winograd's F(2, 3), on rows of channels
// (Lavin and Gray, arXiv 1509.09308). Two-dimensional ones apply them to the
// columns and then to the rows of a tile.

// winogradIn is B^T r for r after max(r, floor): r0-r2, r1+r2, r2-r1, r1-r3.
var winogradIn = kernel{"winogradIn", args("t0", f32p, "t1", f32p, "t2", f32p, "t3", f32p,
	"r0", f32p, "r1", f32p, "r2", f32p, "r3", f32p, "n", "int", "floor", "float32"), "", func(a *asm) {
	var t, r []string
	for i := range 4 {
		t = append(t, a.ptr(i, "t"+string(rune('0'+i))))
	}
	for i := range 4 {
		r = append(r, a.ptr(4+i, "r"+string(rune('0'+i))))
	}
	f := a.scalar("floor")
	a.loop(1, append(t[:4:4], r...), func(int) {
		var x [4]reg
		for i := range x {
			x[i] = a.reg()
			a.load(x[i], r[i])
			a.op("max", x[i], f, x[i])
		}
		y := a.reg()
		for i, o := range []struct {
			op   string
			p, q int
		}{{"sub", 0, 2}, {"add", 1, 2}, {"sub", 2, 1}, {"sub", 1, 3}} {
			a.op(o.op, y, x[o.p], x[o.q])
			a.store(y, t[i])
		}
		a.free(x[0], x[1], x[2], x[3], y)
	})
	a.free(f)
}}

// winogradSums leaves m0+m1+m2 and m1-m2-m3 in two new registers.
func winogradSums(a *asm, m []string) (y0, y1 reg) {
	y0, y1 = a.reg(), a.reg()
	x, z := a.reg(), a.reg()
	a.load(x, m[1])
	a.load(z, m[2])
	a.op("sub", y1, x, z)
	a.op("add", x, x, z)
	a.load(z, m[0])
	a.op("add", y0, z, x)
	a.load(z, m[3])
	a.op("sub", y1, y1, z)
	a.free(x, z)
	return y0, y1
}

func winogradPtrs(a *asm) (y, m []string) {
	for i := range 2 {
		y = append(y, a.ptr(i, "y"+string(rune('0'+i))))
	}
	for i := range 4 {
		m = append(m, a.ptr(2+i, "m"+string(rune('0'+i))))
	}
	return y, m
}

// winogradOut is A^T m: m0+m1+m2, m1-m2-m3.
var winogradOut = kernel{"winogradOut", args("y0", f32p, "y1", f32p, "m0", f32p, "m1", f32p, "m2", f32p, "m3", f32p, "n", "int"), "", func(a *asm) {
	y, m := winogradPtrs(a)
	a.loop(1, append(y[:2:2], m...), func(int) {
		y0, y1 := winogradSums(a, m)
		a.store(y0, y[0])
		a.store(y1, y[1])
		a.free(y0, y1)
	})
}}

// winogradBias is winogradOut with a bias and max(y, floor).
var winogradBias = kernel{"winogradBias", args("y0", f32p, "y1", f32p, "m0", f32p, "m1", f32p, "m2", f32p, "m3", f32p, "bias", f32p, "n", "int", "floor", "float32"), "", func(a *asm) {
	y, m := winogradPtrs(a)
	b := a.ptr(6, "bias")
	f := a.scalar("floor")
	a.loop(1, append(append(y[:2:2], m...), b), func(int) {
		y0, y1 := winogradSums(a, m)
		z := a.reg()
		a.load(z, b)
		for i, v := range []reg{y0, y1} {
			a.op("add", v, v, z)
			a.op("max", v, f, v)
			a.store(v, y[i])
		}
		a.free(y0, y1, z)
	})
	a.free(f)
}}
