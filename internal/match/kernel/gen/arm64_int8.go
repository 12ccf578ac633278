// SPDX-License-Identifier: Apache-2.0

package main

// neonStripInt8 writes the int8 tile kernel with SDOT, which multiplies signed
// by signed bytes: no start values are needed. R7 is free for the maxima.
func neonStripInt8(a *asm, both bool, ku int) {
	neonBegin(a, "NEON", true, both, ku)
	for r := neonAcc; r < 32; r++ {
		a.p("VEOR V%d.B16, V%d.B16, V%d.B16", r, r, r)
	}
	if ku > 0 {
		for range ku {
			neonStepInt8(a)
		}
	} else {
		a.p("MOVD R6, R9")
		a.label("depth")
		neonStepInt8(a)
		a.p("SUBS $1, R9, R9")
		a.p("BNE depth")
	}
	if both {
		a.p("VLD1 (R3), %s", vectors(0, neonNV))
		for i := range neonMR {
			for v := range neonNV {
				smax(a, v, v, neon(i, v))
			}
		}
		a.p("VST1.P %s, 48(R3)", vectors(0, neonNV))
	}
	a.p("MOVD R4, R7")
	for i := range neonMR {
		a.p("VLD1 (R7), [V0.S4]")
		smax(a, neon(i, 0), neon(i, 0), neon(i, 1))
		smax(a, 0, 0, neon(i, 2))
		smax(a, 0, 0, neon(i, 0))
		a.p("VST1.P [V0.S4], 16(R7)")
	}
	a.p("SUBS $1, R2, R2")
	a.p("BNE panel")
	for range neonMR {
		a.p("VLD1.P 16(R4), [V0.S4]")
		a.p("WORD $0x4eb0a800 // SMAXV S0, V0.4S")
		a.p("FMOVS F0, (R5)")
		a.p("ADD $4, R5, R5")
	}
	a.p("RET")
}

// sdot adds to each lane of d the products of its four bytes of n with the four
// bytes of m in one lane.
func sdot(a *asm, d, n, m, lane int) {
	w := 0x4f80e000 | uint32(lane&1)<<21 | uint32(lane>>1)<<11 | uint32(m)<<16 | uint32(n)<<5 | uint32(d)
	a.p("WORD $0x%08x // SDOT V%d.4S, V%d.16B, V%d.4B[%d]", w, d, n, m, lane)
}

func smax(a *asm, d, n, m int) { three(a, "SMAX", 0x4ea06400, d, n, m) }

func neonStepInt8(a *asm) {
	a.p("VLD1.P 32(R8), %s", vectors(0, 2))
	a.p("VLD1.P 48(R1), %s", vectors(2, neonNV))
	for i := range neonMR {
		for v := range neonNV {
			sdot(a, neon(i, v), 2+v, i/4, i%4)
		}
	}
}

// neonBestInt8 writes the exact search of one row among the panels that a
// rounded score lets through: R0 rounded row, R1 rounded panels, R2 panel
// count, R3 row, R4 panels, R6 depth/4, R7 depth, R10 arguments, R12 columns
// passed, R14 column found, R15 bytes of a panel; V31 floor, V30 best score.
func neonBestInt8(a *asm) {
	a.text("bestInt8NEON", "(p *BestArgs)", 8)
	a.p("MOVD p+0(FP), R10")
	for i := range 8 {
		a.p("MOVD %d(R10), R%d", 8*i, i)
	}
	a.p("MOVWU 64(R10), R11")
	a.p("VDUP R11, V31.S4")
	negInf(a, 30)
	a.p("MOVD $-1, R14")
	a.p("MOVD $0, R12")
	a.p("MOVD $%d, R15", 16*neonNV)
	a.p("MUL R7, R15, R15")
	a.label("panel")
	for v := range neonNV {
		a.p("VEOR V%d.B16, V%d.B16, V%d.B16", v, v, v)
	}
	a.p("MOVD R0, R8")
	a.p("MOVD R6, R9")
	a.label("quads")
	a.p("VLD1.P 48(R1), %s", vectors(4, neonNV))
	a.p("FMOVS.P 4(R8), F3")
	for v := range neonNV {
		sdot(a, v, 4+v, 3, 0)
	}
	a.p("SUBS $1, R9, R9")
	a.p("BNE quads")
	for v := range neonNV {
		three(a, "CMGE", 0x4ea03c00, v, v, 31)
	}
	neonAny(a)
	a.p("CBNZ R13, exact")
	a.label("next")
	a.p("ADD R15, R4, R4")
	a.p("ADD $%d, R12, R12", 4*neonNV)
	a.p("SUBS $1, R2, R2")
	a.p("BNE panel")
	a.p("FMOVS F30, 68(R10)")
	a.p("MOVD R14, 72(R10)")
	a.p("RET")
	a.label("exact")
	a.p("MOVD 80(R10), R11")
	a.p("ADD $1, R11, R11")
	a.p("MOVD R11, 80(R10)")
	neonDot1(a, "R3", "R4", "R7")
	fmax(a, 16, 0, 1)
	fmax(a, 16, 16, 2)
	a.p("WORD $0x6e30fa10 // FMAXV S16, V16.4S")
	a.p("FCMPS F30, F16")
	a.p("BLE next")
	a.p("VDUP V16.S[0], V30.S4")
	a.p("MOVD R12, R14")
	for v := range neonNV {
		three(a, "FCMEQ", 0x4e20e400, v, v, 30)
	}
	neonFirst(a, "R14")
	a.p("B next")
}
