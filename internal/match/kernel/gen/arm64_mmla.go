// SPDX-License-Identifier: Apache-2.0

package main

// The tile of SMMLA is that of SDOT, 8 rows by 12 columns, and so are the operands in
// memory. SMMLA adds to the four values of a register the sums of two rows and two
// columns, eight products each; two words of a row's depth, zipped with the next row's,
// are its second operand, and the same of two columns its third.
//
// V8 to V31 are the sums of 4 pairs of rows and 6 of columns, V0 to V3 the pairs of rows.

// mmla is the sum of pair i of rows and pair v of columns.
func mmla(i, v int) int { return neonAcc + 6*i + v }

// zip leaves words of n and m in turn in d, those of their first or second halves.
func zip(a *asm, half, d, n, m int) {
	a.p("VZIP%d V%d.S4, V%d.S4, V%d.S4", half, m, n, d)
}

// mmlaStrip writes the int8 tile kernel; the registers are those of neonStripInt8.
func mmlaStrip(a *asm, both bool, ku int) {
	neonBegin(a, "MMLA", true, both, ku)
	for r := neonAcc; r < 32; r++ {
		a.p("VEOR V%d.B16, V%d.B16, V%d.B16", r, r, r)
	}
	if ku > 0 {
		for range ku / 2 {
			mmlaStep(a, true)
		}
	} else {
		a.p("SUBS $2, R6, R9")
		a.p("BLT last")
		a.label("depth")
		mmlaStep(a, true)
		a.p("SUBS $2, R9, R9")
		a.p("BGE depth")
		a.label("last")
		a.p("ADDS $2, R9, R9")
		a.p("BEQ summed")
		mmlaStep(a, false)
		a.label("summed")
	}
	if both {
		mmlaColumnMaxima(a)
	}
	a.p("MOVD R4, R7")
	for i := range neonMR / 2 {
		a.p("VLD1 (R7), [V0.S4]")
		for v := range 2 * neonNV {
			smax(a, 0, 0, mmla(i, v))
		}
		a.p("VST1.P [V0.S4], 16(R7)")
	}
	a.p("SUBS $1, R2, R2")
	a.p("BNE panel")
	for range neonMR / 2 {
		a.p("VLD1.P 16(R4), [V0.S4]")
		three(a, "SMAXP", 0x4ea0a400, 0, 0, 0)
		a.p("FMOVD F0, (R5)")
		a.p("ADD $8, R5, R5")
	}
	a.p("RET")
}

// mmlaStep multiplies two words of depth, or the last one and zeros.
func mmlaStep(a *asm, two bool) {
	next := func(memory string) {
		if two {
			a.p("VLD1.P %s", memory)
		}
	}
	if !two {
		a.p("VEOR V6.B16, V6.B16, V6.B16")
		a.p("VEOR V7.B16, V7.B16, V7.B16")
	}
	a.p("VLD1.P 32(R8), %s", vectors(4, 2))
	next("32(R8), " + vectors(6, 2))
	for i := range 2 {
		zip(a, 1, 2*i, 4+i, 6+i)
		zip(a, 2, 2*i+1, 4+i, 6+i)
	}
	for v := range neonNV {
		a.p("FMOVQ %d(R1), F4", 16*v)
		if two {
			a.p("FMOVQ %d(R1), F5", 16*(neonNV+v))
		} else {
			a.p("VEOR V5.B16, V5.B16, V5.B16")
		}
		zip(a, 1, 6, 4, 5)
		zip(a, 2, 7, 4, 5)
		for i := range neonMR / 2 {
			smmla(a, mmla(i, 2*v), i, 6)
			smmla(a, mmla(i, 2*v+1), i, 7)
		}
	}
	steps := 1
	if two {
		steps = 2
	}
	a.p("ADD $%d, R1, R1", 16*neonNV*steps)
}

// smmla adds to the sums d the products of the rows n with the columns m.
func smmla(a *asm, d, n, m int) {
	w := 0x4e80a400 | uint32(m)<<16 | uint32(n)<<5 | uint32(d)
	a.p("WORD $0x%08x // SMMLA V%d.4S, V%d.16B, V%d.16B", w, d, n, m)
}

// mmlaColumnMaxima takes the larger of the column maxima and of all rows. The lower
// halves of V4 and V5 have those of even rows for four columns, the upper halves those of
// odd rows.
func mmlaColumnMaxima(a *asm) {
	a.p("VLD1 (R3), %s", vectors(0, neonNV))
	for v := range neonNV {
		for j := range 2 {
			smax(a, 4+j, mmla(0, 2*v+j), mmla(1, 2*v+j))
			for i := 2; i < neonMR/2; i++ {
				smax(a, 4+j, 4+j, mmla(i, 2*v+j))
			}
		}
		a.p("VZIP1 V5.D2, V4.D2, V6.D2")
		a.p("VZIP2 V5.D2, V4.D2, V7.D2")
		smax(a, v, v, 6)
		smax(a, v, v, 7)
	}
	a.p("VST1.P %s, 48(R3)", vectors(0, neonNV))
}
