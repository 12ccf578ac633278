// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa/encode"
)

// Tiles of the kernels: accumulators 0 to 3, two of A, two of B.
const (
	tileA = 4
	tileB = 6
)

// tileConfig is what LDTILECFG reads: palette 1, all eight tiles with 16 rows of 64
// bytes.
func tileConfig(a *asm) {
	var c [64]byte
	c[0] = 1
	for t := range 8 {
		c[16+2*t] = 64
		c[48+t] = 16
	}
	fmt.Fprintln(&a.code)
	for i := 0; i < len(c); i += 8 {
		fmt.Fprintf(&a.code, "DATA ·tileConfig+%d(SB)/8, $0x", i)
		for j := 7; j >= 0; j-- {
			fmt.Fprintf(&a.code, "%02x", c[i+j])
		}
		fmt.Fprintln(&a.code)
	}
	fmt.Fprintf(&a.code, "GLOBL ·tileConfig(SB), RODATA|NOPTR, $%d\n", len(c))
}

// aheadOf is how far ahead of the step at hand lines are asked for: two steps.
const aheadOf = 2 * 2048

// tileKernel writes a function of tkargs: groups of 16 or 32 rows times panels. The
// tiles are configured when it begins and released before it returns, so that none
// is in use where the goroutine can move to another thread or return to C. Both
// together take 80 ns.
//
// A load of a tile waits for its lines, and few loads are under way at a time. So the
// lines of the panel, and those of A where its steps lie one after the other (packed),
// are asked for before.
func tileKernel(a *asm, rows int, packed bool) {
	name := fmt.Sprintf("amxBF16x%d", rows)
	if packed {
		name += "Packed"
	}
	fmt.Fprintf(&a.code, "\n// func %s(p *tkargs)\nTEXT ·%s(SB), NOSPLIT, $24-8\n", name, name)
	a.others = append(a.others, fmt.Sprintf("//go:noescape\nfunc %s(p *tkargs)", name))
	k := tileAsm{a, rows == 32, packed}
	a.p("MOVQ p+0(FP), DI")
	a.p("LEAQ ·tileConfig(SB), AX")
	a.p("%s // LDTILECFG (AX)", encode.LDTILECFG("AX"))
	a.p("MOVQ 8(DI), R8")    // lda
	a.p("MOVQ 32(DI), BX")   // b
	a.p("MOVQ 120(DI), R13") // panels
	a.p("MOVQ $128, DX")
	a.p("MOVQ 48(DI), CX") // c
	a.p("MOVQ CX, 0(SP)")
	a.p("MOVQ 72(DI), SI") // ini
	a.p("MOVQ SI, 8(SP)")
	a.label("panel")
	a.p("MOVQ (DI), AX") // a
	a.p("MOVQ 0(SP), CX")
	a.p("MOVQ 8(SP), SI")
	a.p("MOVQ 112(DI), R12") // groups
	a.label("group")
	a.p("MOVQ AX, 16(SP)")
	a.p("MOVQ 80(DI), R9") // ldi
	k.sums(k.load, "SI")
	k.below("AX", "R8", "R11")
	a.p("MOVQ 104(DI), R10") // steps
	a.p("MOVQ BX, R9")
	a.p("PCALIGN $32")
	a.label("step")
	k.step()
	a.p("DECQ R10")
	a.p("JNZ step")
	a.p("MOVQ 56(DI), R9") // ldc
	k.sums(k.store, "CX")
	a.p("MOVQ 16(SP), AX")
	a.p("ADDQ 24(DI), AX") // nexta
	a.p("ADDQ 64(DI), CX") // nextc
	a.p("ADDQ 88(DI), SI") // nexti
	a.p("DECQ R12")
	a.p("JNZ group")
	a.p("ADDQ 40(DI), BX") // nextb
	a.p("ADDQ $128, 0(SP)")
	a.p("MOVQ 96(DI), R10") // panelI
	a.p("ADDQ R10, 8(SP)")
	a.p("DECQ R13")
	a.p("JNZ panel")
	a.p("%s // TILERELEASE", encode.TILERELEASE())
	a.p("RET")
}

