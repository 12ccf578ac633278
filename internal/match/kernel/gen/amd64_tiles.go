// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa/encode"
)

// stripTiles writes the strip of quantised scores on matrix tiles: two groups of 16
// rows, each against all panels. A panel lies in memory as two tiles side by side, one
// row of them for each quad of the depth. A product of 16 x 32 takes the tile unit 32
// cycles whatever the depth; it is stored to Tmp, and what the vector units do with the
// panel before, two maxima for each vector, takes them as long. Register use:
//
//	AX rows of the group, R8 their stride, R13 columns, BX panel, CX panel count, DX
//	128, the stride of a panel and of Tmp, R9 column maxima, R10 groups left, R11 Tmp,
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
	a.p("LEAQ (R12*4), R8")
	a.p("SHLQ $7, R12")
	a.p("MOVQ $128, DX")
	a.p("MOVQ $2, R10")
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
	a.p("PCALIGN $32")
	a.label("panel")
	for v := range 2 {
		op(encode.TILEZERO(v), fmt.Sprintf("TILEZERO T%d", v))
		op(encode.TILELOADD(6+v, "BX", "DX", 64*v), fmt.Sprintf("TILELOADD %d(BX)(DX*1), T%d", 64*v, 6+v))
		op(encode.TDPBSSD(v, 4, 6+v), fmt.Sprintf("TDPBSSD T%d, T4, T%d", 6+v, v))
	}
	for v := range 2 {
		op(encode.TILESTORED(v, "R11", "DX", 64*v), fmt.Sprintf("TILESTORED T%d, %d(R11)(DX*1)", v, 64*v))
	}
	if both {
		a.p("VMOVDQU32 (R9), Z0")
		a.p("VMOVDQU32 64(R9), Z1")
	}
	for i := range 16 {
		lo, hi := 4+i%6*2, 5+i%6*2
		a.p("VMOVDQU32 %d(R11), Z%d", i*128, lo)
		a.p("VMOVDQU32 %d(R11), Z%d", i*128+64, hi)
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
	a.p("ADDQ R12, BX")
	a.p("DECQ CX")
	a.p("JNZ panel")
	for i := range 16 {
		a.p("VMOVDQA32 Z%d, Z0", 16+i)
		x.reduce(a, "VPMAXSD")
		a.p("VMOVSS X0, %d(SI)", 4*i)
	}
	a.p("ADDQ $64, SI")
	a.p("MOVQ R8, BX")
	a.p("SHLQ $4, BX")
	a.p("ADDQ BX, AX")
	a.p("DECQ R10")
	a.p("JNZ group")
	op(encode.TILERELEASE(), "TILERELEASE")
	a.p("VZEROUPPER")
	a.p("RET")
}
