// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa/encode"
)

// tileGroups is how many groups of 16 rows a strip on tiles has.
const tileGroups = 6

// stripTiles writes the strip of quantised scores on matrix tiles: groups of 16
// rows, each against all panels. A panel lies in memory as two tiles side by side, one
// row of them for each quad of the depth. A product of 16 x 32 takes the tile unit 32
// cycles whatever the depth and is stored to one half of Tmp. The vector units, which need as
// long for two maxima of each vector, work on the panel before, in the other half: what a tile
// stored is not forwarded to loads, which wait until it is in the cache. Register use:
//
//	AX rows of the group, R8 their stride, R13 columns, BX panel, CX panel count, DX
//	128, the stride of a panel and of Tmp, R9 column maxima, R11 and R10 the halves of Tmp,
//	R12 bytes of a panel, SI row maxima; Z16 and up row maxima as vectors, Z0 and Z1
//	column maxima.
//
// The tiles are released before the function returns: none is in use where the
// goroutine can move to another thread or return to C.
func (x x86) stripTiles(a *asm, both bool) {
	what := "stripAMX"
	if !both {
		what = "stripRowAMX"
	}
	op := func(text, comment string) { a.p("%s // %s", text, comment) }
	a.text(what, "(p *Int8Args)", 8)
	a.p("MOVQ p+0(FP), DI")
	a.p("MOVQ 64(DI), R13")
	op(encode.LDTILECFG("R13"), "LDTILECFG (R13)")
	for i, r := range []string{"AX", "R13", "", "", "R11", "SI", "R12"} {
		if r != "" {
			a.p("MOVQ %d(DI), %s", 8*i, r)
		}
	}
	a.p("LEAQ 2048(R11), R10")
	a.p("LEAQ (R12*4), R8")
	a.p("SHLQ $7, R12")
	a.p("MOVQ $128, DX")
	a.label("group")
	op(encode.TILELOADD(4, "AX", "R8", 0), "TILELOADD (AX)(R8*1), T4")
	for i := range 16 {
		a.p("VPXORD Z%d, Z%d, Z%d", 16+i, 16+i, 16+i)
	}
	a.p("MOVQ R13, BX")
	a.p("MOVQ 16(DI), CX")
	if both {
		a.p("MOVQ 24(DI), R9")
	}
	x.tileProduct(a)
	a.p("DECQ CX")
	a.p("JZ last")
	a.p("PCALIGN $32")
	a.label("panel")
	a.p("XCHGQ R10, R11")
	x.tileProduct(a)
	x.tileMaxima(a, "R10", both)
	a.p("DECQ CX")
	a.p("JNZ panel")
	a.label("last")
	x.tileMaxima(a, "R11", both)
	for i := range 16 {
		a.p("VMOVDQA32 Z%d, Z0", 16+i)
		x.reduce(a, "VPMAXSD")
		a.p("VMOVSS X0, %d(SI)", 4*i)
	}
	a.p("ADDQ $64, SI")
	a.p("MOVQ R8, BX")
	a.p("SHLQ $4, BX")
	a.p("ADDQ BX, AX")
	a.p("MOVQ 40(DI), BX")
	a.p("ADDQ $%d, BX", 64*tileGroups)
	a.p("CMPQ SI, BX")
	a.p("JNE group")
	op(encode.TILERELEASE(), "TILERELEASE")
	a.p("VZEROUPPER")
	a.p("RET")
}

// tileProduct multiplies the group with the panel at BX, to Tmp at R11, and moves on.
func (x x86) tileProduct(a *asm) {
	op := func(text, comment string) { a.p("%s // %s", text, comment) }
	for v := range 2 {
		op(encode.TILEZERO(v), fmt.Sprintf("TILEZERO T%d", v))
		op(encode.TILELOADD(6+v, "BX", "DX", int8(64*v)), fmt.Sprintf("TILELOADD %d(BX)(DX*1), T%d", 64*v, 6+v))
		op(encode.TDPBSSD(v, 4, 6+v), fmt.Sprintf("TDPBSSD T%d, T4, T%d", 6+v, v))
	}
	for v := range 2 {
		op(encode.TILESTORED(v, "R11", "DX", int8(64*v)), fmt.Sprintf("TILESTORED T%d, %d(R11)(DX*1)", v, 64*v))
	}
	a.p("ADDQ R12, BX")
}

// tileMaxima folds the product in tmp into the row maxima and, of both, those of its columns.
func (x x86) tileMaxima(a *asm, tmp string, both bool) {
	if both {
		a.p("VMOVDQU32 (R9), Z0")
		a.p("VMOVDQU32 64(R9), Z1")
	}
	for i := range 16 {
		lo, hi := 4+i%6*2, 5+i%6*2
		a.p("VMOVDQU32 %d(%s), Z%d", i*128, tmp, lo)
		a.p("VMOVDQU32 %d(%s), Z%d", i*128+64, tmp, hi)
		if both {
			a.p("VPMAXSD Z%d, Z0, Z0", lo)
			a.p("VPMAXSD Z%d, Z1, Z1", hi)
		}
		a.p("VPMAXSD Z%d, Z%d, Z%d", hi, lo, lo)
		a.p("VPMAXSD Z%d, Z%d, Z%d", lo, 16+i, 16+i)
	}
	if both {
		a.p("VMOVDQU32 Z0, (R9)")
		a.p("VMOVDQU32 Z1, 64(R9)")
		a.p("ADDQ $128, R9")
	}
}
