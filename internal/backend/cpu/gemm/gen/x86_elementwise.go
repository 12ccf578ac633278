// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
)

// consts is a table of float32 constants, each repeated to fill 32 bytes: a
// memory operand of AVX2 as it stands, and a broadcast operand of AVX-512.
type consts struct {
	index map[uint32]int
	order []uint32
}

func (c *consts) at(bits uint32) string {
	i, ok := c.index[bits]
	if !ok {
		i = len(c.order)
		c.index[bits] = i
		c.order = append(c.order, bits)
	}
	return fmt.Sprintf("%d(R11)", i*32)
}

func (c *consts) f(x float64) string { return c.at(math.Float32bits(float32(x))) }

func (c *consts) emit(a *asm) {
	fmt.Fprintln(&a.code)
	for i, b := range c.order {
		for j := range 4 {
			fmt.Fprintf(&a.code, "DATA ·consts+%d(SB)/8, $0x%08x%08x\n", i*32+j*8, b, b)
		}
	}
	fmt.Fprintf(&a.code, "GLOBL ·consts(SB), RODATA|NOPTR, $%d\n", len(c.order)*32)
}

// x86 writes elementwise code for one vector length.
type x86 struct {
	*asm
	*consts
	name  string
	v     string // register prefix
	bytes int
}

func x86Elementwise(a *asm) {
	c := &consts{index: map[uint32]int{}}
	for _, x := range []x86{{a, c, "avx512", "Z", 64}, {a, c, "avx2", "Y", 32}} {
		x.epilogue()
	}
	x86{a, c, "avx512", "Z", 64}.softmaxRows("avx512Softmax", exp2C, false)
	x86{a, c, "avx512", "Z", 64}.softmaxRows("avx512SoftmaxBF16", exp2Short, true)
	x := x86{a, c, "avx2", "Y", 32}
	x.softmax()
	x.transpose("F32")
	x.transpose("F16")
	x.rope()
	x.copyRows()
	x.addRows()
	x.convert("FromF16", func(off int) {
		x.p("VCVTPH2PS %d(SI), Y0", off/2)
		x.p("VMOVUPS Y0, %d(DI)", off)
	}, 16, 32)
	x.convert("FromBF16", func(off int) {
		x.p("VPMOVZXWD %d(SI), Y0", off/2)
		x.p("VPSLLD $16, Y0, Y0")
		x.p("VMOVUPS Y0, %d(DI)", off)
	}, 16, 32)
	x.unpairBF16()
	x.relu()
	x.scale()
	x.toBF16()
	x.spreadBF16()
	x.pairBF16()
	c.emit(a)
}

func (x x86) r(i int) string { return fmt.Sprintf("%s%d", x.v, i) }

func (x x86) zero(i int) {
	if x.v == "Z" {
		x.p("VPXORD Z%d, Z%d, Z%d", i, i, i)
	} else {
		x.p("VXORPS Y%d, Y%d, Y%d", i, i, i)
	}
}

// op writes an instruction whose first operand is a constant in memory.
func (x x86) op(name, c string, regs ...int) {
	s := name
	if x.v == "Z" {
		s += ".BCST"
	}
	s += " " + c
	for _, r := range regs {
		s += ", " + x.r(r)
	}
	x.p("%s", s)
}

// erf(w) is approximated by w*P(w²)/Q(w²) on |w| <= 3.95 and limited to ±1, which
// the approximation just exceeds at the end: beyond it, GELU is exactly 0 or x.
// Coefficients: least squares with Lawson weights towards the smallest largest
// error, 1.5e-9 before rounding. The constant term of Q is 1.
const erfMax = 3.95

var (
	erfP = []float64{1.12837918125, 0.184712966568, 0.0543018242005, 0.003835661662, 0.000381336866048, 4.74369073707e-6, -1.34725620221e-8}
	erfQ = []float64{1, 0.497031138847, 0.11379985318, 0.0154409506296, 0.00130698514023, 6.36627557863e-5}
)

