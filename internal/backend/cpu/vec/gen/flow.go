// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// typeSize is the size of an argument, which is its alignment too.
func typeSize(t string) int {
	if t == "float32" {
		return 4
	}
	return 8
}

// begin writes the TEXT line and works out the argument offsets of the
// stack-based calling convention assembly functions have.
func (a *asm) begin(fn string, args []arg, ret string) {
	a.fn = fn
	a.args = map[string]int{}
	off := 0
	var sig []string
	for _, g := range args {
		s := typeSize(g.typ)
		off = (off + s - 1) / s * s
		a.args[g.name] = off
		off += s
		sig = append(sig, g.name+" "+g.typ)
	}
	if ret != "" {
		off = (off + 7) / 8 * 8
		a.args["ret"] = off
		off += 4
	}
	if a.sb.Len() > 0 {
		a.sb.WriteByte('\n')
	}
	fmt.Fprintf(&a.sb, "// func %s%s(%s) %s\n", fn, a.name, strings.Join(sig, ", "), ret)
	fmt.Fprintf(&a.sb, "TEXT ·%s%s(SB), NOSPLIT, $0-%d\n", fn, a.name, off)
	if a.x86 {
		a.p("LEAQ ·consts%s<>(SB), R10", a.name)
	} else {
		a.p("MOVD $·consts%s<>(SB), R8", a.name)
	}
}

// ptr loads pointer argument i (by position) into its fixed register.
func (a *asm) ptr(i int, name string) string {
	if a.x86 {
		a.p("MOVQ %s+%d(FP), %s", name, a.args[name], x86Ptrs[i])
		return x86Ptrs[i]
	}
	a.p("MOVD %s+%d(FP), %s", name, a.args[name], neonPtrs[i])
	return neonPtrs[i]
}

// scalar broadcasts a float32 argument.
func (a *asm) scalar(name string) reg {
	d := a.reg()
	if a.x86 {
		a.p("VBROADCASTSS %s+%d(FP), %s", name, a.args[name], a.r(d))
	} else {
		a.p("FMOVS %s+%d(FP), F%d", name, a.args[name], d)
		a.word(0x4e040400, d, d, -1, "dup")
	}
	return d
}

// ret stores the result: any lane, since reductions end with all of them equal.
func (a *asm) ret(x reg) {
	if a.x86 {
		a.p("VMOVSS X%d, ret+%d(FP)", x, a.args["ret"])
	} else {
		a.p("FMOVS F%d, ret+%d(FP)", x, a.args["ret"])
	}
}

// end returns. Upper halves of vector registers are zeroed first, because SSE
// code of the Go runtime would run slowly beside them. Registers left taken are a
// mistake of the kernel and stop the generator.
func (a *asm) end() {
	if a.x86 {
		a.p("VZEROUPPER")
	}
	a.p("RET")
	for i, u := range a.used {
		if u {
			panic(fmt.Sprintf("gen: register %d leaks in %s", i, a.fn))
		}
	}
}

// load reads lanes of a float32 row; the lanes after the end read as zero
// without their memory being touched.
func (a *asm) load(d reg, ptr string) {
	at := fmt.Sprintf("%d(%s)", a.off*4, ptr)
	switch {
	case !a.tail && a.x86:
		a.p("VMOVUPS %s, %s", at, a.r(d))
	case !a.tail:
		a.p("FMOVQ %s, F%d", at, d)
	case a.isa == avx512:
		a.p("VMOVUPS.Z %s, K1, Z%d", at, d)
	case a.isa == avx2:
		a.p("VMASKMOVPS %s, Y15, Y%d", at, d)
	default:
		a.set(d, konst(0))
		a.lanes4("VLD1.P 4(R9), V%d.S[%d]", ptr, d)
	}
}

// store writes lanes; those after the end of the row stay as they are.
func (a *asm) store(x reg, ptr string) {
	at := fmt.Sprintf("%d(%s)", a.off*4, ptr)
	switch {
	case !a.tail && a.x86:
		a.p("VMOVUPS %s, %s", a.r(x), at)
	case !a.tail:
		a.p("FMOVQ F%d, %s", x, at)
	case a.isa == avx512:
		a.p("VMOVUPS Z%d, K1, %s", x, at)
	case a.isa == avx2:
		a.p("VMASKMOVPS Y%d, Y15, %s", x, at)
	default:
		a.lanes4("VST1.P V%d.S[%d], 4(R9)", ptr, x)
	}
}

