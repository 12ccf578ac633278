// SPDX-License-Identifier: Apache-2.0

package main

// bestInt8 writes the exact search of one row among the panels that a rounded
// score lets through. ku is the unrolled depth: its quads of rounded values
// stay in registers 16 and up. Register use:
//
//	AX rounded row, BX rounded panels, R8 panel count, R9 row, R10 panels,
//	R11 start values, R12 depth/4, DX depth, CX columns passed, DI arguments;
//	Z0, Z1 rounded sums, Z2, Z3 scores, Z14 floor, Z15 best score.
func (x x86) bestInt8(a *asm, ku int) {
	a.text(x.name("bestInt8", ku), "(p *BestArgs)", 8)
	a.fields("AX", "BX", "R8", "R9", "R10", "R11", "R12", "DX")
	a.p("VPBROADCASTD 64(DI), Z14")
	a.p("MOVL $0xff800000, SI")
	a.p("VMOVD SI, X15")
	a.p("VBROADCASTSS X15, Z15")
	a.p("MOVQ $-1, 72(DI)")
	a.p("XORQ CX, CX")
	for k := 0; k < ku/4; k++ {
		a.p("VPBROADCASTD %d(AX), Z%d", 4*k, 16+k)
	}
	a.label("panel")
	a.p("VMOVDQU32 (R11), Z0")
	a.p("VMOVDQU32 64(R11), Z1")
	if ku > 0 {
		for k := 0; k < ku/4; k++ {
			a.p("VPDPBUSD %d(BX), Z%d, Z0", 128*k, 16+k)
			a.p("VPDPBUSD %d(BX), Z%d, Z1", 128*k+64, 16+k)
		}
		a.p("ADDQ $%d, BX", 128*ku/4)
	} else {
		a.p("MOVQ AX, SI")
		a.p("MOVQ R12, R13")
		a.label("quads")
		a.p("VPBROADCASTD (SI), Z4")
		a.p("VPDPBUSD (BX), Z4, Z0")
		a.p("VPDPBUSD 64(BX), Z4, Z1")
		a.p("ADDQ $4, SI")
		a.p("ADDQ $128, BX")
		a.p("DECQ R13")
		a.p("JNZ quads")
	}
	a.p("VPCMPD $5, Z14, Z0, K1") // not less than the floor
	a.p("VPCMPD $5, Z14, Z1, K2")
	a.p("KORTESTW K1, K2")
	a.p("JNZ exact")
	a.label("next")
	a.p("MOVQ DX, SI")
	a.p("SHLQ $7, SI")
	a.p("ADDQ SI, R10")
	a.p("ADDQ $128, R11")
	a.p("ADDQ $32, CX")
	a.p("DECQ R8")
	a.p("JNZ panel")
	a.p("VMOVSS X15, 68(DI)")
	a.p("VZEROUPPER")
	a.p("RET")
	x.exactInt8(a, ku)
}

// exactInt8 scores the whole panel as the tiles do, and where that beats the
// best so far notes the score and its first column.
func (x x86) exactInt8(a *asm, ku int) {
	a.label("exact")
	a.p("INCQ 80(DI)")
	step := func(op string, k int, row, cols string) {
		a.p("VBROADCASTSS %d(%s), Z4", 4*k, row)
		a.p("%s %d(%s), Z4, Z2", op, 128*k, cols)
		a.p("%s %d(%s), Z4, Z3", op, 128*k+64, cols)
	}
	if ku > 0 {
		for k := 0; k < ku; k++ {
			op := "VFMADD231PS"
			if k == 0 {
				op = "VMULPS"
			}
			step(op, k, "R9", "R10")
		}
	} else {
		a.p("MOVQ R9, SI")
		a.p("MOVQ R10, DI")
		a.p("MOVQ DX, R13")
		step("VMULPS", 0, "SI", "DI")
		a.p("JMP more")
		a.label("depth")
		step("VFMADD231PS", 0, "SI", "DI")
		a.label("more")
		a.p("ADDQ $4, SI")
		a.p("ADDQ $128, DI")
		a.p("DECQ R13")
		a.p("JNZ depth")
		a.p("MOVQ p+0(FP), DI")
	}
	a.p("VMAXPS Z2, Z3, Z0")
	a.p("VCMPPS $30, Z15, Z0, K1") // greater than the best
	a.p("KORTESTW K1, K1")
	a.p("JZ next")
	x.reduce(a, "VMAXPS")
	a.p("VBROADCASTSS X0, Z15")
	a.p("VCMPPS $0, Z2, Z15, K1")
	a.p("VCMPPS $0, Z3, Z15, K2")
	a.p("KUNPCKWD K1, K2, K1")
	a.p("KMOVD K1, SI")
	a.p("BSFL SI, SI")
	a.p("ADDQ CX, SI")
	a.p("MOVQ SI, 72(DI)")
	a.p("JMP next")
}

