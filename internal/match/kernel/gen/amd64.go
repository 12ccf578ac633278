// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// x86 describes one vector width: mr rows by nv vectors of columns per tile.
//
// AVX-512 has 32 registers: 12 x 2 accumulators, two column vectors and six
// rotating broadcasts. AVX2 has 16: 6 x 2 accumulators, two columns, two
// broadcasts. Both shapes need fewer loads per multiply-add than the two
// load ports give, so the FMA pipes are the limit.
type x86 struct {
	suffix string
	reg    string // register letter
	vb     int    // bytes per vector
	mr, nv int
	acc0   int // first accumulator register
	nbc    int // rotating broadcast registers
}

var (
	avx512 = x86{suffix: "AVX512", reg: "Z", vb: 64, mr: 12, nv: 2, acc0: 8, nbc: 6}
	avx2   = x86{suffix: "AVX2", reg: "Y", vb: 32, mr: 6, nv: 2, acc0: 4, nbc: 2}
)

func (x x86) acc(i, v int) int { return x.acc0 + i*x.nv + v }

// r names register n at this width.
func (x x86) r(n int) string { return fmt.Sprintf("%s%d", x.reg, n) }

func amd64File() string {
	a := &asm{}
	a.WriteString(header("amd64"))
	for _, x := range []x86{avx512, avx2} {
		for _, both := range []bool{true, false} {
			for _, ku := range []int{0, depth} {
				x.strip(a, false, both, ku)
			}
		}
		for _, ku := range []int{0, depth} {
			x.firstEqual(a, ku)
			x.rowBest(a, ku)
		}
	}
	for _, both := range []bool{true, false} {
		for _, ku := range []int{0, depth / 4} {
			avx512.strip(a, true, both, ku)
		}
	}
	for _, ku := range []int{0, depth} {
		avx512.bestInt8(a, ku)
	}
	avx512.packInt8(a)
	avx512.within(a)
	avx512.among(a)
	avx512.askCells(a)
	avx512.stripTiles(a, true)
	avx512.stripTiles(a, false)
	avx512.cells(a)
	return a.String()
}

// name builds a kernel's name: what, the unrolled depth if any, the ISA.
func (x x86) name(what string, ku int) string {
	if ku > 0 {
		what += "Unrolled"
	}
	return what + x.suffix
}

// strip writes the tile kernel. Register use:
//
//	AX rows, BX panels, R8 panel count, R9 column maxima, R10 row maxima as
//	vectors, R11 integer start values, R12 depth, R13 and SI loop copies.
//
// After the last multiply-add of a tile every accumulator takes part in two
// maxima. They run on other ports than the multiply-adds of the next tile,
// which is why both directions cost hardly more than one (kernels.md 5).
func (x x86) strip(a *asm, i8, both bool, ku int) {
	what, sig, mx, mov := "strip", "(p *Args)", "VMAXPS", "VMOVUPS"
	if !both {
		what = "stripRow"
	}
	if i8 {
		what, sig, mx, mov = what+"Int8", "(p *Int8Args)", "VPMAXSD", "VMOVDQU32"
	}
	a.text(x.name(what, ku), sig, 8)
	a.fields("AX", "BX", "R8", "R9", "R10", "DX", "R12", "R11")
	x.startRows(a, i8)
	a.label("panel")
	if i8 {
		x.startInt8(a)
	}
	x.tile(a, i8, ku)
	if both {
		x.columnMaxima(a, mx, mov)
	}
	for i := 0; i < x.mr; i++ {
		a.p("%s %s, %s, %s", mx, x.r(x.acc(i, 0)), x.r(x.acc(i, 1)), x.r(x.acc(i, 0)))
		a.p("%s %d(R10), %s, %s", mx, i*x.vb, x.r(x.acc(i, 0)), x.r(x.acc(i, 0)))
		a.p("%s %s, %d(R10)", mov, x.r(x.acc(i, 0)), i*x.vb)
	}
	if ku > 0 { // the loop form has advanced BX itself
		a.p("ADDQ $%d, BX", ku*x.nv*x.vb)
	}
	if both {
		a.p("ADDQ $%d, R9", x.nv*x.vb)
	}
	if i8 {
		a.p("ADDQ $%d, R11", x.nv*x.vb)
	}
	a.p("DECQ R8")
	a.p("JNZ panel")
	for i := 0; i < x.mr; i++ {
		a.p("%s %d(R10), %s", mov, i*x.vb, x.r(0))
		x.reduce(a, mx)
		a.p("VMOVSS X0, %d(DX)", i*4)
	}
	a.p("VZEROUPPER")
	a.p("RET")
}