// lanes4 moves the one to three lanes of a NEON tail, whose length is in R7.
func (a *asm) lanes4(f, ptr string, x reg) {
	done := a.newLabel("lanes")
	a.p("MOVD %s, R9", ptr)
	a.p(f, x, 0)
	for l := 1; l < 3; l++ {
		a.p("CMP $%d, R7", l+1)
		a.p("BLT %s", done)
		a.p(f, x, l)
	}
	a.label(done)
}

// loop writes body for a row of n elements: unrolled copies (u counts them),
// then single vectors, then the tail under a mask. ptrs advance. Single vectors
// and the tail use the state of copy 0.
func (a *asm) loop(unroll int, ptrs []string, body func(u int)) {
	done := a.newLabel("done")
	cnt := a.vectors(unroll, ptrs, nil, body)
	a.less(cnt, 1, done)
	a.mask()
	a.tail = true
	body(0)
	a.tail = false
	a.label(done)
}

// vectors is loop without the tail: it stops before the last n mod lanes
// elements. sizes are the bytes of an element behind each pointer (nil: 4).
func (a *asm) vectors(unroll int, ptrs []string, sizes []int, body func(u int)) string {
	cnt, L := "CX", a.lanes
	if a.x86 {
		a.p("MOVQ n+%d(FP), CX", a.args["n"])
	} else {
		cnt = "R7"
		a.p("MOVD n+%d(FP), R7", a.args["n"])
	}
	steps := []int{unroll, 1}
	if unroll == 1 {
		steps = steps[1:]
	}
	for _, u := range steps {
		top, next := a.newLabel("loop"), a.newLabel("next")
		a.less(cnt, u*L, next)
		a.label(top)
		for i := range u {
			a.off = i * L
			body(i)
		}
		a.off = 0
		for i, p := range ptrs {
			size := 4
			if sizes != nil {
				size = sizes[i]
			}
			a.p(map[bool]string{true: "ADDQ $%d, %s", false: "ADD $%d, %s"}[a.x86], u*L*size, p)
		}
		a.p(map[bool]string{true: "SUBQ $%d, %s", false: "SUB $%d, %s"}[a.x86], u*L, cnt)
		if a.x86 {
			a.p("CMPQ %s, $%d", cnt, u*L)
			a.p("JGE %s", top)
		} else {
			a.p("CMP $%d, %s", u*L, cnt)
			a.p("BGE %s", top)
		}
		a.label(next)
	}
	return cnt
}

// less jumps when the count is below n.
func (a *asm) less(cnt string, n int, to string) {
	if a.x86 {
		a.p("CMPQ %s, $%d", cnt, n)
		a.p("JLT %s", to)
		return
	}
	a.p("CMP $%d, %s", n, cnt)
	a.p("BLT %s", to)
}

// mask makes the tail mask of the remaining count: a K register, or a window
// of a table of all-ones followed by zeros.
func (a *asm) mask() {
	switch a.isa {
	case avx512:
		a.p("MOVL $1, AX")
		a.p("SHLL CX, AX")
		a.p("DECL AX")
		a.p("KMOVW AX, K1")
	case avx2:
		a.p("LEAQ ·tailAVX2<>+32(SB), AX")
		a.p("SHLQ $2, CX")
		a.p("SUBQ CX, AX")
		a.p("VMOVUPS (AX), Y15")
	default:
		a.p("MOVD $·tailNEON<>+16(SB), R9")
		a.p("SUB R7<<2, R9")
		a.p("FMOVQ (R9), F31")
	}
}

// data writes the constant table and the tail table of the isa.
func (a *asm) data() string {
	var sb strings.Builder
	rep := map[*isa]int{avx512: 1, avx2: 8, neon: 4}[a.isa]
	for i, c := range a.consts {
		for j := range rep {
			fmt.Fprintf(&sb, "DATA ·consts%s<>+%d(SB)/4, $0x%08x\n", a.name, (i*rep+j)*4, c)
		}
	}
	fmt.Fprintf(&sb, "GLOBL ·consts%s<>(SB), RODATA|NOPTR, $%d\n\n", a.name, len(a.consts)*rep*4)
	if a.isa == avx512 {
		return sb.String()
	}
	for i := range 2 * a.lanes {
		v := uint32(0)
		if i < a.lanes {
			v = 0xffffffff
		}
		fmt.Fprintf(&sb, "DATA ·tail%s<>+%d(SB)/4, $0x%08x\n", a.name, i*4, v)
	}
	fmt.Fprintf(&sb, "GLOBL ·tail%s<>(SB), RODATA|NOPTR, $%d\n\n", a.name, 2*a.lanes*4)
	return sb.String()
}
