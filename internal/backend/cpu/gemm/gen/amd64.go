// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa/encode"
)

func amd64(a *asm) {
	for _, typ := range []string{"F32", "F16", "BF16"} {
		a.group("avx512" + typ)
		for _, mr := range []int{14, 12, 8, 6, 4, 2, 1} {
			x86Kernel{name: fmt.Sprintf("avx512%sx%d", typ, mr), typ: typ, mr: mr, v: "Z", bytes: 64, regs: 32}.emit(a)
		}
	}
	for _, typ := range []string{"F32", "F16"} {
		a.group("avx2" + typ)
		for _, mr := range []int{6, 4, 2, 1} {
			x86Kernel{name: fmt.Sprintf("avx2%sx%d", typ, mr), typ: typ, mr: mr, v: "Y", bytes: 32, regs: 16}.emit(a)
		}
	}
	for _, typ := range []string{"F32", "BF16"} {
		x86Kernel{name: "avx512Scores" + typ, typ: typ, mr: 14, v: "Z", bytes: 64, regs: 32}.emitScores(a)
	}
	tileConfig(a)
	tileKernel(a, 32, true)
	tileKernel(a, 32, false)
	tileKernel(a, 16, false)
	x86Elementwise(a)
}

// x86Kernel is a microkernel of mr rows and two vectors of columns. All sums stay
// in registers; the two vectors of B and, in turn, two broadcast elements of A
// use four more.
type x86Kernel struct {
	name, typ string
	mr        int
	v         string // register prefix
	bytes     int    // of a vector
	regs      int
}

const unroll = 4

func (k x86Kernel) acc(i, v int) string {
	return fmt.Sprintf("%s%d", k.v, k.regs-2*k.mr+2*i+v)
}

// bVec is the bytes that one vector of columns takes in a panel step, and bStep
// the bytes of the whole step of 32 columns.
func (k x86Kernel) bVec() int {
	if k.typ == "F16" {
		return k.bytes / 2
	}
	return k.bytes
}

func (k x86Kernel) bStep() int {
	if k.typ == "F16" {
		return 64
	}
	return 128
}

// Row i of A is at bases[i/3] + (i%3)*lda: three rows per base register.
var x86Bases = []string{"AX", "R9", "R10", "R11", "DX"}

func (k x86Kernel) row(i, step int) string {
	index := [3]string{"", "(R8*1)", "(R8*2)"}[i%3]
	return fmt.Sprintf("%d(%s)%s", step*4, x86Bases[i/3], index)
}

func (k x86Kernel) emit(a *asm) {
	bases := x86Bases[:(k.mr+2)/3]
	a.kernel(k.name)
	a.p("MOVQ p+0(FP), DI")
	a.p("MOVQ 8(DI), R8")   // lda
	a.p("MOVQ 16(DI), BX")  // b
	a.p("MOVQ 48(DI), R13") // runs
	a.p("MOVQ 56(DI), R12") // off
	a.p("MOVQ 64(DI), SI")  // ini
	a.p("MOVQ 72(DI), CX")  // ldi
	for i := range k.mr {
		a.p("VMOVUPS (SI), %s", k.acc(i, 0))
		a.p("VMOVUPS %d(SI), %s", k.bytes, k.acc(i, 1))
		if i < k.mr-1 {
			a.p("ADDQ CX, SI")
		}
	}
	a.label("run")
	a.p("MOVQ (DI), AX")
	a.p("ADDQ (R12), AX")
	a.p("ADDQ $8, R12")
	for g := 1; g < len(bases); g++ {
		a.p("LEAQ (%s)(R8*2), %s", bases[g-1], bases[g])
		a.p("ADDQ R8, %s", bases[g])
	}
	k.loop(a, bases)
	a.label("next")
	a.p("DECQ R13")
	a.p("JNZ run")
	a.p("MOVQ 24(DI), CX") // c
	a.p("MOVQ 32(DI), DX") // ldc
	for i := range k.mr {
		a.p("VMOVUPS %s, (CX)", k.acc(i, 0))
		a.p("VMOVUPS %s, %d(CX)", k.acc(i, 1), k.bytes)
		if i < k.mr-1 {
			a.p("ADDQ DX, CX")
		}
	}
	a.p("VZEROUPPER")
	a.p("RET")
}

// loop multiplies all steps of a run and ends at the label next.
func (k x86Kernel) loop(a *asm, bases []string) {
	a.p("MOVQ 40(DI), SI") // steps
	a.p("SUBQ $%d, SI", unroll)
	a.p("JLT tail")
	a.p("PCALIGN $32")
	a.label("loop")
	for u := range unroll {
		k.step(a, u)
	}
	k.advance(a, bases, unroll)
	a.p("SUBQ $%d, SI", unroll)
	a.p("JGE loop")
	a.label("tail")
	a.p("ADDQ $%d, SI", unroll)
	a.p("JZ next")
	a.label("one")
	k.step(a, 0)
	k.advance(a, bases, 1)
	a.p("DECQ SI")
	a.p("JNZ one")
}

// step multiplies one step of B with all rows.
func (k x86Kernel) step(a *asm, u int) {
	for v := range 2 {
		off := u*k.bStep() + v*k.bVec()
		if k.typ == "F16" {
			a.p("VCVTPH2PS %d(BX), %s%d", off, k.v, v)
		} else {
			a.p("VMOVUPS %d(BX), %s%d", off, k.v, v)
		}
	}
	for i := range k.mr {
		bc := 2 + i%2
		a.p("VBROADCASTSS %s, %s%d", k.row(i, u), k.v, bc)
		for v := range 2 {
			if k.typ == "BF16" {
				d := k.regs - 2*k.mr + 2*i + v
				// VDPBF16PS: EVEX.512.F3.0F38.W0 52 /r
				a.p("%s // VDPBF16PS Z%d, Z%d, Z%d", evex(2, 2, 0x52, d, v, bc), bc, v, d)
			} else {
				a.p("VFMADD231PS %s%d, %s%d, %s", k.v, bc, k.v, v, k.acc(i, v))
			}
		}
	}
}

func (k x86Kernel) advance(a *asm, bases []string, n int) {
	for _, b := range bases {
		a.p("ADDQ $%d, %s", 4*n, b)
	}
	a.p("ADDQ $%d, BX", n*k.bStep())
}

// evex encodes a 512-bit instruction on registers: dst, src1 (vvvv), src2 (rm).
// Intel SDM volume 2, section 2.7.1: the register numbers' upper bits are stored
// inverted; mm selects the opcode map, pp the legacy prefix.
func evex(mm, pp, op byte, dst, src1, src2 int) string {
	inv := func(r, bit int) byte { return byte(^(r >> bit) & 1) }
	b := []byte{
		0x62,
		inv(dst, 3)<<7 | inv(src2, 4)<<6 | inv(src2, 3)<<5 | inv(dst, 4)<<4 | mm,
		byte(^src1&15)<<3 | 1<<2 | pp,
		2<<5 | inv(src1, 4)<<3,
		op,
		byte(0xc0 | dst&7<<3 | src2&7),
	}
	return encode.Bytes(b...)
}
