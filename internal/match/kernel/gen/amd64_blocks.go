// SPDX-License-Identifier: Apache-2.0

package main

// within writes the test of four rows against the directions of blocks, see
// Blocks.Within. Register use:
//
//	AX rows, BX directions, R9 start values, R10 cosines, R11 sines, R8 panel count,
//	R12 limits, R13 masks, DX bytes of a row of masks, DI masks of rows 2 and 3, CX, SI
//	masks; Z0-Z3 sums, Z4 column, Z5 cosines, Z6 sines, Z7 least sum, Z8-Z31 the rows.
func (x x86) within(a *asm) {
	a.text("withinAVX512", "(p *WithinArgs)", 8)
	a.fields("AX", "BX", "R9", "R10", "R11", "R8", "R12", "R13")
	a.p("MOVQ R8, DX")
	a.p("SHLQ $2, DX")
	for i := range 4 * depth / 4 {
		a.p("VPBROADCASTD %d(AX), Z%d", 4*i, 8+i)
	}
	a.label("panel")
	a.p("LEAQ (R13)(DX*2), DI")
	to := [4]string{"(R13)", "(R13)(DX*1)", "(DI)", "(DI)(DX*1)"}
	for half := range 2 {
		a.p("VMOVDQU32 %d(R9), Z0", 64*half)
		for r := 1; r < 4; r++ {
			a.p("VMOVDQA32 Z0, Z%d", r)
		}
		for k := range depth / 4 {
			a.p("VMOVDQU32 %d(BX), Z4", 128*k+64*half)
			for r := range 4 {
				a.p("VPDPBUSD Z4, Z%d, Z%d", 8+6*r+k, r)
			}
		}
		a.p("VMOVUPS %d(R10), Z5", 64*half)
		a.p("VMOVUPS %d(R11), Z6", 64*half)
		for r := range 4 {
			a.p("VCVTDQ2PS Z%d, Z%d", r, r)
			a.p("VMULPS.BCST %d(R12), Z5, Z7", 12*r)
			a.p("VMULPS.BCST %d(R12), Z6, Z4", 12*r+4)
			a.p("VSUBPS Z4, Z7, Z7")
			a.p("VSUBPS.BCST %d(R12), Z7, Z7", 12*r+8)
			a.p("VCMPPS $29, Z7, Z%d, K1", r) // not less
			a.p("KMOVW K1, SI")
			if half == 0 {
				a.p("MOVW SI, %s", to[r])
			} else {
				a.p("MOVW SI, %s", "2"+to[r])
			}
		}
	}
	a.p("ADDQ $%d, BX", 128*depth/4)
	for _, r := range []string{"R9", "R10", "R11"} {
		a.p("ADDQ $128, %s", r)
	}
	a.p("ADDQ $4, R13")
	a.p("DECQ R8")
	a.p("JNZ panel")
	a.p("VZEROUPPER")
	a.p("RET")
}

