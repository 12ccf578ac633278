// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package gemm

import (
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Code bound by memory has one form per architecture, named vec: NEON, or the
// 256-bit vectors of AVX2, which every implementation but the portable one has.

// widenFast converts a multiple of 16 elements and returns how many.
func widenFast(im *impl, out []float32, s *Source, i int) int {
	n := len(out) &^ 15
	if im.isa == Portable || n == 0 || s.Type == tensor.F64 {
		return 0
	}
	size := s.Type.Size()
	src := s.Data[i*size:][:n*size]
	v := vargs{dst: unsafe.Pointer(&out[0]), src: unsafe.Pointer(&src[0]), n: n}
	switch s.Type {
	case tensor.F32:
		copy(unsafe.Slice((*byte)(v.dst), n*4), src)
	case tensor.F16:
		vecFromF16(&v)
	case tensor.BF16:
		vecFromBF16(&v)
	}
	return n
}

// transposeFast transposes a multiple of 8 steps and returns how many. src may have
// any alignment.
func transposeFast(im *impl, kind int, dst []byte, src unsafe.Pointer, ld, n int) int {
	n &^= 7
	if im.isa == Portable || n == 0 {
		return 0
	}
	t := targs{dst: unsafe.Pointer(&dst[0]), src: src, ld: uintptr(ld * 4), n: n}
	if kind == kF16 {
		vecTransposeF16(&t)
	} else {
		vecTransposeF32(&t)
	}
	return n
}

// rotateFast rotates rows if the vectors fit.
func rotateFast(im *impl, r *rargs) bool {
	if im.isa == Portable || r.q%8 != 0 {
		return false
	}
	vecRope(r)
	return true
}

// unpairBF16 widens pairs of rows of 32 values, the first row in the lower halves, to
// rows of float32. An odd number of rows is rounded up.
func unpairBF16(im *impl, dst []float32, src unsafe.Pointer) {
	v := vargs{dst: unsafe.Pointer(&dst[0]), src: src, n: len(dst) / (2 * panelN)}
	if im.isa == Portable {
		portableUnpair(&v)
		return
	}
	vecUnpairBF16(&v)
}

func copyRows(im *impl, p *pargs) {
	if im.isa == Portable {
		portableCopyRows(p)
		return
	}
	vecCopyRows(p)
}

func addRows(im *impl, p *wargs) {
	if im.isa == Portable {
		portableAddRows(p)
		return
	}
	vecAddRows(p)
}

func reluRow(im *impl, dst, src []float32) {
	n := len(src) &^ 15
	if im.isa == Portable || n == 0 {
		portableReLU(dst, src)
		return
	}
	vecReLU(&vargs{dst: unsafe.Pointer(&dst[0]), src: unsafe.Pointer(&src[0]), n: n})
	portableReLU(dst[n:], src[n:])
}

func scaleRow(im *impl, dst, src []float32, scale float32) {
	n := len(src) &^ 15
	if im.isa == Portable || n == 0 {
		portableScale(dst, src, scale)
		return
	}
	vecScale(&vargs{dst: unsafe.Pointer(&dst[0]), src: unsafe.Pointer(&src[0]), n: n, scale: scale})
	portableScale(dst[n:], src[n:], scale)
}