// gelu replaces register i by its GELU, with work registers t, t+1, t+2, t+3.
func (x x86) gelu(i, t int) {
	w, s, p, q := t, t+1, t+2, t+3
	x.op("VMULPS", x.f(1/math.Sqrt2), i, w)
	x.op("VMAXPS", x.f(-erfMax), w, w)
	x.op("VMINPS", x.f(erfMax), w, w)
	x.p("VMULPS %s, %s, %s", x.r(w), x.r(w), x.r(s))
	x.horner(p, s, erfP)
	x.horner(q, s, erfQ)
	x.p("VMULPS %s, %s, %s", x.r(w), x.r(p), x.r(p))
	x.p("VDIVPS %s, %s, %s", x.r(q), x.r(p), x.r(p))
	x.op("VMAXPS", x.f(-1), p, p)
	x.op("VMINPS", x.f(1), p, p)
	x.op("VMULPS", x.f(0.5), i, i)
	x.p("VFMADD231PS %s, %s, %s", x.r(p), x.r(i), x.r(i))
}

// horner evaluates the polynomial c in s into p.
func (x x86) horner(p, s int, c []float64) {
	x.p("VBROADCASTSS %s, %s", x.f(c[len(c)-1]), x.r(p))
	for j := len(c) - 2; j >= 0; j-- {
		x.op("VFMADD213PS", x.f(c[j]), s, p)
	}
}

// epilogue writes a function of eargs: two vectors at a time.
func (x x86) epilogue() {
	x.text(x.name+"Epilogue", "eargs")
	x.p("MOVQ p+0(FP), DI")
	x.p("MOVQ (DI), AX")      // tile
	x.p("MOVQ 8(DI), CX")     // rows
	x.p("MOVQ 16(DI), DX")    // c
	x.p("MOVQ 24(DI), R12")   // ldc
	x.p("MOVBQZX 32(DI), R8") // act
	x.p("MOVQ 40(DI), BX")    // gamma
	x.p("MOVQ 48(DI), SI")    // res
	x.p("MOVQ 56(DI), R9")    // ldr
	x.p("MOVQ 64(DI), R10")   // scale
	x.p("LEAQ ·consts(SB), R11")
	x.zero(2)
	x.label("row")
	for g := range 64 / x.bytes {
		x.columns(g)
	}
	x.p("ADDQ $128, AX")
	x.p("ADDQ R12, DX")
	x.p("TESTQ SI, SI")
	x.p("JZ nores")
	x.p("ADDQ R9, SI")
	x.label("nores")
	x.p("TESTQ R10, R10")
	x.p("JZ noscale")
	x.p("ADDQ $4, R10")
	x.label("noscale")
	x.p("DECQ CX")
	x.p("JNZ row")
	x.p("VZEROUPPER")
	x.p("RET")
}

// columns handles the vectors 2g and 2g+1 of a row.
func (x x86) columns(g int) {
	off := func(v int) int { return (2*g + v) * x.bytes }
	both := func(format string, f func(v int) []any) {
		for v := range 2 {
			x.p(format, f(v)...)
		}
	}
	both("VMOVUPS %d(AX), %s", func(v int) []any { return []any{off(v), x.r(v)} })
	x.p("TESTQ R10, R10")
	x.p("JZ unscaled%d", g)
	x.p("VBROADCASTSS (R10), %s", x.r(3))
	both("VMULPS %s, %s, %s", func(v int) []any { return []any{x.r(3), x.r(v), x.r(v)} })
	x.label("unscaled%d", g)
	x.p("CMPQ R8, $1")
	x.p("JLT linear%d", g)
	x.p("JGT gelu%d", g)
	// The operand order makes MAXPS return a NaN of x.
	both("VMAXPS %s, %s, %s", func(v int) []any { return []any{x.r(v), x.r(2), x.r(v)} })
	x.p("JMP linear%d", g)
	x.label("gelu%d", g)
	for v := range 2 {
		x.gelu(v, 4+4*v)
	}
	x.label("linear%d", g)
	x.p("TESTQ BX, BX")
	x.p("JZ ungained%d", g)
	both("VMULPS %d(BX), %s, %s", func(v int) []any { return []any{off(v), x.r(v), x.r(v)} })
	x.label("ungained%d", g)
	x.p("TESTQ SI, SI")
	x.p("JZ store%d", g)
	both("VADDPS %d(SI), %s, %s", func(v int) []any { return []any{off(v), x.r(v), x.r(v)} })
	x.label("store%d", g)
	both("VMOVUPS %s, %d(DX)", func(v int) []any { return []any{x.r(v), off(v)} })
}

