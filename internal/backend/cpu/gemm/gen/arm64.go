// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

func arm64(a *asm) {
	for _, typ := range []string{"F32", "F16"} {
		a.group("neon" + typ)
		for _, mr := range []int{6, 4, 2, 1} {
			neonKernel{name: fmt.Sprintf("neon%sx%d", typ, mr), typ: typ, mr: mr}.emit(a)
		}
	}
	a.group("mmlaBF16")
	for _, mr := range []int{6, 4, 2, 1} {
		mmlaKernel{name: fmt.Sprintf("mmlaBF16x%d", mr), mr: mr}.emit(a)
	}
	neonElementwise(a)
}

// neonKernel is a microkernel of mr rows x 16 columns. Each row contributes four
// consecutive elements of A in one register (V2 to V7), multiplied by element;
// the columns of B come two vectors at a time (V0, V1); the rest are sums. The
// shape is that of the AVX2 kernel, which also divides a panel of 32; 8 x 12
// would not, and would need A packed.
type neonKernel struct {
	name, typ string
	mr        int
}

func (k neonKernel) acc(i, v int) int { return 8 + 4*i + v }

func (k neonKernel) bStep() int {
	if k.typ == "F16" {
		return 64
	}
	return 128
}

// sums lists the four registers of row i, consecutive as VLD1 and VST1 want.
func (k neonKernel) sums(i int) string {
	return fmt.Sprintf("[V%d.S4, V%d.S4, V%d.S4, V%d.S4]", k.acc(i, 0), k.acc(i, 1), k.acc(i, 2), k.acc(i, 3))
}

func (k neonKernel) emit(a *asm) {
	a.kernel(k.name)
	a.p("MOVD p+0(FP), R0")
	a.p("MOVD 8(R0), R7")   // lda
	a.p("MOVD 16(R0), R8")  // b
	a.p("MOVD 48(R0), R11") // runs
	a.p("MOVD 56(R0), R12") // off
	a.p("MOVD 64(R0), R9")  // ini
	a.p("MOVD 72(R0), R13") // ldi
	for i := range k.mr {
		a.p("VLD1 (R9), %s", k.sums(i))
		a.p("ADD R13, R9, R9")
	}
	a.label("run")
	a.p("MOVD (R0), R1")
	a.p("MOVD.P 8(R12), R14")
	a.p("ADD R14, R1, R1")
	for i := 1; i < k.mr; i++ {
		a.p("ADD R7, R%d, R%d", i, i+1)
	}
	a.p("MOVD 40(R0), R10") // steps
	a.p("SUBS $4, R10, R10")
	a.p("BLT tail")
	a.label("loop")
	for i := range k.mr {
		a.p("VLD1.P 16(R%d), [V%d.S4]", i+1, i+2)
	}
	for u := range 4 {
		k.step(a, u, u)
	}
	a.p("ADD $%d, R8, R8", 4*k.bStep())
	a.p("SUBS $4, R10, R10")
	a.p("BGE loop")
	a.label("tail")
	a.p("ADDS $4, R10, R10")
	a.p("BEQ next")
	a.label("one")
	for i := range k.mr {
		a.p("FMOVS.P 4(R%d), F%d", i+1, i+2)
	}
	k.step(a, 0, 0)
	a.p("ADD $%d, R8, R8", k.bStep())
	a.p("SUBS $1, R10, R10")
	a.p("BNE one")
	a.label("next")
	a.p("SUBS $1, R11, R11")
	a.p("BNE run")
	a.p("MOVD 24(R0), R9")  // c
	a.p("MOVD 32(R0), R13") // ldc
	for i := range k.mr {
		a.p("VST1 %s, (R9)", k.sums(i))
		a.p("ADD R13, R9, R9")
	}
	a.p("RET")
}

// step multiplies one step of B, u steps on, with element e of every row.
func (k neonKernel) step(a *asm, u, e int) {
	for pair := range 2 {
		if k.typ == "F16" {
			a.p("FMOVQ %d(R8), F1", u*64+pair*16)
			a.p("%s", neon("FCVTL V0.4S, V1.4H", 0x0e217800, 0, 1, 0))
			a.p("%s", neon("FCVTL2 V1.4S, V1.8H", 0x4e217800, 1, 1, 0))
		} else {
			a.p("FMOVQ %d(R8), F0", u*128+pair*32)
			a.p("FMOVQ %d(R8), F1", u*128+pair*32+16)
		}
		for i := range k.mr {
			for v := range 2 {
				d := k.acc(i, 2*pair+v)
				// FMLA by element: bit 21 is L and bit 11 is H of the index H:L.
				op := uint32(0x4f801000 | e&1<<21 | e>>1<<11)
				a.p("%s", neon(fmt.Sprintf("FMLA V%d.4S, V%d.4S, V%d.S[%d]", d, v, i+2, e), op, d, v, i+2))
			}
		}
	}
}

// neon encodes an instruction of the form op | Rm<<16 | Rn<<5 | Rd (Arm ARM,
// section C4.1, the Advanced SIMD data-processing groups).
func neon(mnemonic string, op uint32, d, n, m int) string {
	return fmt.Sprintf("WORD $0x%08x // %s", op|uint32(m)<<16|uint32(n)<<5|uint32(d), mnemonic)
}
