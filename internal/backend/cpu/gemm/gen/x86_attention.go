// SPDX-License-Identifier: Apache-2.0

package main

import "math"

// 2^f on 0 <= f <= 1 as polynomials that are exactly 1 at 0, so that the largest
// weight of a softmax is: least squares with Lawson weights towards the smallest
// largest relative error, coefficients rounded to float32 from the first to the
// last. exp2C is off by 8.3e-8, a float32's rounding; exp2Short by 8.6e-5, a 20th
// of the rounding to bfloat16 that follows it.
var (
	exp2C     = []float64{1, 0.693151295185, 0.240164592862, 0.0557995140553, 0.00901748146862, 0.00186695158482}
	exp2Short = []float64{1, 0.695116758347, 0.227645069361, 0.0770669877529}
)

// exp2 replaces register i by 2^i, for values <= 0; t to t+2 are work registers.
// The integral part goes into the exponent, the rest through the polynomial. The
// register low holds the limit below which the result is zero; the operand order
// of MAXPS keeps a NaN.
func (x x86) exp2(i, t, low int) {
	n, p, keep := t, t+1, t+2
	x.p("VCMPPS $5, Y%d, Y%d, Y%d", low, i, keep) // not less than
	x.p("VMAXPS Y%d, Y%d, Y%d", i, low, i)
	x.p("VROUNDPS $9, Y%d, Y%d", i, n) // down
	x.p("VSUBPS Y%d, Y%d, Y%d", n, i, i)
	x.horner(p, i, exp2C)
	x.p("VCVTPS2DQ Y%d, Y%d", n, n)
	x.p("VPSLLD $23, Y%d, Y%d", n, n)
	x.p("VPADDD Y%d, Y%d, Y%d", n, p, i) // p is in [1, 2]: its exponent takes n
	x.p("VANDPS Y%d, Y%d, Y%d", keep, i, i)
}

// rowMax leaves the largest elements of each lane of the row at SI, R8 floats long,
// in register 0, after it has added the mask at BX, if there is one.
func (x x86) rowMax() {
	step := 2 * x.bytes
	x.p("VBROADCASTSS %s, %s", x.f(math.Inf(-1)), x.r(0))
	x.p("VMOVAPS %s, %s", x.r(0), x.r(1))
	x.p("TESTQ BX, BX")
	x.p("JZ max")
	x.p("VBROADCASTSS %s, %s", x.f(math.Log2E), x.r(4))
	x.label("mask")
	for v := range 2 {
		x.p("VMOVUPS %d(SI), %s", v*x.bytes, x.r(2+v))
		x.p("VFMADD231PS %d(BX), %s, %s", v*x.bytes, x.r(4), x.r(2+v))
		x.p("VMOVUPS %s, %d(SI)", x.r(2+v), v*x.bytes)
		x.p("VMAXPS %s, %s, %s", x.r(2+v), x.r(v), x.r(v))
	}
	x.p("ADDQ $%d, SI", step)
	x.p("ADDQ $%d, BX", step)
	x.p("SUBQ $%d, R8", step/4)
	x.p("JNZ mask")
	x.p("JMP reduced")
	x.label("max")
	for v := range 2 {
		x.p("VMAXPS %d(SI), %s, %s", v*x.bytes, x.r(v), x.r(v))
	}
	x.p("ADDQ $%d, SI", step)
	x.p("SUBQ $%d, R8", step/4)
	x.p("JNZ max")
	x.label("reduced")
	x.p("VMAXPS %s, %s, %s", x.r(1), x.r(0), x.r(0))
}

// softmax writes a function of sargs for one row.
func (x x86) softmax() {
	const low = -125 // the result must be a normal number
	step := 2 * x.bytes
	x.text(x.name+"Softmax", "sargs")
	x.p("MOVQ p+0(FP), DI")
	x.p("MOVQ (DI), AX")
	x.p("MOVQ 8(DI), CX")
	x.p("MOVQ 16(DI), BX")
	x.p("LEAQ ·consts(SB), R11")
	x.p("MOVQ AX, SI")
	x.p("MOVQ CX, R8")
	x.rowMax()
	x.reduce("VMAXPS")
	x.p("VBROADCASTSS X0, %s", x.r(15))
	x.p("VBROADCASTSS %s, %s", x.f(low), x.r(14))
	x.zero(12)
	x.zero(13)
	x.label("exp")
	for v := range 2 {
		x.p("VMOVUPS %d(AX), %s", v*x.bytes, x.r(v))
		x.p("VSUBPS %s, %s, %s", x.r(15), x.r(v), x.r(v))
		x.exp2(v, 2+3*v, 14)
		x.p("VADDPS %s, %s, %s", x.r(v), x.r(12+v), x.r(12+v))
		x.p("VMOVUPS %s, %d(AX)", x.r(v), v*x.bytes)
	}
	x.p("ADDQ $%d, AX", step)
	x.p("SUBQ $%d, CX", step/4)
	x.p("JNZ exp")
	x.p("VADDPS %s, %s, %s", x.r(13), x.r(12), x.r(0))
	x.reduce("VADDPS")
	x.p("MOVQ 24(DI), DX")
	x.p("VMOVSS X0, (DX)")
	x.p("VZEROUPPER")
	x.p("RET")
}

