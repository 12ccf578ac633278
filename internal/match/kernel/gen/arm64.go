// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// The NEON tile is 8 rows by 12 columns: 24 accumulators V8..V31, two
// registers of rows, three of columns. Go's assembler has no multiply-add by
// element and no vector maximum, so those are WORD encodings (Arm ARM C7.2).
const (
	neonMR  = 8
	neonNV  = 3
	neonAcc = 8
)

func neon(i, v int) int { return neonAcc + i*neonNV + v }

// byElement encodes op Vd.4S, Vn.4S, Vm.S[lane]; lane is split into H:L.
func byElement(a *asm, name string, op uint32, d, n, m, lane int) {
	w := op | uint32(lane&1)<<21 | uint32(lane>>1)<<11 | uint32(m)<<16 | uint32(n)<<5 | uint32(d)
	a.p("WORD $0x%08x // %s V%d.4S, V%d.4S, V%d.S[%d]", w, name, d, n, m, lane)
}

// three encodes op Vd.4S, Vn.4S, Vm.4S.
func three(a *asm, name string, op uint32, d, n, m int) {
	w := op | uint32(m)<<16 | uint32(n)<<5 | uint32(d)
	a.p("WORD $0x%08x // %s V%d.4S, V%d.4S, V%d.4S", w, name, d, n, m)
}

func fmax(a *asm, d, n, m int) { three(a, "FMAX", 0x4e20f400, d, n, m) }

// product is FMUL for the first value of the depth and FMLA after it.
func product(a *asm, first bool, d, n, m, lane int) {
	if first {
		byElement(a, "FMUL", 0x4f809000, d, n, m, lane)
		return
	}
	byElement(a, "FMLA", 0x4f801000, d, n, m, lane)
}

// vectors lists registers from first on as Go's assembler wants them.
func vectors(first, n int) string {
	s := ""
	for i := range n {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("V%d.S4", first+i)
	}
	return "[" + s + "]"
}

func arm64File() string {
	a := &asm{}
	a.WriteString(header("arm64"))
	for _, both := range []bool{true, false} {
		for _, ku := range []int{0, depth} {
			neonStrip(a, both, ku)
		}
	}
	for _, both := range []bool{true, false} {
		for _, ku := range []int{0, depth / 4} {
			neonStripInt8(a, both, ku)
		}
	}
	for _, both := range []bool{true, false} {
		for _, ku := range []int{0, depth / 4} {
			mmlaStrip(a, both, ku)
		}
	}
	neonBestInt8(a)
	neonFirstEqual(a)
	neonRowBest(a)
	return a.String()
}

// neonBegin begins a tile kernel: its name, its arguments in R0 to R6, the start of the
// row maxima, and the loop over panels.
func neonBegin(a *asm, set string, i8, both bool, ku int) {
	name, sig := "strip", "(p *Args)"
	if !both {
		name = "stripRow"
	}
	if i8 {
		name, sig = name+"Int8", "(p *Int8Args)"
	}
	if ku > 0 {
		name += "Unrolled"
	}
	a.text(name+set, sig, 8)
	a.p("MOVD p+0(FP), R10")
	for i := range 7 {
		a.p("MOVD %d(R10), R%d", 8*i, i)
	}
	if i8 {
		a.p("VEOR V0.B16, V0.B16, V0.B16")
	} else {
		negInf(a, 0)
	}
	a.p("MOVD R4, R7")
	for range neonMR {
		a.p("VST1.P [V0.S4], 16(R7)")
	}
	a.label("panel")
	a.p("MOVD R0, R8")
}

// neonStrip writes the tile kernel: R0 rows, R1 panels, R2 panel count, R3
// column maxima, R4 vector row maxima, R5 row maxima out, R6 depth.
func neonStrip(a *asm, both bool, ku int) {
	neonBegin(a, "NEON", false, both, ku)
	if ku > 0 {
		for k := range ku {
			neonStep(a, k == 0)
		}
	} else {
		a.p("MOVD R6, R9")
		neonStep(a, true)
		a.p("SUBS $1, R9, R9")
		a.p("BEQ summed")
		a.label("depth")
		neonStep(a, false)
		a.p("SUBS $1, R9, R9")
		a.p("BNE depth")
		a.label("summed")
	}
	if both {
		neonColumnMaxima(a)
	}
	a.p("MOVD R4, R7")
	for i := range neonMR {
		a.p("VLD1 (R7), [V0.S4]")
		fmax(a, neon(i, 0), neon(i, 0), neon(i, 1))
		fmax(a, 0, 0, neon(i, 2))
		fmax(a, 0, 0, neon(i, 0))
		a.p("VST1.P [V0.S4], 16(R7)")
	}
	a.p("SUBS $1, R2, R2")
	a.p("BNE panel")
	for range neonMR {
		a.p("VLD1.P 16(R4), [V0.S4]")
		fmaxv(a)
		a.p("FMOVS F0, (R5)")
		a.p("ADD $4, R5, R5")
	}
	a.p("RET")
}

