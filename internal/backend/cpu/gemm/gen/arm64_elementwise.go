// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
)

// Encodings of the vector arithmetic that the Go assembler lacks, .4S forms.
var neonOps = map[string]uint32{
	"FADD": 0x4e20d400, "FSUB": 0x4ea0d400, "FMUL": 0x6e20dc00, "FDIV": 0x6e20fc00,
	"FMAX": 0x4e20f400, "FMIN": 0x4ea0f400, "FMLA": 0x4e20cc00, "FMLS": 0x4ea0cc00,
	"FCMGE": 0x6e20e400, "FADDP": 0x6e20d400, "FMAXP": 0x6e20f400,
	// One source.
	"FRINTM": 0x4e219800, "FCVTNS": 0x4e21a800,
	"FCVTL": 0x0e217800, "FCVTL2": 0x4e217800, // half to single
	"FCVTN": 0x0e216800,                      // single to half
	"SHLL":  0x2e613800, "SHLL2": 0x6e613800, // 16 bits to 32, shifted left by 16
	"SHL23": 0x4f375400, // shift left by 23
}

// neonTypes are the operands of those with one source that are not .4S.
var neonTypes = map[string]neonType{
	"FCVTL": {"4S", "4H", ""}, "FCVTL2": {"4S", "8H", ""}, "FCVTN": {"4H", "4S", ""},
	"SHLL": {"4S", "4H", ", #16"}, "SHLL2": {"4S", "8H", ", #16"}, "SHL23": {"4S", "4S", ", #23"},
}

type neonType struct{ to, from, rest string }

// neonCode writes elementwise code; constants live in a table, each repeated to
// fill a register.
type neonCode struct {
	*asm
	*consts
}

func (x neonCode) three(op string, d, n, m int) {
	x.p("%s", neon(fmt.Sprintf("%s V%d.4S, V%d.4S, V%d.4S", op, d, n, m), neonOps[op], d, n, m))
}

func (x neonCode) two(op string, d, n int) {
	t := neonTypes[op]
	if t.to == "" {
		t = neonType{"4S", "4S", ""}
	}
	x.p("%s", neon(fmt.Sprintf("%s V%d.%s, V%d.%s%s", strings.TrimSuffix(op, "23"), d, t.to, n, t.from, t.rest), neonOps[op], d, n, 0))
}

func (x neonCode) move(d, n int) { x.p("VMOV V%d.B16, V%d.B16", n, d) }

// load puts constants into consecutive registers from d on.
func (x neonCode) load(d int, c ...float64) {
	for i, v := range c {
		x.f(v) // enters it into the table
		x.p("FMOVQ %d(R11), F%d", x.index[math.Float32bits(float32(v))]*16, d+i)
	}
}

func (x neonCode) emit() {
	fmt.Fprintln(&x.code)
	for i, b := range x.order {
		for j := range 2 {
			fmt.Fprintf(&x.code, "DATA ·consts+%d(SB)/8, $0x%08x%08x\n", i*16+j*8, b, b)
		}
	}
	fmt.Fprintf(&x.code, "GLOBL ·consts(SB), RODATA|NOPTR, $%d\n", len(x.order)*16)
}

func neonElementwise(a *asm) {
	x := neonCode{a, &consts{index: map[uint32]int{}}}
	x.epilogue()
	x.softmax()
	x.transpose("F32")
	x.transpose("F16")
	x.rope()
	x.copyRows()
	x.addRows()
	x.widen("FromF16", "FCVTL")
	x.widen("FromBF16", "SHLL")
	x.unpairBF16()
	x.toBF16()
	x.pairBF16()
	x.each("ReLU", func(i int) { x.three("FMAX", i, i, 8) })
	x.each("Scale", func(i int) { x.three("FMUL", i, i, 9) })
	x.emit()
}