// softmaxRows writes a function of sargs for all rows, with AVX-512. The largest
// elements of all rows come first: the search in one row does not wait for
// another's, whereas the exponentials of a row wait for its own search. Negated,
// they wait where the sums will be.
//
// VREDUCEPS gives the argument without its integral part and VSCALEFPS multiplies
// by two to the power of that part, at any size, with -Inf and NaN.
func (x x86) softmaxRows(name string, c []float64, short bool) {
	x.text(name, "sargs")
	x.p("MOVQ p+0(FP), DI")
	x.p("MOVQ (DI), AX")
	x.p("MOVQ 8(DI), CX")
	x.p("MOVQ 16(DI), BX")
	x.p("MOVQ 24(DI), R10") // sum
	x.p("MOVQ 32(DI), DX")  // rows
	x.p("MOVQ 40(DI), R9")  // ld
	x.p("MOVQ 48(DI), R13") // max
	x.p("LEAQ ·consts(SB), R11")
	x.p("MOVQ AX, R12")
	x.label("row")
	x.p("TESTQ R13, R13")
	x.p("JZ search")
	x.p("VMOVUPS (R13), Y0")
	x.p("ADDQ $32, R13")
	x.reduceHalf("VMAXPS")
	x.p("JMP found")
	x.label("search")
	x.p("MOVQ R12, SI")
	x.p("MOVQ CX, R8")
	x.rowMax()
	x.reduce("VMAXPS")
	x.label("found")
	x.p("VXORPS %s, X0, X0", x.at(1<<31))
	x.p("VMOVSS X0, (R10)")
	x.p("ADDQ $4, R10")
	x.p("ADDQ R9, R12")
	x.p("DECQ DX")
	x.p("JNZ row")
	x.p("MOVQ 24(DI), R10")
	x.p("MOVQ 32(DI), DX")
	for i, v := range c {
		x.p("VBROADCASTSS %s, Z%d", x.f(v), 20+i)
	}
	x.p("VBROADCASTSS %s, Z28", x.f(1))
	x.label("weights")
	x.p("VBROADCASTSS (R10), Z31")
	x.zero(18)
	x.zero(19)
	x.p("MOVQ AX, SI")
	x.p("MOVQ AX, R12") // bfloat16 takes half of the room
	x.p("MOVQ CX, R8")
	x.label("exp")
	x.exp2Pair(c, short)
	if short {
		// VCVTNE2PS2BF16 zmm1, zmm2, zmm3: EVEX.512.F2.0F38.W0 72 /r
		x.p("%s // VCVTNE2PS2BF16 Z0, Z3, Z0", evex(2, 3, 0x72, 0, 3, 0))
		x.p("VMOVUPS Z0, (R12)")
		x.p("ADDQ $64, R12")
	} else {
		x.p("VMOVUPS Z0, (SI)")
		x.p("VMOVUPS Z3, 64(SI)")
	}
	x.p("ADDQ $128, SI")
	x.p("SUBQ $32, R8")
	x.p("JNZ exp")
	x.p("VADDPS Z19, Z18, Z0")
	x.reduce("VADDPS")
	x.p("VMOVSS X0, (R10)")
	x.p("ADDQ $4, R10")
	x.p("ADDQ R9, AX")
	x.p("DECQ DX")
	x.p("JNZ weights")
	x.p("VZEROUPPER")
	x.p("RET")
}

