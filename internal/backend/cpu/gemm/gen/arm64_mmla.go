// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// mmlaKernel is a microkernel of mr rows x 16 columns for bfloat16. BFMMLA adds to the
// four values of a register, sums of two rows and two columns, four products each: its
// second operand has four values of a row in its lower half and of the next row in its
// upper half, its third the same of two columns.
//
// Panels are those of VDPBF16PS, pairs of a row's values column by column. Two steps of
// four columns, zipped, are the operand of two columns and of the next two: one
// instruction for mr/2 products.
//
// V8 and up are the sums, V2 to V4 pairs of rows, V7 is zero.
type mmlaKernel struct {
	name string
	mr   int
}

const mmlaZero = 7

func (k mmlaKernel) pairs() int { return (k.mr + 1) / 2 }

// acc is the sum of pair i of rows and pair v of columns.
func (k mmlaKernel) acc(i, v int) int { return 8 + 8*i + v }

func (k mmlaKernel) emit(a *asm) {
	a.kernel(k.name)
	a.p("MOVD p+0(FP), R0")
	a.p("MOVD 8(R0), R7")   // lda
	a.p("MOVD 16(R0), R8")  // b
	a.p("MOVD 48(R0), R11") // runs
	a.p("MOVD 56(R0), R12") // off
	a.p("MOVD 64(R0), R9")  // ini
	a.p("MOVD 72(R0), R13") // ldi
	a.p("VEOR V7.B16, V7.B16, V7.B16")
	for i := range k.pairs() {
		a.p("ADD R13, R9, R10")
		for v := 0; v < 8; v += 2 {
			a.p("FMOVQ %d(R9), F0", 8*v)
			second := mmlaZero
			if 2*i+1 < k.mr {
				second = 1
				a.p("FMOVQ %d(R10), F1", 8*v)
			}
			a.p("VZIP1 V%d.D2, V0.D2, V%d.D2", second, k.acc(i, v))
			a.p("VZIP2 V%d.D2, V0.D2, V%d.D2", second, k.acc(i, v+1))
		}
		a.p("ADD R13, R10, R9")
	}
	a.label("run")
	a.p("MOVD (R0), R1")
	a.p("MOVD.P 8(R12), R14")
	a.p("ADD R14, R1, R1")
	for i := 1; i < k.mr; i++ {
		a.p("ADD R7, R%d, R%d", i, i+1)
	}
	a.p("MOVD 40(R0), R10") // steps
	a.p("SUBS $2, R10, R10")
	a.p("BLT tail")
	a.label("loop")
	k.step(a, 2)
	a.p("SUBS $2, R10, R10")
	a.p("BGE loop")
	a.label("tail")
	a.p("ADDS $2, R10, R10")
	a.p("BEQ next")
	k.step(a, 1)
	a.label("next")
	a.p("SUBS $1, R11, R11")
	a.p("BNE run")
	k.store(a)
	a.p("RET")
}

// step multiplies one or two steps of B; a missing one is zero.
func (k mmlaKernel) step(a *asm, n int) {
	for r := range k.mr {
		move, lane := "FMOVD.P 8(R%d), F%d", "VLD1.P 8(R%d), V%d.D[1]"
		if n == 1 {
			move, lane = "FMOVS.P 4(R%d), F%d", "VLD1.P 4(R%d), V%d.S[2]"
		}
		if r%2 == 1 {
			move = lane
		}
		a.p(move, r+1, 2+r/2)
	}
	for v := 0; v < 8; v += 2 {
		a.p("FMOVQ %d(R8), F0", 8*v)
		second := mmlaZero
		if n == 2 {
			second = 1
			a.p("FMOVQ %d(R8), F1", 128+8*v)
		}
		a.p("VZIP1 V%d.S4, V0.S4, V5.S4", second)
		a.p("VZIP2 V%d.S4, V0.S4, V6.S4", second)
		for i := range k.pairs() {
			for j := range 2 {
				d := k.acc(i, v+j)
				a.p("%s", neon(fmt.Sprintf("BFMMLA V%d.4S, V%d.8H, V%d.8H", d, 2+i, 5+j), 0x6e40ec00, d, 2+i, 5+j))
			}
		}
	}
	a.p("ADD $%d, R8, R8", 128*n)
}

func (k mmlaKernel) store(a *asm) {
	a.p("MOVD 24(R0), R9")  // c
	a.p("MOVD 32(R0), R13") // ldc
	for i := range k.pairs() {
		a.p("ADD R13, R9, R10")
		for v := 0; v < 8; v += 2 {
			a.p("VZIP1 V%d.D2, V%d.D2, V0.D2", k.acc(i, v+1), k.acc(i, v))
			a.p("FMOVQ F0, %d(R9)", 8*v)
			if 2*i+1 < k.mr {
				a.p("VZIP2 V%d.D2, V%d.D2, V0.D2", k.acc(i, v+1), k.acc(i, v))
				a.p("FMOVQ F0, %d(R10)", 8*v)
			}
		}
		a.p("ADD R13, R10, R9")
	}
}

// toBF16 writes a function of vargs: float32 rounded to bfloat16.
func (x neonCode) toBF16() {
	x.text("neonToBF16", "vargs")
	x.p("MOVD (R0), R1")
	x.p("MOVD 8(R0), R2")
	x.p("MOVD 16(R0), R3")
	x.label("loop")
	x.p("VLD1.P 64(R2), [V0.S4, V1.S4, V2.S4, V3.S4]")
	for i := range 2 {
		x.narrowBF16(4+i, 2*i, 2*i+1)
	}
	x.p("VST1.P [V4.H8, V5.H8], 32(R1)")
	x.p("SUBS $16, R3, R3")
	x.p("BNE loop")
	x.p("RET")
}

// narrowBF16 rounds n and m to the halves of d.
func (x neonCode) narrowBF16(d, n, m int) {
	x.p("%s", neon(fmt.Sprintf("BFCVTN V%d.4H, V%d.4S", d, n), 0x0ea16800, d, n, 0))
	x.p("%s", neon(fmt.Sprintf("BFCVTN2 V%d.8H, V%d.4S", d, m), 0x4ea16800, d, m, 0))
}

// pairBF16 writes a function of pargs: two rows of 32 floats become pairs of bfloat16.
func (x neonCode) pairBF16() {
	x.text("neonPairBF16", "pargs")
	for i, r := range []string{"R1", "R2", "R3", "R4"} { // dst, src, lds, pairs
		x.p("MOVD %d(R0), %s", i*8, r)
	}
	x.label("loop")
	x.p("ADD R3, R2, R5")
	x.p("ADD R3, R5, R6")
	for range 4 {
		x.p("VLD1.P 32(R2), [V0.S4, V1.S4]")
		x.p("VLD1.P 32(R5), [V2.S4, V3.S4]")
		x.narrowBF16(4, 0, 1)
		x.narrowBF16(5, 2, 3)
		x.p("VZIP1 V5.H8, V4.H8, V6.H8")
		x.p("VZIP2 V5.H8, V4.H8, V7.H8")
		x.p("VST1.P [V6.H8, V7.H8], 32(R1)")
	}
	x.p("MOVD R6, R2")
	x.p("SUBS $1, R4, R4")
	x.p("BNE loop")
	x.p("RET")
}