// reduce combines the elements of register 0 in its lowest one.
func (x x86) reduce(op string) {
	if x.v == "Z" {
		x.p("VEXTRACTF64X4 $1, Z0, Y1")
		x.p("%s Y1, Y0, Y0", op)
	}
	x.reduceHalf(op)
}

// reduceHalf combines the first eight elements.
func (x x86) reduceHalf(op string) {
	x.p("VEXTRACTF128 $1, Y0, X1")
	x.p("%s X1, X0, X0", op)
	x.p("VPERMILPS $0x4e, X0, X1")
	x.p("%s X1, X0, X0", op)
	x.p("VPERMILPS $0xb1, X0, X1")
	x.p("%s X1, X0, X0", op)
}

// transpose writes a function of targs. 8 rows x 4 columns at a time: rows i and
// i+4 share a register, so that transposing inside the two lanes is enough.
func (x x86) transpose(typ string) {
	step := map[string]int{"F32": 128, "F16": 64}[typ]
	x.text("vecTranspose"+typ, "targs")
	x.p("MOVQ p+0(FP), DI")
	x.p("MOVQ 8(DI), AX")
	x.p("MOVQ 16(DI), R8")
	x.p("MOVQ 24(DI), CX")
	x.p("MOVQ (DI), DI")
	x.p("LEAQ (R8)(R8*2), R9")
	x.label("loop")
	x.p("MOVQ AX, SI")
	for rb := range 4 {
		x.p("LEAQ (SI)(R8*4), BX")
		for half := range 2 {
			for i, index := range []string{"", "(R8*1)", "(R8*2)", "(R9*1)"} {
				x.p("VMOVUPS %d(SI)%s, X%d", half*16, index, i)
				x.p("VINSERTF128 $1, %d(BX)%s, Y%d, Y%d", half*16, index, i, i)
			}
			x.p("VUNPCKLPS Y1, Y0, Y4")
			x.p("VUNPCKHPS Y1, Y0, Y5")
			x.p("VUNPCKLPS Y3, Y2, Y6")
			x.p("VUNPCKHPS Y3, Y2, Y7")
			x.p("VUNPCKLPD Y6, Y4, Y8")
			x.p("VUNPCKHPD Y6, Y4, Y9")
			x.p("VUNPCKLPD Y7, Y5, Y10")
			x.p("VUNPCKHPD Y7, Y5, Y11")
			for i := range 4 {
				if typ == "F16" {
					x.p("VCVTPS2PH $0, Y%d, %d(DI)", 8+i, (4*half+i)*step+rb*16)
				} else {
					x.p("VMOVUPS Y%d, %d(DI)", 8+i, (4*half+i)*step+rb*32)
				}
			}
		}
		if rb < 3 {
			x.p("LEAQ (BX)(R8*4), SI")
		}
	}
	x.p("ADDQ $32, AX")
	x.p("ADDQ $%d, DI", 8*step)
	x.p("SUBQ $8, CX")
	x.p("JNZ loop")
	x.p("VZEROUPPER")
	x.p("RET")
}

// convert writes a function of vargs: body handles 8 elements at a byte offset of
// the destination.
func (x x86) convert(name string, body func(off int), srcStep, dstStep int) {
	x.text("vec"+name, "vargs")
	x.p("MOVQ p+0(FP), R8")
	x.p("MOVQ (R8), DI")
	x.p("MOVQ 8(R8), SI")
	x.p("MOVQ 16(R8), CX")
	x.p("VBROADCASTSS 24(R8), Y7")
	x.p("VXORPS Y6, Y6, Y6")
	x.label("loop")
	body(0)
	body(32)
	x.p("ADDQ $%d, SI", 2*srcStep)
	x.p("ADDQ $%d, DI", 2*dstStep)
	x.p("SUBQ $16, CX")
	x.p("JNZ loop")
	x.p("VZEROUPPER")
	x.p("RET")
}