// unpairBF16 is that of the x86 code.
func (x neonCode) unpairBF16() {
	x.text("vecUnpairBF16", "vargs")
	x.p("MOVD (R0), R1")
	x.p("MOVD 8(R0), R2")
	x.p("MOVD 16(R0), R3")
	x.p("VMOVI $255, V7.B16")
	x.p("VSHL $16, V7.S4, V7.S4")
	x.p("ADD $128, R1, R4")
	x.label("loop")
	for range 8 {
		x.p("VLD1.P 16(R2), [V0.S4]")
		x.p("VSHL $16, V0.S4, V1.S4")
		x.p("VAND V7.B16, V0.B16, V0.B16")
		x.p("VST1.P [V1.S4], 16(R1)")
		x.p("VST1.P [V0.S4], 16(R4)")
	}
	x.p("ADD $128, R1, R1")
	x.p("ADD $128, R4, R4")
	x.p("SUBS $1, R3, R3")
	x.p("BNE loop")
	x.p("RET")
}

// gelu replaces V0 and V1 by their GELU; its constants are in V12 to V29 (see
// epilogue). The formula is that of the x86 code.
func (x neonCode) gelu() {
	const rsqrt2, lim, neg, one, minus, half, p0, q0 = 12, 13, 14, 15, 16, 17, 18, 25
	for i := range 2 {
		w, s, p, q, t := 2, 3, 4, 5, 6
		x.three("FMUL", w, i, rsqrt2)
		x.three("FMAX", w, w, neg)
		x.three("FMIN", w, w, lim)
		x.three("FMUL", s, w, w)
		x.horner(p, t, s, p0, len(erfP))
		x.horner(q, t, s, q0, len(erfQ)-1)
		x.move(t, one)
		x.three("FMLA", t, q, s)
		x.three("FMUL", p, p, w)
		x.three("FDIV", p, p, t)
		x.three("FMAX", p, p, minus)
		x.three("FMIN", p, p, one)
		x.three("FMUL", i, i, half)
		x.three("FMLA", i, i, p)
	}
}

// horner evaluates the polynomial with n coefficients in registers c, c+1, ...
// and returns the register of the result: a if n is odd, or else b.
func (x neonCode) horner(a, b, s, c, n int) int {
	x.move(a, c+n-1)
	for j := n - 2; j >= 0; j-- {
		x.move(b, c+j)
		x.three("FMLA", b, a, s)
		a, b = b, a
	}
	return a
}

// epilogue writes a function of eargs.
func (x neonCode) epilogue() {
	x.text("neonEpilogue", "eargs")
	for i, r := range []string{"R1", "R2", "R3", "R4"} { // tile, rows, c, ldc
		x.p("MOVD %d(R0), %s", i*8, r)
	}
	x.p("MOVBU 32(R0), R5") // act
	x.p("MOVD 40(R0), R6")  // gamma
	x.p("MOVD 48(R0), R7")  // res
	x.p("MOVD 56(R0), R8")  // ldr
	x.p("MOVD 64(R0), R9")  // scale
	x.p("MOVD $·consts(SB), R11")
	x.p("VEOR V8.B16, V8.B16, V8.B16")
	x.p("CMP $2, R5")
	x.p("BNE row")
	x.load(12, 1/math.Sqrt2, erfMax, -erfMax, 1, -1, 0.5)
	x.load(18, erfP...)
	x.load(25, erfQ[1:]...)
	x.label("row")
	x.p("MOVD R3, R12")
	x.p("MOVD R6, R13")
	x.p("MOVD R7, R14")
	x.p("MOVD $4, R10")
	x.p("CBZ R9, column")
	x.p("VLD1R.P 4(R9), [V9.S4]")
	x.label("column")
	x.p("VLD1.P 32(R1), [V0.S4, V1.S4]")
	x.p("CBZ R9, unscaled")
	x.three("FMUL", 0, 0, 9)
	x.three("FMUL", 1, 1, 9)
	x.label("unscaled")
	x.p("CBZ R5, linear")
	x.p("CMP $2, R5")
	x.p("BEQ gelu")
	x.three("FMAX", 0, 0, 8)
	x.three("FMAX", 1, 1, 8)
	x.p("B linear")
	x.label("gelu")
	x.gelu()
	x.label("linear")
	x.p("CBZ R6, ungained")
	x.p("VLD1.P 32(R13), [V2.S4, V3.S4]")
	x.three("FMUL", 0, 0, 2)
	x.three("FMUL", 1, 1, 3)
	x.label("ungained")
	x.p("CBZ R7, store")
	x.p("VLD1.P 32(R14), [V2.S4, V3.S4]")
	x.three("FADD", 0, 0, 2)
	x.three("FADD", 1, 1, 3)
	x.label("store")
	x.p("VST1.P [V0.S4, V1.S4], 32(R12)")
	x.p("SUBS $1, R10, R10")
	x.p("BNE column")
	x.p("ADD R4, R3, R3")
	x.p("CBZ R7, nores")
	x.p("ADD R8, R7, R7")
	x.label("nores")
	x.p("SUBS $1, R2, R2")
	x.p("BNE row")
	x.p("RET")
}

