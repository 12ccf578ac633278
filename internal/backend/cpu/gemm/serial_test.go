// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// roundedRows is a copy of a in bfloat16, rows and all else that MatMul would round.
func roundedRows(a []float32) []uint16 {
	long := make([]float32, (len(a)+15)&^15)
	copy(long, a)
	r := make([]uint16, len(long))
	RoundBF16(r, long)
	return r[:len(a)]
}

// TestSerial compares parts of the columns with MatMul, bit for bit.
func TestSerial(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rng(21)
		pool := par.New(1)
		defer pool.Close()
		for range rounds(40) {
			for _, d := range types() {
				rows, n, k, batch := 1+r.IntN(45), 1+r.IntN(140), 2*(1+r.IntN(40)), 1+r.IntN(3)
				lda, strideA := k+r.IntN(20), 0
				strideA = rows*lda + r.IntN(9)
				if r.IntN(2) > 0 { // matrices side by side in a row
					lda, strideA = batch*(k+4)+4, k+4
				}
				a := guard((batch-1)*strideA + (rows-1)*lda + k)
				for i := range batch {
					guarded{x: a.x[i*strideA:]}.fill(r, rows, k, lda)
				}
				w := normal(r, batch*n*k)
				p := mustPack(t, d, n, k, batch, Source{Data: Bytes(w), Type: tensor.F32, StrideN: k, StrideC: 1, StrideB: n * k})
				want := make([]float32, batch*rows*n)
				mm := MatMul{M: rows, A: a.x, LDA: lda, W: p, C: want, LDC: n, Batch: batch, StrideA: strideA, StrideC: rows * n}
				mm.Scratch = Alloc(mm.ScratchBytes(1))
				mm.Run(pool)

				n0 := r.IntN((n+31)/32) * 32
				n1 := min(n, n0+32*(1+r.IntN(4)))
				ldc := n1 - n0 + r.IntN(3)
				c := guard((batch*rows-1)*ldc + n1 - n0)
				s := Serial{Rows: rows, N0: n0, N1: n1, W: p, A: a.x, LDA: lda, StrideA: strideA, C: c.x, LDC: ldc, StrideC: rows * ldc}
				if d == tensor.BF16 && !SerialBF16(k) {
					if err := s.Check(); !errors.Is(err, ErrUnsupported) {
						t.Fatalf("error %v, want ErrUnsupported", err)
					}
					continue
				}
				if d == tensor.BF16 {
					s.A, s.A16 = nil, roundedRows(a.x)
				}
				s.Run()
				name := fmt.Sprintf("%v rows %d, columns %d to %d of %d, K %d, batch %d", d, rows, n0, n1, n, k, batch)
				c.check(t, name, batch*rows, n1-n0, ldc)
				for i := range batch * rows {
					sameBits(t, name, c.x[i*ldc:][:n1-n0], want[i*n+n0:][:n1-n0])
				}
			}
		}
	})
}

func TestSerialErrors(t *testing.T) {
	w := mustPack(t, tensor.F32, 70, 8, 2, Source{Data: Bytes(make([]float32, 2*70*8)), Type: tensor.F32, StrideN: 8, StrideC: 1, StrideB: 560})
	good := Serial{Rows: 3, N0: 32, N1: 70, W: w, A: make([]float32, 48), LDA: 8, StrideA: 24, C: make([]float32, 3*38*2), LDC: 38, StrideC: 3 * 38}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Serial){
		"no weights":         func(s *Serial) { s.W = nil },
		"no rows":            func(s *Serial) { s.Rows = 0 },
		"first column":       func(s *Serial) { s.N0 = 16 },
		"no column":          func(s *Serial) { s.N0 = 64; s.N1 = 64 },
		"last column":        func(s *Serial) { s.N1 = 71 },
		"column in a panel":  func(s *Serial) { s.N1 = 40 },
		"A":                  func(s *Serial) { s.A = s.A[:47] },
		"stride of A":        func(s *Serial) { s.StrideA = -1 },
		"rows of A":          func(s *Serial) { s.LDA = 7 },
		"C":                  func(s *Serial) { s.C = s.C[:len(s.C)-1] },
		"stride of C":        func(s *Serial) { s.StrideC++ },
		"rows of C":          func(s *Serial) { s.LDC = 37 },
		"stride beyond ints": func(s *Serial) { s.StrideA = 1 << 62 },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); !errors.Is(err, ErrShape) && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: error %v, want one of shape or support", what, err)
		}
	}
	if SerialBF16(4) {
		odd := mustPack(t, tensor.BF16, 4, 3, 1, Rows(Bytes(make([]float32, 12)), tensor.F32, 3))
		if err := (&Serial{Rows: 1, N1: 4, W: odd, A16: make([]uint16, 4), LDA: 4, C: make([]float32, 4), LDC: 4}).Check(); !errors.Is(err, ErrUnsupported) {
			t.Errorf("odd K in bfloat16: error %v", err)
		}
	}
}

func TestSerialDoesNotAllocate(t *testing.T) {
	w := mustPack(t, tensor.F32, 32, 8, 1, Rows(Bytes(make([]float32, 256)), tensor.F32, 8))
	s := Serial{Rows: 3, N1: 32, W: w, A: make([]float32, 24), LDA: 8, C: make([]float32, 96), LDC: 32}
	if n := testing.AllocsPerRun(10, s.Run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