// packInt8 writes the rounding of panels to bytes, see Int8.Pack. Register use:
//
//	AX panels, BX words, R8 panel count, R9 start values, R10 norms, R11
//	errors, R12 depth, SI column offset in a panel, R13 depth copy, DX, CX
//	running addresses; Z0 scale, Z1 byte mask, Z8 word, Z9 sum of bytes, Z10
//	norm, Z11 error.
func (x x86) packInt8(a *asm) {
	a.text(x.name("packInt8", 0), "(p *PackArgs)", 8)
	a.fields("AX", "BX", "R8", "R9", "R10", "R11", "R12")
	a.p("VBROADCASTSS 56(DI), Z0")
	a.p("MOVL $255, SI")
	a.p("VPBROADCASTD SI, Z1")
	a.label("panel")
	a.p("XORQ SI, SI")
	a.label("half")
	a.p("LEAQ (AX)(SI*1), DX")
	a.p("LEAQ (BX)(SI*1), CX")
	a.p("MOVQ R12, R13")
	for _, r := range []int{9, 10, 11} {
		a.p("VPXORD Z%d, Z%d, Z%d", r, r, r)
	}
	a.label("quad")
	a.p("VPXORD Z8, Z8, Z8")
	for i := range 4 {
		a.p("VMULPS (DX), Z0, Z2")
		a.p("VCVTPS2DQ Z2, Z3") // to nearest, ties to even
		a.p("VCVTDQ2PS Z3, Z4")
		a.p("VSUBPS Z4, Z2, Z4")
		a.p("VFMADD231PS Z2, Z2, Z10")
		a.p("VFMADD231PS Z4, Z4, Z11")
		a.p("VPADDD Z3, Z9, Z9")
		a.p("VPANDD Z1, Z3, Z3")
		if i > 0 {
			a.p("VPSLLD $%d, Z3, Z3", 8*i)
		}
		a.p("VPORD Z3, Z8, Z8")
		a.p("ADDQ $128, DX")
		a.p("DECQ R13")
		a.p("JZ last")
	}
	a.p("VMOVDQU32 Z8, (CX)")
	a.p("ADDQ $128, CX")
	a.p("JMP quad")
	a.label("last")
	a.p("VMOVDQU32 Z8, (CX)")
	a.p("ADDQ $128, CX")
	a.p("VPSLLD $7, Z9, Z9") // the offset of rows is 128
	a.p("VPXORD Z8, Z8, Z8")
	a.p("VPSUBD Z9, Z8, Z9")
	a.p("VMOVDQU32 Z9, (R9)(SI*1)")
	a.p("VMOVUPS Z10, (R10)(SI*1)")
	a.p("VMOVUPS Z11, (R11)(SI*1)")
	a.p("ADDQ $64, SI")
	a.p("CMPQ SI, $128")
	a.p("JLT half")
	for _, r := range []string{"R9", "R10", "R11"} {
		a.p("ADDQ $128, %s", r)
	}
	a.p("LEAQ -64(DX), AX")
	a.p("LEAQ -64(CX), BX")
	a.p("DECQ R8")
	a.p("JNZ panel")
	a.p("VZEROUPPER")
	a.p("RET")
}