// exp2Pair takes two vectors at SI to Z0 and Z3 and adds them to Z18 and Z19. Z31
// is what to add first, Z28 is 1; the coefficients are in Z20 and up. A product by
// 1 adds in the units that multiply: those that only add are the busier ones on
// Zen 4, where VREDUCEPS and VSCALEFPS take two turns of them each.
func (x x86) exp2Pair(c []float64, short bool) {
	both := func(format string, f func(r, v int) []any) {
		for v := range 2 {
			x.p(format, f(3*v, v)...)
		}
	}
	if short {
		both("VMOVAPS Z31, Z%d", func(r, _ int) []any { return []any{r} })
		both("VFMADD231PS %d(SI), Z28, Z%d", func(r, v int) []any { return []any{v * 64, r} })
	} else {
		both("VADDPS %d(SI), Z31, Z%d", func(r, v int) []any { return []any{v * 64, r} })
	}
	both("VREDUCEPS $9, Z%d, Z%d", func(r, _ int) []any { return []any{r, r + 1} }) // less what rounds down
	both("VMOVAPS Z%d, Z%d", func(r, _ int) []any { return []any{20 + len(c) - 1, r + 2} })
	for j := len(c) - 2; j >= 0; j-- {
		both("VFMADD213PS Z%d, Z%d, Z%d", func(r, _ int) []any { return []any{20 + j, r + 1, r + 2} })
	}
	both("VSCALEFPS Z%d, Z%d, Z%d", func(r, _ int) []any { return []any{r, r + 2, r} })
	both("VFMADD231PS Z%d, Z28, Z%d", func(r, v int) []any { return []any{r, 18 + v} })
}

// prefetchRows is how many rows ahead the functions that read parts of rows of a
// wider matrix ask for. A part is shorter than what makes the processor foresee
// the next one.
const prefetchRows = 8

// rope writes a function of rargs.
func (x x86) rope() {
	x.text("vecRope", "rargs")
	x.p("MOVQ p+0(FP), R8")
	x.p("MOVQ (R8), DI")
	x.p("MOVQ 8(R8), SI")
	x.p("MOVQ 16(R8), AX")
	x.p("MOVQ 24(R8), BX")
	x.p("MOVQ 32(R8), DX")
	x.p("VBROADCASTSS 40(R8), Y7")
	x.p("MOVQ 48(R8), R12") // rows
	x.p("LEAQ (DX*4), R9")  // from u to v
	x.p("MOVQ 64(R8), R13") // row stride of the source
	x.p("IMUL3Q $%d, R13, R13", prefetchRows)
	x.p("LEAQ (R13)(R9*1), R11")
	x.label("row")
	x.p("MOVQ $2, R10")
	x.label("half")
	x.p("MOVQ DX, CX")
	x.label("loop")
	x.p("PREFETCHT0 (SI)(R13*1)")
	x.p("PREFETCHT0 (SI)(R11*1)")
	x.p("VMOVUPS (SI), Y0")
	x.p("VMOVUPS (SI)(R9*1), Y1")
	x.p("VMOVUPS (AX), Y2")
	x.p("VMOVUPS (BX), Y3")
	x.p("VMULPS Y3, Y1, Y4")
	x.p("VFMSUB231PS Y2, Y0, Y4") // u*cos - v*sin
	x.p("VMULPS Y3, Y0, Y5")
	x.p("VFMADD231PS Y2, Y1, Y5") // v*cos + u*sin
	x.p("VMULPS Y7, Y4, Y4")
	x.p("VMULPS Y7, Y5, Y5")
	x.p("VMOVUPS Y4, (DI)")
	x.p("VMOVUPS Y5, (DI)(R9*1)")
	for _, r := range []string{"SI", "AX", "BX", "DI"} {
		x.p("ADDQ $32, %s", r)
	}
	x.p("SUBQ $8, CX")
	x.p("JNZ loop")
	x.p("ADDQ R9, SI")
	x.p("ADDQ R9, DI")
	x.p("DECQ R10")
	x.p("JNZ half")
	x.p("ADDQ 56(R8), DI") // from the end of a row to the next row
	x.p("ADDQ 64(R8), SI")
	for range 4 {
		x.p("SUBQ R9, DI")
		x.p("SUBQ R9, SI")
	}
	x.p("DECQ R12")
	x.p("JNZ row")
	x.p("VZEROUPPER")
	x.p("RET")
}

// rowsOf begins a function of pargs: DI is the destination, SI the source, R9 its
// row stride, R13 prefetchRows of those, and CX the count.
func (x x86) rowsOf(name string) {
	x.text(name, "pargs")
	x.p("MOVQ p+0(FP), R8")
	x.p("MOVQ (R8), DI")
	x.p("MOVQ 8(R8), SI")
	x.p("MOVQ 16(R8), R9")
	x.p("MOVQ 24(R8), CX")
	x.p("IMUL3Q $%d, R9, R13", prefetchRows)
	x.label("loop")
}

