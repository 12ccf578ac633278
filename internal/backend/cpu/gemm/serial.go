// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"
	"unsafe"
)

// Serial is a batch of products that the calling goroutine computes alone, for
// callers that hand out the work themselves: columns N0 <= n < N1 of
//
//	C[b] = A[b] · W[b]ᵀ
//
// for every matrix b of W. Column N0 is the first of C. N0 is a multiple of 32, and
// so is N1 unless it is W.N. Weights in BF16 multiply A16, bfloat16 from RoundBF16
// with an even K, where SerialBF16 says so, others A; the strides of either are in
// its elements.
type Serial struct {
	Rows, N0, N1 int
	W            *Packed
	A            []float32
	A16          []uint16
	LDA, StrideA int
	C            []float32
	LDC, StrideC int
}

// noEpilogue is shared by products without one.
var noEpilogue Epilogue

// Check reports whether the fields fit together.
func (s *Serial) Check() error {
	w := s.W
	if w == nil || w.kind == kBF16 && (active.Load().kern[kBF16] == 0 || w.K%2 != 0) {
		return fmt.Errorf("gemm: serial product with these weights: %w", ErrUnsupported)
	}
	if s.N0 < 0 || s.N0 >= s.N1 || s.N1 > w.N || s.N0%panelN != 0 || s.N1%panelN != 0 && s.N1 != w.N {
		return fmt.Errorf("gemm: columns %d to %d of %d: %w", s.N0, s.N1, w.N, ErrShape)
	}
	a := len(s.A)
	if w.kind == kBF16 {
		a = len(s.A16)
	}
	if err := checkBatch("A", a, w.Batch, s.StrideA, s.Rows, w.K, s.LDA); err != nil {
		return err
	}
	return checkBatch("C", len(s.C), w.Batch, s.StrideC, s.Rows, s.N1-s.N0, s.LDC)
}

// Run computes C. It panics if Check would report an error.
func (s *Serial) Run() {
	if err := s.Check(); err != nil {
		panic(err)
	}
	part := *s.W
	part.N = s.N1 - s.N0
	im, size := active.Load(), 4
	a := unsafe.Pointer(unsafe.SliceData(s.A))
	if part.kind == kBF16 {
		a, size = unsafe.Pointer(unsafe.SliceData(s.A16)), 2
	}
	for i := range part.Batch {
		b := block{
			im: im, w: &part, wdata: unsafe.Pointer(&part.data[i*part.stride+s.N0/panelN*part.panel]),
			p1: part.panels(), lines: 1, rows: s.Rows,
			a: unsafe.Add(a, i*s.StrideA*size), lda: s.LDA * size,
			c: unsafe.Pointer(&s.C[i*s.StrideC]), ldc: s.LDC * 4,
			off: noOff[:], steps: part.steps(), ep: &noEpilogue,
		}
		b.run()
	}
}

// checkBatch verifies that n values hold rows of cols values, ld apart, of batch
// matrices, stride apart.
func checkBatch(what string, n, batch, stride, rows, cols, ld int) error {
	last, ok1 := product(batch-1, stride)
	end, ok2 := product(rows-1, ld)
	if rows < 1 || ld < cols || !ok1 || !ok2 || last > n || n-last-cols < end {
		return fmt.Errorf("gemm: %s: %d values for %d matrices, %d apart, of %d rows of %d, stride %d: %w",
			what, n, batch, stride, rows, cols, ld, ErrShape)
	}
	return nil
}

// SerialBF16 reports whether a Serial takes weights in BF16 with K values a row.
func SerialBF16(k int) bool { return active.Load().kern[kBF16] != 0 && k%2 == 0 }

// RoundBF16 rounds a multiple of 16 values to bfloat16 as products with such
// weights do.
func RoundBF16(dst []uint16, src []float32) {
	if len(src) > 0 {
		toBF16(active.Load(), unsafe.Pointer(&dst[:len(src)][0]), src[:len(src)&^15])
	}
}
