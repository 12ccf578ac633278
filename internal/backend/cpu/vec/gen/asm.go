// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
)

// isa is one instruction set the generator writes for.
type isa struct {
	name   string // suffix of the function names
	goarch string
	lanes  int // float32 lanes of a register
	regs   int // registers the allocator may hand out
	x86    bool
}

var (
	avx512 = &isa{"AVX512", "amd64", 16, 32, true}
	avx2   = &isa{"AVX2", "amd64", 8, 14, true}  // Y14 scratch, Y15 tail mask
	neon   = &isa{"NEON", "arm64", 4, 29, false} // V29, V30 scratch, V31 tail mask
)

// Fixed general registers. R14 (g) and R15 (dynamic linking) stay untouched
// on amd64; R18 and R26 up on arm64.
var (
	x86Ptrs  = []string{"DI", "SI", "DX", "BX", "R8", "R9", "R11", "R12", "R13"}
	neonPtrs = []string{"R0", "R1", "R2", "R3", "R4", "R5", "R6", "R10", "R11"}
)

type reg int

// konst is a float32 constant operand, kbits the same by its bits.
type (
	konst float64
	kbits uint32
)

type arg struct{ name, typ string }

// asm writes one function after another for one isa. Every arithmetic method
// is written once per isa here, so that the kernels are written once at all.
type asm struct {
	*isa
	sb     strings.Builder
	used   []bool
	consts []uint32
	labels int
	tail   bool // between full vectors and the end of the row
	off    int  // element offset of the unrolled copy being written
	args   map[string]int
	fn     string
}

func newAsm(i *isa) *asm { return &asm{isa: i, used: make([]bool, i.regs)} }

// p writes one instruction.
func (a *asm) p(f string, v ...any) { fmt.Fprintf(&a.sb, "\t"+f+"\n", v...) }

func (a *asm) label(l string) { fmt.Fprintf(&a.sb, "%s:\n", l) }

// newLabel makes a name that is unique in the file.
func (a *asm) newLabel(s string) string {
	a.labels++
	return fmt.Sprintf("%s%d", s, a.labels)
}

// reg takes a free vector register. There is no spilling: a kernel that needs
// more than the smallest set has does not generate.
func (a *asm) reg() reg {
	for i := range a.used {
		if !a.used[i] {
			a.used[i] = true
			return reg(i)
		}
	}
	panic("gen: out of registers in " + a.fn)
}

func (a *asm) free(rs ...reg) {
	for _, r := range rs {
		if !a.used[r] {
			panic("gen: double free in " + a.fn)
		}
		a.used[r] = false
	}
}

// r is the assembler's name of a register at full width.
func (a *asm) r(x reg) string {
	switch a.isa {
	case avx512:
		return fmt.Sprintf("Z%d", x)
	case avx2:
		return fmt.Sprintf("Y%d", x)
	}
	return fmt.Sprintf("V%d", x)
}

// pool returns the offset of a constant in the table of this isa.
func (a *asm) pool(bits uint32) int {
	for i, c := range a.consts {
		if c == bits {
			return i
		}
	}
	a.consts = append(a.consts, bits)
	return len(a.consts) - 1
}

// bitsOf is the bit pattern of an operand that is a constant.
func bitsOf(k any) (uint32, bool) {
	switch k := k.(type) {
	case konst:
		return math.Float32bits(float32(k)), true
	case kbits:
		return uint32(k), true
	}
	return 0, false
}

// mem is the constant as a memory operand: AVX-512 broadcasts four bytes, the
// others read a whole repeated vector.
func (a *asm) mem(bits uint32) string {
	i := a.pool(bits)
	switch a.isa {
	case avx512:
		return fmt.Sprintf("%d(R10)", i*4)
	case avx2:
		return fmt.Sprintf("%d(R10)", i*32)
	}
	return fmt.Sprintf("%d(R8)", i*16)
}

// set loads a constant into a register.
func (a *asm) set(d reg, k any) {
	bits, _ := bitsOf(k)
	switch {
	case bits == 0 && a.isa == avx512:
		a.p("VPXORD Z%d, Z%d, Z%d", d, d, d)
	case bits == 0 && a.isa == avx2:
		a.p("VXORPS Y%d, Y%d, Y%d", d, d, d)
	case bits == 0:
		a.word(0x6e201c00, d, d, d, "VEOR")
	case a.isa == avx512:
		a.p("VBROADCASTSS %s, Z%d", a.mem(bits), d)
	case a.isa == avx2:
		a.p("VMOVUPS %s, Y%d", a.mem(bits), d)
	default:
		a.p("FMOVQ %s, F%d", a.mem(bits), d)
	}
}