// startRows fills the vector row maxima with -inf, or with 0 for int8, where
// a negative score counts as 0 (still an upper bound).
func (x x86) startRows(a *asm, i8 bool) {
	if i8 {
		a.p("VPXORD Z0, Z0, Z0")
	} else {
		a.p("MOVL $0xff800000, SI")
		a.p("VMOVD SI, X0")
		a.p("VBROADCASTSS X0, %s", x.r(0))
	}
	for i := 0; i < x.mr; i++ {
		a.p("VMOVUPS %s, %d(R10)", x.r(0), i*x.vb)
	}
}

// startInt8 starts the sums at -128 * sum(b): the row operand of VPDPBUSD is
// unsigned, so rows are stored with 128 added.
func (x x86) startInt8(a *asm) {
	for v := 0; v < x.nv; v++ {
		a.p("VMOVDQU32 %d(R11), %s", v*x.vb, x.r(x.acc(0, v)))
	}
	for i := 1; i < x.mr; i++ {
		for v := 0; v < x.nv; v++ {
			a.p("VMOVDQA32 %s, %s", x.r(x.acc(0, v)), x.r(x.acc(i, v)))
		}
	}
}

// tile writes the products: unrolled when ku > 0, else a loop over R12. The
// first product is a multiplication, the others are fused, in the order of
// the depth: this order is the contract that makes all scores bit-equal.
func (x x86) tile(a *asm, i8 bool, ku int) {
	if ku > 0 {
		for k := 0; k < ku; k++ {
			x.step(a, i8, k == 0, k, "AX")
		}
		return
	}
	advance := func() {
		a.p("ADDQ $%d, SI", x.mr*4)
		a.p("ADDQ $%d, BX", x.nv*x.vb)
	}
	a.p("MOVQ AX, SI")
	a.p("MOVQ R12, R13")
	if !i8 {
		x.step(a, i8, true, 0, "SI")
		advance()
		a.p("DECQ R13")
		a.p("JZ summed")
	}
	a.label("depth")
	x.step(a, i8, false, 0, "SI")
	advance()
	a.p("DECQ R13")
	a.p("JNZ depth")
	if !i8 {
		a.label("summed")
	}
}

// step is one value of the depth (four for int8) over the whole tile.
func (x x86) step(a *asm, i8, first bool, k int, rows string) {
	for v := 0; v < x.nv; v++ {
		a.p("VMOVUPS %d(BX), %s", (k*x.nv+v)*x.vb, x.r(v))
	}
	for i := 0; i < x.mr; i++ {
		bc := x.nv + i%x.nbc
		a.p("VBROADCASTSS %d(%s), %s", (k*x.mr+i)*4, rows, x.r(bc))
		for v := 0; v < x.nv; v++ {
			switch {
			case i8: // unsigned rows in the second source, signed columns first
				a.p("VPDPBUSD %s, %s, %s", x.r(v), x.r(bc), x.r(x.acc(i, v)))
			case first:
				a.p("VMULPS %s, %s, %s", x.r(bc), x.r(v), x.r(x.acc(i, v)))
			default:
				a.p("VFMADD231PS %s, %s, %s", x.r(bc), x.r(v), x.r(x.acc(i, v)))
			}
		}
	}
}

// columnMaxima folds the tile into R9. The accumulators stay untouched for
// the row maxima, so it works in the column and broadcast registers, with two
// chains per vector to halve the latency where registers allow (nbc >= 4).
func (x x86) columnMaxima(a *asm, mx, mov string) {
	for v := 0; v < x.nv; v++ {
		d0, d1 := v, v+x.nv
		a.p("%s %d(R9), %s, %s", mx, v*x.vb, x.r(x.acc(0, v)), x.r(d0))
		a.p("%s %s, %s, %s", mx, x.r(x.acc(1, v)), x.r(x.acc(2, v)), x.r(d1))
		for i := 3; i < x.mr; i++ {
			d := d0
			if i%2 == 0 {
				d = d1
			}
			a.p("%s %s, %s, %s", mx, x.r(x.acc(i, v)), x.r(d), x.r(d))
		}
		a.p("%s %s, %s, %s", mx, x.r(d1), x.r(d0), x.r(d0))
		a.p("%s %s, %d(R9)", mov, x.r(d0), v*x.vb)
	}
}

// reduce leaves the maximum of register 0 in its lowest lane, using 1.
func (x x86) reduce(a *asm, mx string) {
	if x.reg == "Z" {
		a.p("VEXTRACTF64X4 $1, Z0, Y1")
		a.p("%s Y0, Y1, Y0", mx)
	}
	a.p("VEXTRACTF128 $1, Y0, X1")
	a.p("%s X0, X1, X0", mx)
	a.p("VPERMILPS $0x4e, X0, X1")
	a.p("%s X0, X1, X0", mx)
	a.p("VPERMILPS $0xb1, X0, X1")
	a.p("%s X0, X1, X0", mx)
}

