// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"unsafe"
)

//go:generate go run ./gen -out .

var (
	avx512Sizes = []int{14, 12, 8, 6, 4, 2, 1}
	avx2Sizes   = []int{6, 4, 2, 1}
)

var avx2Impl = impl{isa: AVX2, nr: 16, sizes: avx2Sizes, kern: [3]kernelID{kF32: avx2F32, kF16: avx2F16}}

var impls = [numISA]*impl{
	Portable:   &portableImpl,
	AVX2:       &avx2Impl,
	AVX512:     {isa: AVX512, nr: 32, sizes: avx512Sizes, kern: [3]kernelID{kF32: avx512F32, kF16: avx512F16}, half: &avx2Impl},
	AVX512BF16: {isa: AVX512BF16, nr: 32, sizes: avx512Sizes, kern: [3]kernelID{kF32: avx512F32, kF16: avx512F16, kBF16: avx512BF16}, half: &avx2Impl},
}

func epilogue(im *impl, e *eargs) {
	switch im.isa {
	case AVX512, AVX512BF16:
		avx512Epilogue(e)
	case AVX2:
		avx2Epilogue(e)
	default:
		portableEpilogue(e)
	}
}

// softmax does the rows of s; short is only for AVX512BF16.
func softmax(im *impl, s *sargs) {
	switch {
	case s.short:
		avx512SoftmaxBF16(s)
	case im.isa == AVX512 || im.isa == AVX512BF16:
		avx512Softmax(s)
	default:
		eachRow(im, s)
	}
}

func softmaxRow(im *impl, s *sargs) {
	if im.isa == AVX2 {
		avx2Softmax(s)
	} else {
		portableSoftmax(s)
	}
}

// scoreRows is the number of rows of a group of scores.
const scoreRows = 14

// scores runs the kernel for groups of scoreRows rows, if there is one.
func scores(im *impl, kind int, k *qargs) bool {
	switch {
	case im.isa != AVX512 && im.isa != AVX512BF16:
		return false
	case kind == kBF16:
		avx512ScoresBF16(k)
	default:
		avx512ScoresF32(k)
	}
	return true
}

// toBF16 rounds a multiple of 16 values. The vector form also flushes subnormals
// to zero, as the products do.
func toBF16(im *impl, dst unsafe.Pointer, src []float32) {
	if im.isa != AVX512BF16 || len(src) == 0 {
		portableBF16(dst, src)
		return
	}
	avx512ToBF16(&vargs{dst: dst, src: unsafe.Pointer(&src[0]), n: len(src)})
}

// pairBF16 interleaves pairs of rows of 32 values, rounded. Only AVX512BF16 has
// bfloat16 products.
func pairBF16(p *pargs) { avx512PairBF16(p) }