// exp2 replaces register i by 2^i, for values <= 0, with the method of the x86
// code; V16 holds the lower limit and V20 to V25 the coefficients (see softmax).
func (x neonCode) exp2(i int) {
	const low, c0 = 16, 20
	n, a, b, zero := 4, 5, 6, 7
	// Ones where the result is zero. A NaN compares as false, so it is not cleared.
	x.three("FCMGE", zero, low, i)
	x.three("FMAX", i, i, low)
	x.two("FRINTM", n, i)
	x.three("FSUB", i, i, n)
	p := x.horner(a, b, i, c0, len(exp2C))
	x.two("FCVTNS", n, n)
	x.two("SHL23", n, n)
	x.p("VADD V%d.S4, V%d.S4, V%d.S4", n, p, i) // the exponent of p takes n
	x.p("WORD $0x%08x // BIC V%d.16B, V%d.16B, V%d.16B", 0x4e601c00|zero<<16|i<<5|i, i, i, zero)
}

// softmax writes a function of sargs for one row.
func (x neonCode) softmax() {
	x.text("neonSoftmax", "sargs")
	x.p("MOVD (R0), R1")
	x.p("MOVD 8(R0), R2")
	x.p("MOVD 16(R0), R3")
	x.p("MOVD $·consts(SB), R11")
	x.load(0, math.Inf(-1), math.Inf(-1))
	x.load(6, math.Log2E)
	x.p("MOVD R1, R4")
	x.p("MOVD R2, R5")
	x.label("max")
	x.p("VLD1 (R4), [V2.S4, V3.S4]")
	x.p("CBZ R3, unmasked")
	x.p("VLD1.P 32(R3), [V4.S4, V5.S4]")
	x.three("FMLA", 2, 4, 6)
	x.three("FMLA", 3, 5, 6)
	x.p("VST1 [V2.S4, V3.S4], (R4)")
	x.label("unmasked")
	x.three("FMAX", 0, 0, 2)
	x.three("FMAX", 1, 1, 3)
	x.p("ADD $32, R4")
	x.p("SUBS $8, R5, R5")
	x.p("BNE max")
	x.three("FMAX", 0, 0, 1)
	x.three("FMAXP", 0, 0, 0)
	x.three("FMAXP", 30, 0, 0) // all elements are the largest
	x.load(16, -125)
	x.load(20, exp2C...)
	x.p("VEOR V2.B16, V2.B16, V2.B16")
	x.p("VEOR V3.B16, V3.B16, V3.B16")
	x.label("exp")
	x.p("VLD1 (R1), [V0.S4, V1.S4]")
	for i := range 2 {
		x.three("FSUB", i, i, 30)
		x.exp2(i)
		x.three("FADD", 2+i, 2+i, i)
	}
	x.p("VST1.P [V0.S4, V1.S4], 32(R1)")
	x.p("SUBS $8, R2, R2")
	x.p("BNE exp")
	x.three("FADD", 2, 2, 3)
	x.three("FADDP", 2, 2, 2)
	x.three("FADDP", 2, 2, 2)
	x.p("MOVD 24(R0), R4")
	x.p("FMOVS F2, (R4)")
	x.p("RET")
}