// dot1 writes the scores of one row (AX) against one panel (BX) into
// registers 0..nv-1, in the same order of operations as a tile. It advances
// BX. The chains are long, but those of following panels do not depend on
// them, so out-of-order execution fills the pipes.
func (x x86) dot1(a *asm, ku int) {
	bc := x.nv
	step := func(first bool, k int, row string) {
		a.p("VBROADCASTSS %d(%s), %s", k*4, row, x.r(bc))
		for v := 0; v < x.nv; v++ {
			op := "VFMADD231PS"
			if first {
				op = "VMULPS"
			}
			a.p("%s %d(BX), %s, %s", op, (k*x.nv+v)*x.vb, x.r(bc), x.r(v))
		}
	}
	if ku > 0 {
		for k := 0; k < ku; k++ {
			step(k == 0, k, "AX")
		}
		a.p("ADDQ $%d, BX", ku*x.nv*x.vb)
		return
	}
	a.p("MOVQ AX, SI")
	a.p("MOVQ R12, R13")
	step(true, 0, "SI")
	a.p("ADDQ $%d, BX", x.nv*x.vb)
	a.p("ADDQ $4, SI")
	a.p("DECQ R13")
	a.p("JZ summed")
	a.label("depth")
	step(false, 0, "SI")
	a.p("ADDQ $%d, BX", x.nv*x.vb)
	a.p("ADDQ $4, SI")
	a.p("DECQ R13")
	a.p("JNZ depth")
	a.label("summed")
}

// firstEqual writes the search for the first column whose score is t.
func (x x86) firstEqual(a *asm, ku int) {
	a.text(x.name("firstEqual", ku), "(a, b *float32, panels, dim int, t float32) int", 48)
	a.p("MOVQ a+0(FP), AX")
	a.p("MOVQ b+8(FP), BX")
	a.p("MOVQ panels+16(FP), R8")
	a.p("MOVQ dim+24(FP), R12")
	a.p("VBROADCASTSS t+32(FP), %s", x.r(15))
	a.p("XORQ CX, CX")
	a.label("panel")
	x.dot1(a, ku)
	lanes := x.vb / 4
	for v := 0; v < x.nv; v++ {
		if x.reg == "Z" {
			a.p("VCMPPS $0, %s, %s, K%d", x.r(v), x.r(15), v+1)
			a.p("KMOVW K%d, R%d", v+1, 9+v)
		} else {
			a.p("VCMPPS $0, %s, %s, %s", x.r(v), x.r(15), x.r(v))
			a.p("VMOVMSKPS %s, R%d", x.r(v), 9+v)
		}
	}
	a.p("SHLQ $%d, R10", lanes)
	a.p("ORQ R9, R10")
	a.p("JNZ hit")
	a.p("ADDQ $%d, CX", lanes*x.nv)
	a.p("DECQ R8")
	a.p("JNZ panel")
	a.p("MOVQ $-1, CX")
	a.p("MOVQ CX, ret+40(FP)")
	a.p("VZEROUPPER")
	a.p("RET")
	a.label("hit")
	a.p("BSFQ R10, R10")
	a.p("ADDQ R10, CX")
	a.p("MOVQ CX, ret+40(FP)")
	a.p("VZEROUPPER")
	a.p("RET")
}

// rowBest writes the maximum over panels for one row.
func (x x86) rowBest(a *asm, ku int) {
	a.text(x.name("rowBest", ku), "(a, b *float32, panels, dim int) float32", 36)
	a.p("MOVQ a+0(FP), AX")
	a.p("MOVQ b+8(FP), BX")
	a.p("MOVQ panels+16(FP), R8")
	a.p("MOVQ dim+24(FP), R12")
	a.p("MOVL $0xff800000, SI")
	a.p("VMOVD SI, X15")
	a.p("VBROADCASTSS X15, %s", x.r(15))
	a.p("VMOVAPS %s, %s", x.r(15), x.r(14))
	a.label("panel")
	x.dot1(a, ku)
	a.p("VMAXPS %s, %s, %s", x.r(0), x.r(14), x.r(14))
	a.p("VMAXPS %s, %s, %s", x.r(1), x.r(15), x.r(15))
	a.p("DECQ R8")
	a.p("JNZ panel")
	a.p("VMAXPS %s, %s, %s", x.r(14), x.r(15), x.r(0))
	x.reduce(a, "VMAXPS")
	a.p("VMOVSS X0, ret+32(FP)")
	a.p("VZEROUPPER")
	a.p("RET")
}