// kreg is a new register with a constant in every lane.
func (a *asm) kreg(k any) reg {
	r := a.reg()
	a.set(r, k)
	return r
}

// word writes an AArch64 vector instruction the Go assembler lacks.
func (a *asm) word(op uint32, d, n, m reg, name string) {
	w := op | uint32(d) | uint32(n)<<5
	if m >= 0 {
		w |= uint32(m) << 16
	}
	a.p("WORD $0x%08x // %s", w, name)
}

// x86op are the instructions by operation; Go's operands are in reverse order,
// source last to first, destination at the end.
var x86op = map[string]string{"add": "VADDPS", "sub": "VSUBPS", "mul": "VMULPS", "div": "VDIVPS",
	"max": "VMAXPS", "min": "VMINPS", "fma": "VFMADD231PS", "fnma": "VFNMADD231PS",
	"and": "VANDPS", "or": "VORPS", "xor": "VXORPS", "addi": "VPADDD", "subi": "VPSUBD"}

// neonop are the encodings of the form op Vd.4S, Vn.4S, Vm.4S (Arm Architecture
// Reference Manual, C7.2).
var neonop = map[string]uint32{"add": 0x4e20d400, "sub": 0x4ea0d400, "mul": 0x6e20dc00, "div": 0x6e20fc00,
	"max": 0x4e20f400, "min": 0x4ea0f400, "fma": 0x4e20cc00, "fnma": 0x4ea0cc00,
	"and": 0x4e201c00, "or": 0x4ea01c00, "xor": 0x6e201c00, "addi": 0x4ea08400, "subi": 0x6ea08400}

// op writes d = x OP b (fma: d += x*b, fnma: d -= x*b); b may be a constant.
// For max and min a NaN in b comes through on every isa: x86 returns its
// second source when either is NaN.
func (a *asm) op(name string, d, x reg, b any) {
	bits, isK := bitsOf(b)
	if !a.x86 {
		m := reg(30)
		if isK {
			a.set(m, b)
		} else {
			m = b.(reg)
		}
		a.word(neonop[name], d, x, m, fmt.Sprintf("%s V%d, V%d, V%d", name, d, x, m))
		return
	}
	src, suf := "", ""
	if isK {
		src = a.mem(bits)
		if a.isa == avx512 {
			suf = ".BCST"
		}
	} else {
		src = a.r(b.(reg))
	}
	a.p("%s%s %s, %s, %s", x86op[name], suf, src, a.r(x), a.r(d))
}

// horner leaves the polynomial with the given coefficients, highest first,
// evaluated at x, in p.
func (a *asm) horner(p, x reg, coef ...any) {
	a.set(p, coef[0])
	for _, c := range coef[1:] {
		bits, _ := bitsOf(c)
		switch a.isa {
		case avx512:
			a.p("VFMADD213PS.BCST %s, %s, %s", a.mem(bits), a.r(x), a.r(p))
		case avx2:
			a.p("VFMADD213PS %s, %s, %s", a.mem(bits), a.r(x), a.r(p))
		default:
			a.set(30, c)
			a.word(neonop["fma"], 30, p, x, "fma")
			a.word(0x4ea01c00, p, 30, 30, "mov")
		}
	}
}

// unary instructions: sqrt, round (nearest even), toInt, toFloat.
func (a *asm) un(name string, d, x reg) {
	switch {
	case !a.x86:
		a.word(map[string]uint32{"sqrt": 0x6ea1f800, "round": 0x4e218800, "toInt": 0x4e21a800, "toFloat": 0x4e21d800,
			"mov": 0x4ea01c00 | uint32(x)<<16}[name], d, x, -1, name)
	case name == "round" && a.isa == avx512:
		a.p("VRNDSCALEPS $8, %s, %s", a.r(x), a.r(d))
	case name == "round":
		a.p("VROUNDPS $8, %s, %s", a.r(x), a.r(d))
	default:
		a.p("%s %s, %s", map[string]string{"sqrt": "VSQRTPS", "toInt": "VCVTPS2DQ", "toFloat": "VCVTDQ2PS", "mov": "VMOVAPS"}[name], a.r(x), a.r(d))
	}
}

// shl and sar shift 32-bit lanes by a constant.
func (a *asm) shl(d, x reg, n int) {
	if a.x86 {
		a.p("VPSLLD $%d, %s, %s", n, a.r(x), a.r(d))
		return
	}
	a.word(0x4f005400|uint32(32+n)<<16, d, x, -1, "shl")
}

func (a *asm) sar(d, x reg, n int) {
	if a.x86 {
		a.p("VPSRAD $%d, %s, %s", n, a.r(x), a.r(d))
		return
	}
	a.word(0x4f000400|uint32(64-n)<<16, d, x, -1, "sshr")
}