// transpose writes a function of targs, 4 rows x 4 columns at a time.
func (x neonCode) transpose(typ string) {
	step, row := 128, 16
	if typ == "F16" {
		step, row = 64, 8
	}
	x.text("vecTranspose"+typ, "targs")
	x.p("MOVD (R0), R1")
	x.p("MOVD 8(R0), R2")
	x.p("MOVD 16(R0), R3")
	x.p("MOVD 24(R0), R4")
	x.label("loop")
	x.p("MOVD R2, R5")
	x.p("MOVD R1, R6")
	x.p("MOVD $8, R7")
	x.label("rows")
	for i := range 4 {
		x.p("VLD1 (R5), [V%d.S4]", i)
		x.p("ADD R3, R5, R5")
	}
	x.p("VTRN1 V1.S4, V0.S4, V4.S4")
	x.p("VTRN2 V1.S4, V0.S4, V5.S4")
	x.p("VTRN1 V3.S4, V2.S4, V6.S4")
	x.p("VTRN2 V3.S4, V2.S4, V7.S4")
	x.p("VTRN1 V6.D2, V4.D2, V16.D2")
	x.p("VTRN1 V7.D2, V5.D2, V17.D2")
	x.p("VTRN2 V6.D2, V4.D2, V18.D2")
	x.p("VTRN2 V7.D2, V5.D2, V19.D2")
	for i := range 4 {
		if typ == "F16" {
			x.two("FCVTN", 16+i, 16+i)
			x.p("FMOVD F%d, %d(R6)", 16+i, i*step)
		} else {
			x.p("FMOVQ F%d, %d(R6)", 16+i, i*step)
		}
	}
	x.p("ADD $%d, R6", row)
	x.p("SUBS $1, R7, R7")
	x.p("BNE rows")
	x.p("ADD $16, R2")
	x.p("ADD $%d, R1", 4*step)
	x.p("SUBS $4, R4, R4")
	x.p("BNE loop")
	x.p("RET")
}

// rope writes a function of rargs.
func (x neonCode) rope() {
	x.text("vecRope", "rargs")
	for i, r := range []string{"R1", "R2", "R3", "R4", "R5"} { // dst, src, cos, sin, q
		x.p("MOVD %d(R0), %s", i*8, r)
	}
	x.p("ADD $40, R0, R11")
	x.p("VLD1R (R11), [V9.S4]")
	x.p("MOVD 48(R0), R11") // rows
	x.p("MOVD 56(R0), R12") // row strides
	x.p("MOVD 64(R0), R13")
	x.p("LSL $2, R5, R6") // from u to v
	x.p("SUB R6<<2, R12, R12")
	x.p("SUB R6<<2, R13, R13")
	x.label("row")
	x.p("MOVD $2, R7")
	x.label("half")
	x.p("MOVD R5, R8")
	x.label("loop")
	x.p("ADD R6, R2, R9")
	x.p("ADD R6, R1, R10")
	x.p("VLD1.P 16(R2), [V0.S4]")
	x.p("VLD1 (R9), [V1.S4]")
	x.p("VLD1.P 16(R3), [V2.S4]")
	x.p("VLD1.P 16(R4), [V3.S4]")
	x.three("FMUL", 4, 0, 2)
	x.three("FMLS", 4, 1, 3) // u*cos - v*sin
	x.three("FMUL", 5, 1, 2)
	x.three("FMLA", 5, 0, 3) // v*cos + u*sin
	x.three("FMUL", 4, 4, 9)
	x.three("FMUL", 5, 5, 9)
	x.p("VST1.P [V4.S4], 16(R1)")
	x.p("VST1 [V5.S4], (R10)")
	x.p("SUBS $4, R8, R8")
	x.p("BNE loop")
	x.p("ADD R6, R2, R2")
	x.p("ADD R6, R1, R1")
	x.p("SUBS $1, R7, R7")
	x.p("BNE half")
	x.p("ADD R12, R1, R1") // from the end of a row to the next row
	x.p("ADD R13, R2, R2")
	x.p("SUBS $1, R11, R11")
	x.p("BNE row")
	x.p("RET")
}