// copyRows writes a function of pargs that copies rows of 32 floats.
func (x x86) copyRows() {
	x.rowsOf("vecCopyRows")
	for i := range 4 {
		if i%2 == 0 {
			x.p("PREFETCHT0 %d(SI)(R13*1)", i*32)
		}
		x.p("VMOVUPS %d(SI), Y%d", i*32, i)
	}
	for i := range 4 {
		x.p("VMOVUPS Y%d, %d(DI)", i, i*32)
	}
	x.p("ADDQ R9, SI")
	x.p("ADDQ $128, DI")
	x.p("DECQ CX")
	x.p("JNZ loop")
	x.p("VZEROUPPER")
	x.p("RET")
}

// pairBF16 writes a function of pargs that rounds pairs of rows of 32 floats and
// interleaves them, the first row in the lower halves.
func (x x86) pairBF16() {
	x.rowsOf("avx512PairBF16")
	x.p("LEAQ (SI)(R9*1), BX")
	for v := range 2 {
		x.p("PREFETCHT0 %d(SI)(R13*1)", v*64)
		x.p("PREFETCHT0 %d(BX)(R13*1)", v*64)
		x.p("VMOVUPS %d(SI), Z0", v*64)
		x.p("VMOVUPS %d(BX), Z1", v*64)
		x.p("%s // VCVTNEPS2BF16 Z0, Y0", evex(2, 2, 0x72, 0, 0, 0))
		x.p("%s // VCVTNEPS2BF16 Z1, Y1", evex(2, 2, 0x72, 1, 0, 1))
		x.p("VPMOVZXWD Y0, Z0")
		x.p("VPMOVZXWD Y1, Z1")
		x.p("VPSLLD $16, Z1, Z1")
		x.p("VPORD Z1, Z0, Z0")
		x.p("VMOVDQU32 Z0, %d(DI)", v*64)
	}
	x.p("LEAQ (BX)(R9*1), SI")
	x.p("ADDQ $128, DI")
	x.p("DECQ CX")
	x.p("JNZ loop")
	x.p("VZEROUPPER")
	x.p("RET")
}

// emitScores writes a function of qargs. The products of attention are as short as
// a head, so that what surrounds the loop over their steps weighs: it goes on to
// the next mr rows by itself, and it finds the largest scores while they are in
// registers, with units that idle otherwise.
func (k x86Kernel) emitScores(a *asm) {
	bases := x86Bases[:(k.mr+2)/3]
	a.text(k.name, "qargs")
	a.p("MOVQ p+0(FP), DI")
	a.p("MOVQ 8(DI), R8")   // lda
	a.p("MOVQ 24(DI), CX")  // c
	a.p("MOVQ 32(DI), R12") // ldc
	a.p("MOVQ 48(DI), R13") // groups
	a.label("group")
	a.p("MOVQ 64(DI), SI") // next
	for range 2 {
		for i := range 4 {
			a.p("PREFETCHT0 %d(SI)", i*64)
		}
		a.p("ADDQ 72(DI), SI")
	}
	a.p("MOVQ SI, 64(DI)")
	a.p("MOVQ (DI), AX")
	for g := 1; g < len(bases); g++ {
		a.p("LEAQ (%s)(R8*2), %s", bases[g-1], bases[g])
		a.p("ADDQ R8, %s", bases[g])
	}
	a.p("MOVQ 16(DI), BX") // b
	for i := range k.mr {
		for v := range 2 {
			z := k.acc(i, v)
			a.p("VPXORD %s, %s, %s", z, z, z)
		}
	}
	a.p("IMUL3Q $%d, R8, SI", k.mr)
	a.p("ADDQ SI, (DI)")
	k.loop(a, bases)
	a.label("next")
	a.p("MOVQ 56(DI), SI") // max
	for i := 0; i < k.mr; i += 2 {
		for r := range 2 {
			a.p("VMOVUPS %s, (CX)", k.acc(i+r, 0))
			a.p("VMOVUPS %s, %d(CX)", k.acc(i+r, 1), k.bytes)
			a.p("ADDQ R12, CX")
			a.p("VMAXPS %s, %s, Z%d", k.acc(i+r, 0), k.acc(i+r, 1), r)
		}
		// Half a vector for each of two rows, since stores are dear.
		a.p("VSHUFF64X2 $0x44, Z1, Z0, Z2")
		a.p("VSHUFF64X2 $0xee, Z1, Z0, Z3")
		a.p("VMAXPS Z2, Z3, Z2")
		a.p("VMAXPS %d(SI), Z2, Z2", i*32)
		a.p("VMOVUPS Z2, %d(SI)", i*32)
	}
	a.p("ADDQ $%d, SI", 32*k.mr)
	a.p("MOVQ SI, 56(DI)")
	a.p("DECQ R13")
	a.p("JNZ group")
	a.p("VZEROUPPER")
	a.p("RET")
}
