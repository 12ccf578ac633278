// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa/encode"
)

// cells writes the maxima of cells of 16 rows by 64 columns on matrix tiles, see
// CellArgs. The 64 columns stay in four tiles while all groups of rows go by. What the
// tile unit has multiplied has to be stored and loaded again, and only the largest of
// each column in its 16 rows takes part in more than one maximum. The vector units work
// lag tiles behind the tile unit, so that neither waits for the other: the place of a tile
// is read just before the next is stored there. They start with tiles of zeros, whose cell
// is the one in front of the first. Register use:
//
//	AX rows, R8 their stride, BX columns, DX their stride, then bytes of a group, CX cells, R12 bytes of a panel, R9
//	column maxima, SI maxima of cells, R11 stored tiles, R13 64, R10 groups left; Z2 and
//	Z3 maxima of a tile, Z16 to Z19 column maxima, Z20 maxima of the cell, Z31 zero.
//
// The tiles are released before the function returns.
func (x x86) cells(a *asm) {
	const lag = 2
	op := func(text, comment string) { a.p("%s // %s", text, comment) }
	a.text("cellsAMX", "(p *CellArgs)", 8)
	a.p("MOVQ p+0(FP), DI")
	a.p("MOVQ 72(DI), R13")
	op(encode.LDTILECFG("R13"), "LDTILECFG (R13)")
	a.p("MOVQ 16(DI), BX")
	a.p("MOVQ 24(DI), CX")
	a.p("MOVQ 32(DI), R9")
	a.p("MOVQ 40(DI), SI")
	a.p("MOVQ 48(DI), R11")
	a.p("MOVQ 56(DI), R12")
	a.p("SHLQ $7, R12")
	a.p("MOVQ 64(DI), R8")
	a.p("MOVQ $64, R13")
	a.p("VPXORD Z31, Z31, Z31")
	a.label("cell")
	a.p("MOVQ $128, DX")
	for v := range 2 {
		op(encode.TILELOADD(4+v, "BX", "DX", 64*v), fmt.Sprintf("TILELOADD %d(BX)(DX*1), T%d", 64*v, 4+v))
	}
	a.p("ADDQ R12, BX")
	for v := range 2 {
		op(encode.TILELOADD(6+v, "BX", "DX", 64*v), fmt.Sprintf("TILELOADD %d(BX)(DX*1), T%d", 64*v, 6+v))
	}
	a.p("ADDQ R12, BX")
	a.p("MOVQ R12, R10") // the next columns, while there are any
	a.p("MOVQ BX, AX")
	a.label("fetch")
	for i := range 4 {
		a.p("PREFETCHT0 %d(AX)", 64*i)
	}
	a.p("ADDQ $256, AX")
	a.p("SUBQ $128, R10")
	a.p("JNZ fetch")
	for v := range 4 {
		a.p("VMOVDQU32 %d(R9), Z%d", 64*v, 16+v)
	}
	for i := range 16 * lag {
		a.p("VMOVDQU32 Z31, %d(R11)", 64*i)
	}
	a.p("VMOVDQA32 Z31, Z20")
	a.p("MOVQ (DI), AX")
	a.p("MOVQ 8(DI), R10")
	a.p("MOVQ R8, DX")
	a.p("SHLQ $4, DX")
	a.p("PCALIGN $32")
	a.label("group")
	op(encode.TILELOADD(3, "AX", "R8", 0), "TILELOADD (AX)(R8*1), T3")
	for v := range 4 {
		c := v % 3
		slot := v % lag
		op(encode.TILEZERO(c), fmt.Sprintf("TILEZERO T%d", c))
		op(encode.TDPBSSD(c, 3, 4+v), fmt.Sprintf("TDPBSSD T%d, T3, T%d", 4+v, c))
		x.cellMaxima(a, (v-lag+4)%4, slot)
		op(encode.TILESTORED(c, "R11", "R13", 1024*slot), fmt.Sprintf("TILESTORED T%d, %d(R11)(R13*1)", c, 1024*slot))
	}
	a.p("ADDQ DX, AX")
	a.p("DECQ R10")
	a.p("JNZ group")
	for i := range lag {
		x.cellMaxima(a, 4-lag+i, i)
	}
	for v := range 4 {
		a.p("VMOVDQU32 Z%d, %d(R9)", 16+v, 64*v)
	}
	a.p("ADDQ $256, R9")
	a.p("DECQ CX")
	a.p("JNZ cell")
	op(encode.TILERELEASE(), "TILERELEASE")
	a.p("VZEROUPPER")
	a.p("RET")
}

// cellMaxima takes the maxima of the tile in a slot, which is the product of columns v.
func (x x86) cellMaxima(a *asm, v, slot int) {
	at := func(i int) string { return fmt.Sprintf("%d(R11)", 1024*slot+64*i) }
	for i := range 2 {
		a.p("VMOVDQU32 %s, Z%d", at(i), 2+i)
	}
	for i := 2; i < 16; i++ {
		a.p("VPMAXSD %s, Z%d, Z%d", at(i), 2+i%2, 2+i%2)
	}
	a.p("VPMAXSD Z2, Z3, Z2")
	a.p("VPMAXSD Z2, Z%d, Z%d", 16+v, 16+v)
	if v == 0 {
		a.p("VPMAXSD Z2, Z31, Z20")
		return
	}
	if v < 3 {
		a.p("VPMAXSD Z2, Z20, Z20")
		return
	}
	a.p("VPMAXSD Z2, Z20, Z0")
	x.reduce(a, "VPMAXSD")
	a.p("VMOVD X0, (SI)")
	a.p("ADDQ $4, SI")
}