// copyRows writes a function of pargs that copies rows of 32 floats.
func (x neonCode) copyRows() {
	x.text("vecCopyRows", "pargs")
	for i, r := range []string{"R1", "R2", "R3", "R4"} { // dst, src, lds, rows
		x.p("MOVD %d(R0), %s", i*8, r)
	}
	x.p("SUB $64, R3, R3")
	x.label("loop")
	x.p("VLD1.P 64(R2), [V0.S4, V1.S4, V2.S4, V3.S4]")
	x.p("VLD1 (R2), [V4.S4, V5.S4, V6.S4, V7.S4]")
	x.p("ADD R3, R2, R2")
	x.p("VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R1)")
	x.p("VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R1)")
	x.p("SUBS $1, R4, R4")
	x.p("BNE loop")
	x.p("RET")
}

// addRows writes a function of wargs: 32 columns at a time stay in registers while
// the rows pass.
func (x neonCode) addRows() {
	x.text("vecAddRows", "wargs")
	for i, r := range []string{"R1", "R2", "R3", "R4", "R5", "R6", "R7"} { // y, ldy, x, b, ldb, n, steps
		x.p("MOVD %d(R0), %s", i*8, r)
	}
	x.p("SUB $64, R5, R5")
	x.label("loop")
	x.p("ADD $64, R1, R8")
	x.p("VLD1 (R1), [V0.S4, V1.S4, V2.S4, V3.S4]")
	x.p("VLD1 (R8), [V4.S4, V5.S4, V6.S4, V7.S4]")
	x.p("MOVD R4, R9")
	x.p("MOVD R3, R10")
	x.p("MOVD R7, R12")
	x.label("row")
	x.p("VLD1R.P 4(R10), [V24.S4]")
	x.p("VLD1.P 64(R9), [V16.S4, V17.S4, V18.S4, V19.S4]")
	x.p("VLD1 (R9), [V20.S4, V21.S4, V22.S4, V23.S4]")
	x.p("ADD R5, R9, R9")
	for i := range 8 {
		x.three("FMLA", i, 16+i, 24)
	}
	x.p("SUBS $1, R12, R12")
	x.p("BNE row")
	x.p("VST1 [V0.S4, V1.S4, V2.S4, V3.S4], (R1)")
	x.p("VST1 [V4.S4, V5.S4, V6.S4, V7.S4], (R8)")
	x.p("ADD R2, R1, R1")
	x.p("ADD $128, R4, R4")
	x.p("SUBS $1, R6, R6")
	x.p("BNE loop")
	x.p("RET")
}

// widen writes a function of vargs for 16-bit sources.
func (x neonCode) widen(name, op string) {
	x.text("vec"+name, "vargs")
	x.p("MOVD (R0), R1")
	x.p("MOVD 8(R0), R2")
	x.p("MOVD 16(R0), R3")
	x.label("loop")
	x.p("VLD1.P 32(R2), [V0.B16, V1.B16]")
	for i := range 2 {
		x.two(op, 2+2*i, i)
		x.two(op+"2", 3+2*i, i)
	}
	x.p("VST1.P [V2.S4, V3.S4, V4.S4, V5.S4], 64(R1)")
	x.p("SUBS $16, R3, R3")
	x.p("BNE loop")
	x.p("RET")
}

// each writes a function of vargs for float32 sources; V8 is zero, V9 the factor.
func (x neonCode) each(name string, body func(i int)) {
	x.text("vec"+name, "vargs")
	x.p("MOVD (R0), R1")
	x.p("MOVD 8(R0), R2")
	x.p("MOVD 16(R0), R3")
	x.p("ADD $24, R0")
	x.p("VLD1R (R0), [V9.S4]")
	x.p("VEOR V8.B16, V8.B16, V8.B16")
	x.label("loop")
	x.p("VLD1.P 64(R2), [V0.S4, V1.S4, V2.S4, V3.S4]")
	for i := range 4 {
		body(i)
	}
	x.p("VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R1)")
	x.p("SUBS $16, R3, R3")
	x.p("BNE loop")
	x.p("RET")
}
