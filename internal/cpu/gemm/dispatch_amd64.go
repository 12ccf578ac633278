// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

//go:generate go run ./gen -out .

var (
	avx512Sizes = []int{14, 12, 8, 6, 4, 2, 1}
	avx2Sizes   = []int{6, 4, 2, 1}
)

var impls = [numISA]*impl{
	Portable:   &portableImpl,
	AVX2:       {isa: AVX2, nr: 16, sizes: avx2Sizes, kern: [3]kernelID{kF32: avx2F32, kF16: avx2F16}},
	AVX512:     {isa: AVX512, nr: 32, sizes: avx512Sizes, kern: [3]kernelID{kF32: avx512F32, kF16: avx512F16}},
	AVX512BF16: {isa: AVX512BF16, nr: 32, sizes: avx512Sizes, kern: [3]kernelID{kF32: avx512F32, kF16: avx512F16, kBF16: avx512BF16}},
}

// usable asks the processor and, for the size of the registers that a context
// switch saves, the operating system: x/sys/cpu checks XCR0 before it reports AVX
// or AVX-512. F16C has no flag of its own there; every processor with AVX2 and
// FMA has it (the first AVX2 processors, Haswell and Excavator, came after it).
func usable(i ISA) bool {
	x := &cpu.X86
	avx2 := x.HasAVX && x.HasAVX2 && x.HasFMA
	avx512 := avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL
	switch i {
	case Portable:
		return true
	case AVX2:
		return avx2
	case AVX512:
		return avx512
	case AVX512BF16:
		return avx512 && x.HasAVX512BF16
	}
	return false
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

func softmax(im *impl, s *sargs) {
	switch im.isa {
	case AVX512, AVX512BF16:
		avx512Softmax(s)
	case AVX2:
		avx2Softmax(s)
	default:
		portableSoftmax(s)
	}
}

// Memory-bound code has one form, for 256-bit vectors.

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
		avx2FromF16(&v)
	case tensor.BF16:
		avx2FromBF16(&v)
	}
	return n
}

// transposeFast transposes a multiple of 8 steps and returns how many.
func transposeFast(im *impl, kind int, dst []byte, src []float32, ld, n int) int {
	n &^= 7
	if im.isa == Portable || n == 0 {
		return 0
	}
	t := targs{dst: unsafe.Pointer(&dst[0]), src: unsafe.Pointer(&src[0]), ld: uintptr(ld * 4), n: n}
	if kind == kF16 {
		avx2TransposeF16(&t)
	} else {
		avx2TransposeF32(&t)
	}
	return n
}

// rotateFast rotates a row if the vectors fit.
func rotateFast(im *impl, dst, src, cos, sin []float32, scale float32) bool {
	q := len(src) / 4
	if im.isa == Portable || q%8 != 0 {
		return false
	}
	avx2Rope(&rargs{dst: unsafe.Pointer(&dst[0]), src: unsafe.Pointer(&src[0]),
		cos: unsafe.Pointer(&cos[0]), sin: unsafe.Pointer(&sin[0]), q: q, scale: scale})
	return true
}

func reluRow(im *impl, dst, src []float32) {
	n := len(src) &^ 15
	if im.isa == Portable || n == 0 {
		portableReLU(dst, src)
		return
	}
	avx2ReLU(&vargs{dst: unsafe.Pointer(&dst[0]), src: unsafe.Pointer(&src[0]), n: n})
	portableReLU(dst[n:], src[n:])
}

func scaleRow(im *impl, dst, src []float32, scale float32) {
	n := len(src) &^ 15
	if im.isa == Portable || n == 0 {
		portableScale(dst, src, scale)
		return
	}
	avx2Scale(&vargs{dst: unsafe.Pointer(&dst[0]), src: unsafe.Pointer(&src[0]), n: n, scale: scale})
	portableScale(dst[n:], src[n:], scale)
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
