// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// Instructions on Intel's matrix tiles (AMX), which Go's assembler does not have.
// All are VEX-encoded with opcode map 0F38, W0 and a length of 128 (Intel SDM volume
// 2, section 2.3.5); pp is the prefix, of which 0 is none, 1 is 66, 2 F3 and 3 F2.

// hex writes bytes as the assembler takes them.
func hex(b ...byte) string {
	s := make([]string, len(b))
	for i, x := range b {
		s[i] = fmt.Sprintf("BYTE $0x%02x", x)
	}
	return strings.Join(s, "; ")
}

// numbers of the general registers in encodings.
var x86Number = map[string]int{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SP": 4, "BP": 5, "SI": 6, "DI": 7,
	"R8": 8, "R9": 9, "R10": 10, "R11": 11, "R12": 12, "R13": 13}

// vexMem encodes an instruction with a tile register (or an opcode digit) and the
// memory at base + index + disp; index "" is none.
func vexMem(pp, op byte, tile int, base, index string, disp int8) string {
	b, x := x86Number[base], 4 // 4 is no index
	if index != "" {
		x = x86Number[index]
	}
	return hex(0xc4, 1<<7|byte(^(x>>3)&1)<<6|byte(^(b>>3)&1)<<5|2, 15<<3|pp, op,
		byte(1<<6|tile<<3|4), byte(x&7<<3|b&7), byte(disp))
}

// vexTiles encodes an instruction on tile registers: reg and rm of its ModRM byte,
// and vvvv.
func vexTiles(pp, op byte, reg, rm, vvvv int) string {
	return hex(0xc4, 7<<5|2, byte(^vvvv&15)<<3|pp, op, byte(3<<6|reg<<3|rm))
}

func ldTileCfg(base string) string { return vexMem(0, 0x49, 0, base, "", 0) }

func tileRelease() string { return vexTiles(0, 0x49, 0, 0, 0) }

// tileLoad loads rows from base + i*index + disp on.
func tileLoad(t int, base, index string, disp int8) string {
	return vexMem(3, 0x4b, t, base, index, disp)
}

// tileStore stores rows to base + i*index + disp on.
func tileStore(t int, base, index string, disp int8) string {
	return vexMem(2, 0x4b, t, base, index, disp)
}

// tdpBF16 adds to tile c the product of a (rows x 32 values) and b (16 pairs x 16
// columns).
func tdpBF16(c, a, b int) string { return vexTiles(2, 0x5c, c, a, b) }

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

// tileKernel writes a function of tkargs: groups of 16 or 32 rows times panels. The
// tiles are configured when it begins and released before it returns, so that none
// is in use where the goroutine can move to another thread or return to C.
func tileKernel(a *asm, rows int) {
	name := fmt.Sprintf("amxBF16x%d", rows)
	fmt.Fprintf(&a.code, "\n// func %s(p *tkargs)\nTEXT ·%s(SB), NOSPLIT, $24-8\n", name, name)
	a.others = append(a.others, fmt.Sprintf("//go:noescape\nfunc %s(p *tkargs)", name))
	two := rows == 32
	op := func(text, comment string, args ...any) { a.p("%s // %s", text, fmt.Sprintf(comment, args...)) }
	load := func(t int, base, index string, disp int8) {
		op(tileLoad(t, base, index, disp), "TILELOADD %d(%s)(%s*1), T%d", disp, base, index, t)
	}
	store := func(t int, base, index string, disp int8) {
		op(tileStore(t, base, index, disp), "TILESTORED T%d, %d(%s)(%s*1)", t, disp, base, index)
	}
	dot := func(c, x, b int) { op(tdpBF16(c, x, b), "TDPBF16PS T%d, T%d, T%d", b, x, c) }
	// below is the address of row 16.
	below := func(base, ld, to string) {
		a.p("MOVQ %s, %s", ld, to)
		a.p("SHLQ $4, %s", to)
		a.p("ADDQ %s, %s", base, to)
	}
	a.p("MOVQ p+0(FP), DI")
	a.p("LEAQ ·tileConfig(SB), AX")
	op(ldTileCfg("AX"), "LDTILECFG (AX)")
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
	load(0, "SI", "R9", 0)
	load(1, "SI", "R9", 64)
	if two {
		below("SI", "R9", "R10")
		load(2, "R10", "R9", 0)
		load(3, "R10", "R9", 64)
		below("AX", "R8", "R11")
	}
	a.p("MOVQ 104(DI), R10") // steps
	a.p("MOVQ BX, R9")
	a.p("PCALIGN $32")
	a.label("step")
	load(tileB, "R9", "DX", 0)
	load(tileA, "AX", "R8", 0)
	dot(0, tileA, tileB)
	load(tileB+1, "R9", "DX", 64)
	dot(1, tileA, tileB+1)
	a.p("ADDQ 16(DI), AX")
	if two {
		load(tileA+1, "R11", "R8", 0)
		dot(2, tileA+1, tileB)
		dot(3, tileA+1, tileB+1)
		a.p("ADDQ 16(DI), R11")
	}
	a.p("ADDQ $2048, R9")
	a.p("DECQ R10")
	a.p("JNZ step")
	a.p("MOVQ 56(DI), R9") // ldc
	store(0, "CX", "R9", 0)
	store(1, "CX", "R9", 64)
	if two {
		below("CX", "R9", "R10")
		store(2, "R10", "R9", 0)
		store(3, "R10", "R9", 64)
	}
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
	op(tileRelease(), "TILERELEASE")
	a.p("RET")
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
