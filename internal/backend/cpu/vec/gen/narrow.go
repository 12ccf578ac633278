// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// narrow writes bias plus the scalar products of max(x, floor) with four rows that
// are ld bytes apart: one pass over x, with a chain of multiply-adds for each row.
var narrow = kernel{"narrow", args("dst", f32p, "x", f32p, "w", f32p, "bias", f32p, "ld", "int", "n", "int", "floor", "float32"), "", func(a *asm) {
	dst, x, bias, ld := a.ptr(0, "dst"), a.ptr(1, "x"), a.ptr(3, "bias"), a.ptr(4, "ld")
	w := []string{a.ptr(2, "w"), a.work(5), a.work(6), a.work(7)}
	for i := range 3 {
		a.move(w[i+1], w[i])
		a.advance(w[i+1], ld)
	}
	floor := a.scalar("floor")
	var s [4]reg
	for i := range s {
		s[i] = a.kreg(konst(0))
	}
	// What a tail lacks reads as zero in both factors, or as zero times floor.
	a.loop(1, append([]string{x}, w...), func(int) {
		r, t := a.reg(), a.reg()
		a.load(r, x)
		a.op("max", r, floor, r)
		for i := range s {
			a.load(t, w[i])
			a.op("fma", s[i], r, t)
		}
		a.free(r, t)
	})
	for i := range s {
		a.reduce("add", s[i])
		if a.x86 {
			a.p("VADDSS %d(%s), X%d, X%d", 4*i, bias, s[i], s[i])
			a.p("VMOVSS X%d, %d(%s)", s[i], 4*i, dst)
			continue
		}
		a.p("FMOVS %d(%s), F30", 4*i, bias)
		a.p("FADDS F30, F%d, F%d", s[i], s[i])
		a.p("FMOVS F%d, %s", s[i], fmt.Sprintf("%d(%s)", 4*i, dst))
	}
	a.free(s[:]...)
	a.free(floor)
}}