// negInf fills a register with -inf.
func negInf(a *asm, reg int) {
	a.p("MOVW $0xff800000, R11")
	a.p("VDUP R11, V%d.S4", reg)
}

func fmaxv(a *asm) { a.p("WORD $0x6e30f800 // FMAXV S0, V0.4S") }

func neonStep(a *asm, first bool) {
	a.p("VLD1.P 32(R8), %s", vectors(0, 2))
	a.p("VLD1.P 48(R1), %s", vectors(2, neonNV))
	for i := range neonMR {
		for v := range neonNV {
			product(a, first, neon(i, v), 2+v, i/4, i%4)
		}
	}
}

func neonColumnMaxima(a *asm) {
	a.p("VLD1 (R3), %s", vectors(0, neonNV))
	for i := range neonMR {
		for v := range neonNV {
			fmax(a, v, v, neon(i, v))
		}
	}
	a.p("VST1.P %s, 48(R3)", vectors(0, neonNV))
}

// neonDot1 leaves one row's scores against one panel in V0..V2. It steps R5,
// R8 and R9, copies of its arguments.
func neonDot1(a *asm, row, panel, dim string) {
	step := func(first bool) {
		a.p("VLD1.P 48(R5), %s", vectors(4, neonNV))
		a.p("FMOVS.P 4(R8), F3")
		for v := range neonNV {
			product(a, first, v, 4+v, 3, 0)
		}
		a.p("SUBS $1, R9, R9")
	}
	a.p("MOVD %s, R8", row)
	a.p("MOVD %s, R5", panel)
	a.p("MOVD %s, R9", dim)
	step(true)
	a.p("BEQ summed")
	a.label("depth")
	step(false)
	a.p("BNE depth")
	a.label("summed")
}

// neonLoad reads the arguments that both single-row kernels share.
func neonLoad(a *asm) {
	a.p("MOVD a+0(FP), R0")
	a.p("MOVD b+8(FP), R1")
	a.p("MOVD panels+16(FP), R2")
	a.p("MOVD dim+24(FP), R6")
}

func neonFirstEqual(a *asm) {
	a.text("firstEqualNEON", "(a, b *float32, panels, dim int, t float32) int", 48)
	neonLoad(a)
	a.p("MOVWU t+32(FP), R11")
	a.p("VDUP R11, V7.S4")
	a.p("MOVD $0, R12")
	a.label("panel")
	neonDot1(a, "R0", "R1", "R6")
	a.p("MOVD R5, R1")
	for v := range neonNV {
		three(a, "FCMEQ", 0x4e20e400, v, v, 7)
	}
	neonAny(a)
	a.p("CBNZ R13, hit")
	a.p("ADD $%d, R12, R12", 4*neonNV)
	a.p("SUBS $1, R2, R2")
	a.p("BNE panel")
	a.p("MOVD $-1, R12")
	a.p("MOVD R12, ret+40(FP)")
	a.p("RET")
	a.label("hit")
	neonFirst(a, "R12")
	a.p("MOVD R12, ret+40(FP)")
	a.p("RET")
}

// neonAny leaves in R13 whether any bit of V0..V2 is set, by way of R11.
func neonAny(a *asm) {
	a.p("VORR V0.B16, V1.B16, V3.B16")
	a.p("VORR V2.B16, V3.B16, V3.B16")
	a.p("VMOV V3.D[0], R13")
	a.p("VMOV V3.D[1], R11")
	a.p("ORR R13, R11, R13")
}

// neonFirst adds to a register the first lane of V0..V2 that is set.
func neonFirst(a *asm, to string) {
	for lane := range 4 * neonNV {
		a.p("VMOV V%d.S[%d], R13", lane/4, lane%4)
		a.p("CBNZ R13, found")
		a.p("ADD $1, %s, %s", to, to)
	}
	a.label("found")
}

func neonRowBest(a *asm) {
	a.text("rowBestNEON", "(a, b *float32, panels, dim int) float32", 36)
	neonLoad(a)
	negInf(a, 16)
	a.label("panel")
	neonDot1(a, "R0", "R1", "R6")
	a.p("MOVD R5, R1")
	for v := range neonNV {
		fmax(a, 16, 16, v)
	}
	a.p("SUBS $1, R2, R2")
	a.p("BNE panel")
	a.p("VORR V16.B16, V16.B16, V0.B16")
	fmaxv(a)
	a.p("FMOVS F0, ret+32(FP)")
	a.p("RET")
}
