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
	// Makers of tiles run VDPBF16PS at less than the speed of float32, see
	// isa.VectorBF16Pays: what does not fit tiles is widened.
	AVX512AMX: {isa: AVX512AMX, nr: 32, sizes: avx512Sizes, kern: [3]kernelID{kF32: avx512F32, kF16: avx512F16}, half: &avx2Impl, tiles: true},
}

func (im *impl) avx512() bool { return im.isa >= AVX512 }

// roundsAVX512 says that an implementation has the instructions that round to bfloat16.
func (im *impl) roundsAVX512() bool { return im.isa >= AVX512BF16 }

func epilogue(im *impl, e *eargs) {
	switch {
	case im.avx512():
		avx512Epilogue(e)
	case im.isa == AVX2:
		avx2Epilogue(e)
	default:
		portableEpilogue(e)
	}
}

// softmax does the rows of s; short is only for bfloat16 products.
func softmax(im *impl, s *sargs) {
	switch {
	case s.short:
		avx512SoftmaxBF16(s)
	case im.avx512():
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
	case !im.avx512():
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
	if !im.roundsAVX512() || len(src) == 0 {
		portableBF16(dst, src)
		return
	}
	avx512ToBF16(&vargs{dst: dst, src: unsafe.Pointer(&src[0]), n: len(src)})
}

// pairBF16 interleaves pairs of rows of 32 values, rounded, for bfloat16 products.
func pairBF16(p *pargs) { avx512PairBF16(p) }

// spreadBF16 rounds rows for tiles.
func spreadBF16(s *spargs) { avx512SpreadBF16(s) }

// tileProduct runs a tile kernel of 16 or 32 rows.
func tileProduct(k *tkargs, rows int) {
	switch {
	case tilesInGo:
		portableTiles(k, rows)
	case rows == tileRows && k.kstep == tileStep:
		amxBF16x32Packed(k)
	case rows == tileRows:
		amxBF16x32(k)
	default:
		amxBF16x16(k)
	}
}
