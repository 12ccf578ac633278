// SPDX-License-Identifier: Apache-2.0

package gemm

import "unsafe"

var impls = [numISA]*impl{
	Portable: &portableImpl,
	NEON:     {isa: NEON, nr: 16, sizes: []int{6, 4, 2, 1}, kern: [3]kernelID{kF32: neonF32, kF16: neonF16}},
}

func epilogue(im *impl, e *eargs) {
	if im.isa == NEON {
		neonEpilogue(e)
	} else {
		portableEpilogue(e)
	}
}

func softmax(im *impl, s *sargs) { eachRow(im, s) }

func softmaxRow(im *impl, s *sargs) {
	if im.isa == NEON {
		neonSoftmax(s)
	} else {
		portableSoftmax(s)
	}
}

// There is no kernel for groups of scores.
const scoreRows = 1

func scores(*impl, int, *qargs) bool { return false }

func toBF16(_ *impl, dst unsafe.Pointer, src []float32) { portableBF16(dst, src) }

// Never called: no instruction set here has bfloat16 products.
func pairBF16(*pargs)          { panic("gemm: no bfloat16 products") }
func spreadBF16(*spargs)       { panic("gemm: no bfloat16 products") }
func tileProduct(*tkargs, int) { panic("gemm: no tiles") }