// tileAsm writes the parts of a tile kernel.
type tileAsm struct {
	*asm
	two, packed bool // two tiles of rows
}

func (k tileAsm) load(t int, base, index string, disp int) {
	k.p("%s // TILELOADD %d(%s)(%s*1), T%d", encode.TILELOADD(t, base, index, disp), disp, base, index, t)
}

func (k tileAsm) store(t int, base, index string, disp int) {
	k.p("%s // TILESTORED T%d, %d(%s)(%s*1)", encode.TILESTORED(t, base, index, disp), t, disp, base, index)
}

func (k tileAsm) dot(c, x, b int) {
	k.p("%s // TDPBF16PS T%d, T%d, T%d", encode.TDPBF16PS(c, x, b), b, x, c)
}

// below makes the address of row 16, where there is one.
func (k tileAsm) below(base, ld, to string) {
	if k.two {
		k.p("MOVQ %s, %s", ld, to)
		k.p("SHLQ $4, %s", to)
		k.p("ADDQ %s, %s", base, to)
	}
}

// sums moves the accumulators from or to base, rows R9 bytes apart.
func (k tileAsm) sums(move func(t int, base, index string, disp int), base string) {
	move(0, base, "R9", 0)
	move(1, base, "R9", 64)
	if k.two {
		k.below(base, "R9", "R10")
		move(2, "R10", "R9", 0)
		move(3, "R10", "R9", 64)
	}
}

// step multiplies one step of a group with a panel.
func (k tileAsm) step() {
	line := 0
	ask := func() { // for a quarter of the lines of a step to come
		for range 8 {
			if k.packed {
				k.p("PREFETCHT0 %d(AX)", aheadOf+line*64)
			}
			k.p("PREFETCHT0 %d(R9)", aheadOf+line*64)
			line++
		}
	}
	k.load(tileB, "R9", "DX", 0)
	k.load(tileA, "AX", "R8", 0)
	k.dot(0, tileA, tileB)
	ask()
	k.load(tileB+1, "R9", "DX", 64)
	k.dot(1, tileA, tileB+1)
	ask()
	if k.two {
		k.load(tileA+1, "R11", "R8", 0)
		k.dot(2, tileA+1, tileB)
		ask()
		k.dot(3, tileA+1, tileB+1)
		k.p("ADDQ 16(DI), R11")
	} else {
		ask()
	}
	ask()
	k.p("ADDQ 16(DI), AX")
	k.p("ADDQ $2048, R9")
}

// spreadBF16 writes a function of spargs: 32 values at a time, limited from below,
// are rounded to one row of a tile. Where a value is no number it stays none: the
// maximum takes its second operand then.
func (x x86) spreadBF16() {
	x.text("avx512SpreadBF16", "spargs")
	x.p("MOVQ p+0(FP), R8")
	x.p("MOVQ (R8), DI")
	x.p("MOVQ 8(R8), SI")
	x.p("MOVQ 16(R8), CX")
	x.p("MOVQ 24(R8), R9")
	x.p("VBROADCASTSS 32(R8), Z2")
	x.label("loop")
	x.p("VMAXPS (SI), Z2, Z0")
	x.p("VMAXPS 64(SI), Z2, Z1")
	x.p("%s // VCVTNE2PS2BF16 Z0, Z1, Z0", evex(2, 3, 0x72, 0, 1, 0))
	x.p("VMOVUPS Z0, (DI)")
	x.p("ADDQ $128, SI")
	x.p("ADDQ R9, DI")
	x.p("SUBQ $32, CX")
	x.p("JNZ loop")
	x.p("VZEROUPPER")
	x.p("RET")
}
