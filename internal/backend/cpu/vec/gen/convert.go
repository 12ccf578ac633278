// SPDX-License-Identifier: Apache-2.0

package main

// convert is a loop over whole vectors between two element types; the Go side
// does the last n mod 16 elements.
func convert(name, dt, st string, ds, ss int, body func(a *asm, d, s string, x reg)) kernel {
	return kernel{name, args("dst", dt, "src", st, "n", "int"), "", func(a *asm) {
		d, s := a.ptr(0, "dst"), a.ptr(1, "src")
		x := a.reg()
		a.vectors(1, []string{d, s}, []int{ds, ss}, func(int) { body(a, d, s, x) })
		a.free(x)
	}}
}

const u16p, u8p = "*uint16", "*uint8"

var f16ToF32 = convert("f16ToF32", f32p, u16p, 4, 2, func(a *asm, d, s string, x reg) {
	if a.x86 {
		a.p("VCVTPH2PS (%s), %s", s, a.r(x))
	} else {
		a.p("FMOVD (%s), F%d", s, x)
		a.word(0x0e217800, x, x, -1, "fcvtl")
	}
	a.store(x, d)
})

var f32ToF16 = convert("f32ToF16", u16p, f32p, 2, 4, func(a *asm, d, s string, x reg) {
	a.load(x, s)
	if a.x86 {
		a.p("VCVTPS2PH $0, %s, (%s)", a.r(x), d)
	} else {
		a.word(0x0e216800, x, x, -1, "fcvtn")
		a.p("FMOVD F%d, (%s)", x, d)
	}
})

var bf16ToF32 = convert("bf16ToF32", f32p, u16p, 4, 2, func(a *asm, d, s string, x reg) {
	if a.x86 {
		a.p("VPMOVZXWD (%s), %s", s, a.r(x))
	} else {
		a.p("FMOVD (%s), F%d", s, x)
		a.word(0x2f10a400, x, x, -1, "uxtl")
	}
	a.shl(x, x, 16)
	a.store(x, d)
})

// f32ToBF16 adds half of the last place, and one more when the kept bit is
// odd, before dropping the low 16 bits; NaN is forced quiet instead.
var f32ToBF16 = convert("f32ToBF16", u16p, f32p, 2, 4, func(a *asm, d, s string, x reg) {
	r, t := a.reg(), a.reg()
	a.load(x, s)
	a.shr16(t, x)
	a.op("and", r, t, kbits(1))
	a.op("addi", r, r, kbits(0x7fff))
	a.op("addi", r, r, x)
	a.shr16(r, r)
	a.op("or", t, t, kbits(0x40))
	a.selectNaN(r, x, t)
	a.storeLow16(r, d)
	a.free(r, t)
})

var u8ToF32 = convert("u8ToF32", f32p, u8p, 4, 1, func(a *asm, d, s string, x reg) {
	if a.x86 {
		a.p("VPMOVZXBD (%s), %s", s, a.r(x))
	} else {
		a.p("FMOVS (%s), F%d", s, x)
		a.word(0x2f08a400, x, x, -1, "uxtl")
		a.word(0x2f10a400, x, x, -1, "uxtl")
	}
	a.un("toFloat", x, x)
	a.store(x, d)
})

// shr16 shifts 32-bit lanes right by 16, filling with zeros.
func (a *asm) shr16(d, x reg) {
	if a.x86 {
		a.p("VPSRLD $16, %s, %s", a.r(x), a.r(d))
		return
	}
	a.word(0x6f000400|uint32(64-16)<<16, d, x, -1, "ushr")
}

// selectNaN writes d = p where x is NaN.
func (a *asm) selectNaN(d, x, p reg) {
	switch a.isa {
	case avx512:
		a.p("VCMPPS $3, Z%d, Z%d, K2", x, x)
		a.p("VMOVAPS Z%d, K2, Z%d", p, d)
	case avx2:
		a.p("VCMPPS $3, Y%d, Y%d, Y14", x, x)
		a.p("VBLENDVPS Y14, Y%d, Y%d, Y%d", p, d, d)
	default:
		a.word(0x4e20e400, 29, x, x, "fcmeq")
		a.word(0x6ee01c00, d, p, 29, "bif")
	}
}

// storeLow16 stores the low halves of the lanes.
func (a *asm) storeLow16(x reg, ptr string) {
	switch a.isa {
	case avx512:
		a.p("VPMOVDW Z%d, (%s)", x, ptr)
	case avx2:
		a.p("VEXTRACTI128 $1, Y%d, X14", x)
		a.p("VPACKUSDW X14, X%d, X%d", x, x)
		a.p("VMOVDQU X%d, (%s)", x, ptr)
	default:
		a.word(0x0e612800, x, x, -1, "xtn")
		a.p("FMOVD F%d, (%s)", x, ptr)
	}
}