// among writes the search of a row in chosen blocks, see Blocks.Among. Register use:
//
//	AX rounded row, BX rounded panels, R9 start values, R10 row, R11 panels, R12 masks,
//	R8 count of masks, CX first block of the mask, SI mask, DX block, R13 the block's bytes of start
//	values, DI its panel's of rounded values; Z0 rounded sums, Z2 scores, Z14 floor, Z15 best
//	score, Z16-Z21 the rounded row.
func (x x86) among(a *asm) {
	a.text("amongAVX512", "(p *AmongArgs)", 8)
	a.fields("AX", "BX", "R9", "R10", "R11", "R12", "R8")
	a.p("VPBROADCASTD 56(DI), Z14")
	a.p("MOVL $0xff800000, SI")
	a.p("VMOVD SI, X15")
	a.p("VBROADCASTSS X15, Z15")
	a.p("MOVQ $-1, 72(DI)")
	a.p("MOVQ $0, 80(DI)")
	a.p("XORQ CX, CX")
	for k := range depth / 4 {
		a.p("VPBROADCASTD %d(AX), Z%d", 4*k, 16+k)
	}
	a.label("word")
	a.p("MOVL (R12), SI")
	a.p("TESTL SI, SI")
	a.p("JZ next")
	a.label("block")
	a.p("BSFL SI, DX")
	a.p("LEAL -1(SI), DI")
	a.p("ANDL DI, SI")
	a.p("ADDQ CX, DX")
	a.p("MOVQ DX, R13")
	a.p("SHLQ $6, R13")
	a.p("MOVQ DX, DI") // two blocks a panel: 768 bytes, the second begins after 64
	a.p("SHRQ $1, DI")
	a.p("LEAQ (DI)(DI*2), DI")
	a.p("SHLQ $8, DI")
	a.p("MOVQ R13, AX")
	a.p("ANDQ $64, AX")
	a.p("LEAQ (BX)(DI*1), DI")
	a.p("ADDQ AX, DI")
	a.p("VMOVDQU32 (R9)(R13*1), Z0")
	a.p("VPXORD Z1, Z1, Z1")
	for k := range depth / 4 {
		a.p("VPDPBUSD %d(DI), Z%d, Z%d", 128*k, 16+k, k%2)
	}
	a.p("VPADDD Z1, Z0, Z0")
	a.p("VPCMPD $5, Z14, Z0, K1") // not less than the floor
	a.p("KORTESTW K1, K1")
	a.p("JNZ exact")
	a.label("more")
	a.p("TESTL SI, SI")
	a.p("JNZ block")
	a.label("next")
	a.p("ADDQ $4, R12")
	a.p("ADDQ $32, CX")
	a.p("DECQ R8")
	a.p("JNZ word")
	a.p("MOVQ p+0(FP), DI")
	a.p("VMOVSS X15, 68(DI)")
	a.p("VMOVD X14, SI")
	a.p("MOVL SI, 56(DI)")
	a.p("VZEROUPPER")
	a.p("RET")
	x.amongExact(a)
}

// amongExact scores a whole block as the tiles do, and where that beats the best so far notes
// the score, its first column and the floor that follows.
func (x x86) amongExact(a *asm) {
	a.label("exact")
	a.p("SUBQ BX, DI") // four times as many bytes, but for the half
	a.p("SUBQ AX, DI")
	a.p("SHLQ $2, DI")
	a.p("ADDQ AX, DI")
	a.p("ADDQ R11, DI")
	for k := range depth {
		op := "VFMADD231PS"
		if k == 0 {
			op = "VMULPS"
		}
		a.p("VBROADCASTSS %d(R10), Z4", 4*k)
		a.p("%s %d(DI), Z4, Z2", op, 128*k)
	}
	a.p("VCMPPS $30, Z15, Z2, K1") // greater than the best
	a.p("KORTESTW K1, K1")
	a.p("JNZ better")
	a.p("VCMPPS $0, Z15, Z2, K1")
	a.p("KORTESTW K1, K1")
	a.p("JZ more")
	a.p("MOVQ p+0(FP), DI")
	a.p("MOVQ $1, 80(DI)")
	a.p("JMP more")
	a.label("better")
	a.p("VMOVAPS Z2, Z0")
	x.reduce(a, "VMAXPS")
	a.p("VBROADCASTSS X0, Z15")
	a.p("VCMPPS $0, Z2, Z15, K1")
	a.p("KMOVW K1, R13")
	a.p("BSFL R13, R13")
	a.p("SHLQ $4, DX")
	a.p("ADDQ R13, DX")
	a.p("MOVQ p+0(FP), DI")
	a.p("MOVQ DX, 72(DI)")
	a.p("MOVQ $0, 80(DI)")
	a.p("VMULSS 60(DI), X0, X0")
	a.p("VSUBSS 64(DI), X0, X0")
	a.p("VCVTTSS2SI X0, DI")
	a.p("VPBROADCASTD DI, Z0")
	a.p("VPMAXSD Z0, Z14, Z14")
	a.p("JMP more")
}