// addRows writes a function of wargs: the columns of two panels, at last of one, stay in
// registers while the rows pass, each row a stream of its own for the prefetchers. The wider
// the piece of a row, the sooner they follow it.
func (x x86) addRows() {
	x.text("vecAddRows", "wargs")
	x.p("MOVQ p+0(FP), R8")
	for i, r := range []string{"DI", "AX", "SI", "BX", "R9", "CX", "R10"} { // y, ldy, x, b, ldb, n, steps
		x.p("MOVQ %d(R8), %s", i*8, r)
	}
	for _, panels := range []int{2, 1} {
		loop, row, next := fmt.Sprintf("loop%d", panels), fmt.Sprintf("row%d", panels), fmt.Sprintf("next%d", panels)
		sums := func(f func(at string, i int)) {
			for i := range 4 * panels {
				f(fmt.Sprintf("%d(DI)%s", i%4*32, []string{"", "(AX*1)"}[i/4]), i)
			}
		}
		x.label(loop)
		x.p("CMPQ CX, $%d", panels)
		x.p("JLT %s", next)
		sums(func(at string, i int) { x.p("VMOVUPS %s, Y%d", at, i) })
		x.p("MOVQ BX, R11")
		x.p("MOVQ SI, R12")
		x.p("MOVQ R10, R13")
		x.label(row)
		x.p("VBROADCASTSS (R12), Y8")
		for i := range 4 * panels {
			x.p("VFMADD231PS %d(R11), Y8, Y%d", i*32, i)
		}
		x.p("ADDQ R9, R11")
		x.p("ADDQ $4, R12")
		x.p("DECQ R13")
		x.p("JNZ %s", row)
		sums(func(at string, i int) { x.p("VMOVUPS Y%d, %s", i, at) })
		for range panels {
			x.p("ADDQ AX, DI")
		}
		x.p("ADDQ $%d, BX", panels*128)
		x.p("SUBQ $%d, CX", panels)
		x.p("JMP %s", loop)
		x.label(next)
	}
	x.p("VZEROUPPER")
	x.p("RET")
}

// unpairBF16 widens pairs of rows of 32 values, interleaved, to two rows each: n
// pairs. The bits of a bfloat16 are the upper half of a float32's.
func (x x86) unpairBF16() {
	x.text("vecUnpairBF16", "vargs")
	x.p("MOVQ p+0(FP), R8")
	x.p("MOVQ (R8), DI")
	x.p("MOVQ 8(R8), SI")
	x.p("MOVQ 16(R8), CX")
	x.p("VPCMPEQD Y7, Y7, Y7")
	x.p("VPSLLD $16, Y7, Y7")
	x.label("loop")
	for i := range 4 {
		x.p("VMOVDQU %d(SI), Y0", i*32)
		x.p("VPSLLD $16, Y0, Y1")
		x.p("VPAND Y7, Y0, Y0")
		x.p("VMOVDQU Y1, %d(DI)", i*32)
		x.p("VMOVDQU Y0, %d(DI)", 128+i*32)
	}
	x.p("ADDQ $128, SI")
	x.p("ADDQ $256, DI")
	x.p("DECQ CX")
	x.p("JNZ loop")
	x.p("VZEROUPPER")
	x.p("RET")
}

func (x x86) relu() {
	x.convert("ReLU", func(off int) {
		x.p("VMAXPS %d(SI), Y6, Y0", off)
		x.p("VMOVUPS Y0, %d(DI)", off)
	}, 32, 32)
}

func (x x86) scale() {
	x.convert("Scale", func(off int) {
		x.p("VMULPS %d(SI), Y7, Y0", off)
		x.p("VMOVUPS Y0, %d(DI)", off)
	}, 32, 32)
}

// toBF16 rounds 16 values per step; a source and a destination that begin at the
// same address are fine.
func (x x86) toBF16() {
	x.text("avx512ToBF16", "vargs")
	x.p("MOVQ p+0(FP), R8")
	x.p("MOVQ (R8), DI")
	x.p("MOVQ 8(R8), SI")
	x.p("MOVQ 16(R8), CX")
	x.label("loop")
	x.p("VMOVUPS (SI), Z0")
	// VCVTNEPS2BF16 ymm1, zmm0: EVEX.512.F3.0F38.W0 72 /r
	x.p("%s // VCVTNEPS2BF16 Z0, Y1", evex(2, 2, 0x72, 1, 0, 0))
	x.p("VMOVDQU Y1, (DI)")
	x.p("ADDQ $64, SI")
	x.p("ADDQ $32, DI")
	x.p("SUBQ $16, CX")
	x.p("JNZ loop")
	x.p("VZEROUPPER")
	x.p("RET")
}