// askCells writes the search of groups of rows in cells, see AskArgs. Register use:
//
//	AX rows of the group, R11 floors, R12 margins, BX panels, R9 start values, R10 order,
//	R8 cells left, R13 found, SI rows that ask, CX row, DX start values of the cell, DI
//	its panels and the arguments; Z0 to Z3 sums, Z4 row, Z5 floor, Z4 and Z6 maxima, Z8
//	to Z31 columns.
func (x x86) askCells(a *asm) {
	const quads = depth / 4
	a.text("askCellsAVX512", "(p *AskArgs)", 8)
	a.fields("AX", "BX", "R9", "R10", "R8", "R11", "R12", "R13")
	a.label("cell")
	a.p("MOVWLZX 4(R10), AX")
	a.p("SHLQ $6, AX")
	a.p("MOVQ 40(DI), R11")
	a.p("ADDQ AX, R11")
	a.p("MOVQ 48(DI), R12")
	a.p("ADDQ AX, R12")
	a.p("IMUL3Q $%d, AX, AX", quads)
	a.p("ADDQ (DI), AX")
	a.p("MOVL (R10), SI")
	a.p("MOVWLZX SI, DX")
	a.p("SHRL $16, SI") // its value, then the largest score that it stands for
	a.p("MOVQ 64(DI), CX")
	a.p("INCL SI")
	a.p("SHLL CX, SI")
	a.p("DECL SI")
	a.p("VPBROADCASTD SI, Z0")
	a.p("VPCMPD $5, (R11), Z0, K1") // not less than the floors
	a.p("KMOVW K1, SI")
	a.p("TESTL SI, SI")
	a.p("JZ done")
	a.p("MOVWLZX %d(R10), CX", 8*askAhead)
	a.p("IMUL3Q $%d, CX, CX", 2*128*quads)
	a.p("ADDQ BX, CX")
	for i := range 2 * 2 * quads {
		a.p("PREFETCHT0 %d(CX)", 64*i)
	}
	a.p("IMUL3Q $%d, DX, DI", 2*128*quads)
	a.p("ADDQ BX, DI")
	a.p("SHLQ $8, DX")
	a.p("ADDQ R9, DX")
	for i := range 4 * quads {
		a.p("VMOVDQU32 %d(DI), Z%d", 64*i, 8+i)
	}
	a.label("row")
	a.p("BSFL SI, CX")
	a.p("LEAQ (CX)(CX*2), DI")
	a.p("LEAQ (AX)(DI*8), DI")
	for v := range 4 {
		a.p("VMOVDQU32 %d(DX), Z%d", 64*v, v)
	}
	for k := range quads {
		a.p("VPBROADCASTD %d(DI), Z4", 4*k)
		for v := range 4 {
			a.p("VPDPBUSD Z%d, Z4, Z%d", 8+v/2*2*quads+2*k+v%2, v)
		}
	}
	a.p("VPMAXSD Z0, Z1, Z4")
	a.p("VPMAXSD Z2, Z3, Z6")
	a.p("VPMAXSD Z4, Z6, Z6")
	a.p("VPBROADCASTD (R11)(CX*4), Z5")
	a.p("VPCMPD $5, Z5, Z6, K1")
	a.p("KORTESTW K1, K1")
	a.p("JNZ found")
	a.label("next")
	a.p("LEAL -1(SI), CX")
	a.p("ANDL CX, SI")
	a.p("JNZ row")
	a.label("done")
	a.p("MOVQ p+0(FP), DI")
	a.p("ADDQ $8, R10")
	a.p("DECQ R8")
	a.p("JNZ cell")
	a.p("MOVQ R13, 72(DI)")
	a.p("VZEROUPPER")
	a.p("RET")
	x.askFound(a)
}

// askFound notes what a row has found in a cell, after its best has raised its floor.
func (x x86) askFound(a *asm) {
	a.label("found")
	a.p("VEXTRACTI64X4 $1, Z6, Y4")
	a.p("VPMAXSD Y4, Y6, Y4")
	a.p("VEXTRACTI128 $1, Y4, X6")
	a.p("VPMAXSD X4, X6, X4")
	for _, order := range []int{0x4e, 0xb1} {
		a.p("VPSHUFD $0x%02x, X4, X6", order)
		a.p("VPMAXSD X4, X6, X4")
	}
	a.p("VMOVD X4, 4(R13)")
	a.p("VPBROADCASTD X4, Z4")
	a.p("VPSUBD.BCST (R12)(CX*4), Z4, Z4")
	a.p("VPMAXSD Z4, Z5, Z5")
	a.p("VMOVD X5, (R11)(CX*4)")
	for v := range 4 {
		a.p("VPCMPD $5, Z5, Z%d, K1", v)
		a.p("KMOVW K1, DI")
		a.p("MOVW DI, %d(R13)", 8+2*v)
	}
	a.p("MOVWLZX 4(R10), DI")
	a.p("SHLL $4, DI")
	a.p("ORL CX, DI")
	a.p("SHLL $16, DI")
	a.p("MOVW (R10), DI")
	a.p("MOVL DI, (R13)")
	a.p("ADDQ $16, R13")
	a.p("JMP next")
}

// askAhead is how many cells ahead columns are fetched.
const askAhead = 4
