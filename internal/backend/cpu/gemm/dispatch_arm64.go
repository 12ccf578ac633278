// SPDX-License-Identifier: Apache-2.0

package gemm

import "unsafe"

var neonSizes = []int{6, 4, 2, 1}

var impls = [numISA]*impl{
	Portable: &portableImpl,
	NEON:     {isa: NEON, nr: 16, sizes: neonSizes, kern: [3]kernelID{kF32: neonF32, kF16: neonF16}},
	NEONMMLA: {isa: NEONMMLA, nr: 16, sizes: neonSizes, kern: [3]kernelID{kF32: neonF32, kF16: neonF16, kBF16: mmlaBF16}},
}

func epilogue(im *impl, e *eargs) {
	if im.isa != Portable {
		neonEpilogue(e)
	} else {
		portableEpilogue(e)
	}
}

func softmax(im *impl, s *sargs) { eachRow(im, s) }

func softmaxRow(im *impl, s *sargs) {
	if im.isa == Portable {
		portableSoftmax(s)
		return
	}
	neonSoftmax(s)
	if s.short { // in place: what is written ends before what is still to be read
		neonToBF16(&vargs{dst: s.x, src: s.x, n: s.n})
	}
}

// There is no kernel for groups of scores.
const scoreRows = 1

func scores(*impl, int, *qargs) bool { return false }

// toBF16 rounds a multiple of 16 values.
func toBF16(im *impl, dst unsafe.Pointer, src []float32) {
	if im.isa != NEONMMLA || len(src) == 0 {
		portableBF16(dst, src)
		return
	}
	neonToBF16(&vargs{dst: dst, src: unsafe.Pointer(&src[0]), n: len(src)})
}

// pairBF16 interleaves pairs of rows of 32 values, rounded, for bfloat16 products.
func pairBF16(p *pargs) { neonPairBF16(p) }

// Never called: no instruction set here has tiles.
func spreadBF16(*spargs)       { panic("gemm: no tiles") }
func tileProduct(*tkargs, int) { panic("gemm: no tiles") }