// pow2 turns an integral float in [-126, 127] into a power of two by writing
// its exponent field.
func (a *asm) pow2(d, n reg) {
	a.un("toInt", d, n)
	a.op("addi", d, d, kbits(127))
	a.shl(d, d, 23)
}

// scale writes d = p * 2^n for integral n in [-160, 160], rounding once also
// when the result is subnormal: two factors, the first of which is exact.
func (a *asm) scale(d, p, n reg) {
	if a.isa == avx512 {
		a.p("VSCALEFPS %s, %s, %s", a.r(n), a.r(p), a.r(d))
		return
	}
	t, h := a.reg(), a.reg()
	a.un("toInt", t, n)
	a.sar(h, t, 1)
	a.op("subi", t, t, h)
	for _, x := range []reg{h, t} {
		a.op("addi", x, x, kbits(127))
		a.shl(x, x, 23)
	}
	a.op("mul", d, p, h)
	a.op("mul", d, d, t)
	a.free(t, h)
}

// selectLess writes d = x < y ? p : d (y constant); a NaN in x keeps d.
func (a *asm) selectLess(d, x reg, y konst, p reg) {
	bits, _ := bitsOf(y)
	switch a.isa {
	case avx512:
		a.p("VCMPPS.BCST $1, %s, Z%d, K2", a.mem(bits), x)
		a.p("VMOVAPS Z%d, K2, Z%d", p, d)
	case avx2:
		a.p("VCMPPS $1, %s, Y%d, Y14", a.mem(bits), x)
		a.p("VBLENDVPS Y14, Y%d, Y%d, Y%d", p, d, d)
	default:
		a.set(30, y)
		a.word(0x6ea0e400, 29, 30, x, "fcmgt") // y > x
		a.word(0x6ea01c00, d, p, 29, "bit")    // insert p where the mask is set
	}
}

// acc accumulates into s with only the valid lanes of a tail taking part.
// name is add (s += x), fma (s += x*y) or max.
func (a *asm) acc(name string, s, x, y reg) {
	if !a.tail {
		if name == "fma" {
			a.op(name, s, x, y)
		} else {
			a.op(name, s, s, x)
		}
		return
	}
	switch a.isa {
	case avx512:
		if name == "fma" {
			a.p("VFMADD231PS Z%d, Z%d, K1, Z%d", y, x, s)
		} else {
			a.p("%s Z%d, Z%d, K1, Z%d", x86op[name], x, s, s)
		}
	case avx2:
		switch name {
		case "fma":
			a.p("VANDPS Y15, Y%d, Y14", x)
			a.p("VFMADD231PS Y14, Y%d, Y%d", y, s)
		case "add":
			a.p("VANDPS Y15, Y%d, Y14", x)
			a.p("VADDPS Y14, Y%d, Y%d", s, s)
		default:
			a.p("VMAXPS Y%d, Y%d, Y14", x, s)
			a.p("VBLENDVPS Y15, Y14, Y%d, Y%d", s, s)
		}
	default:
		switch name {
		case "fma":
			a.word(0x4e201c00, 29, x, 31, "and")
			a.word(neonop["fma"], s, 29, y, "fma")
		case "add":
			a.word(0x4e201c00, 29, x, 31, "and")
			a.word(neonop["add"], s, s, 29, "add")
		default:
			a.word(neonop["max"], 29, s, x, "max")
			a.word(0x6ea01c00, s, 29, 31, "bit")
		}
	}
}

// reduce leaves the sum (or maximum) of all lanes of x in every lane of x.
func (a *asm) reduce(name string, x reg) {
	if !a.x86 {
		if name == "max" {
			a.word(0x6e30f800, x, x, -1, "fmaxv")
		} else {
			a.word(0x6e20d400, x, x, x, "faddp")
			a.word(0x6e20d400, x, x, x, "faddp")
		}
		a.word(0x4e040400, x, x, -1, "dup")
		return
	}
	o, t := x86op[name], a.reg()
	if a.isa == avx512 {
		a.p("VEXTRACTF64X4 $1, Z%d, Y%d", x, t)
		a.p("%s Y%d, Y%d, Y%d", o, t, x, x)
		a.p("VEXTRACTF32X4 $1, Y%d, X%d", x, t)
	} else {
		a.p("VEXTRACTF128 $1, Y%d, X%d", x, t)
	}
	a.p("%s X%d, X%d, X%d", o, t, x, x)
	for _, m := range []string{"4e", "b1"} {
		a.p("VPERMILPS $0x%s, X%d, X%d", m, x, t)
		a.p("%s X%d, X%d, X%d", o, t, x, x)
	}
	a.p("VBROADCASTSS X%d, %s", x, a.r(x))
	a.free(t)
}
