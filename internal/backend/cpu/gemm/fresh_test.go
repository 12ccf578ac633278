// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// A product that packs as it goes has the bits of one whose operand was packed
// before, in both orientations, however its tasks come about: few rows and many,
// long K, rows that crowd into one cache set, batches, one thread and three.
func TestFreshSameBits(t *testing.T) {
	ps := pools(t)
	eachISA(t, func(t *testing.T) {
		r := rng(21)
		for round := range rounds(40) {
			m, n, k, batch := 1+r.IntN(60), 1+r.IntN(200), 1+r.IntN(90), 1+r.IntN(3)
			lda := k + r.IntN(4)
			switch round {
			case 0:
				m, n, k, lda, batch = 30, 160, 1024, 1024, 1
			case 1:
				m, n, k, lda, batch = ownRows+9, 40, 33, 1023, 1
			case 2:
				m, n, k, lda, batch = 20, 129, 2100, 3072, 1
			case 3:
				m, n, k, lda, batch = 1, 520, 700, 700, 1
			case 4:
				m, n, k, lda, batch = 600, 260, 130, 1025, 2
			}
			w, a := normal(r, batch*n*k), normal(r, batch*m*lda)
			rows, cols := Rows(Bytes(w), tensor.F32, k), Columns(Bytes(w), tensor.F32, n)
			rows.StrideB, cols.StrideB = n*k, n*k
			for _, s := range []Source{rows, cols} {
				ep, _ := randomEpilogue(r, batch*m, n)
				base := MatMul{M: m, A: a, LDA: lda, LDC: n + 3, Batch: batch, StrideA: m * lda, StrideC: m * (n + 3), StrideR: m * ep.LDR, Epilogue: ep}
				packed := base
				packed.W, packed.C = mustPack(t, tensor.F32, n, k, batch, s), make([]float32, batch*m*(n+3))
				packed.Scratch = Alloc(packed.ScratchBytes(ps[0].Threads()))
				packed.Run(ps[0])
				for _, pool := range ps {
					runFresh(t, pool, base, n, k, batch, s, packed.C)
				}
			}
		}
	})
}

// TestFewRowsSameBits: few rows are multiplied where the operand lies, straight into C if
// nothing follows but a bias, whatever K and the last columns are.
func TestFewRowsSameBits(t *testing.T) {
	ps := pools(t)
	eachISA(t, func(t *testing.T) {
		r := rng(23)
		for m := 1; m <= thinRows+1; m++ {
			for _, k := range []int{1, thinSteps - 1, thinSteps, thinSteps + 1, 3 * thinSteps, 50} {
				for _, n := range []int{7, panelN, panelN + 5, 3 * panelN, 5*panelN - 1} {
					w, a := normal(r, n*k), normal(r, m*k)
					s := Columns(Bytes(w), tensor.F32, n)
					some, _ := randomEpilogue(r, m, n)
					for _, ep := range []Epilogue{{}, {Bias: normal(r, n)}, {Act: ReLU}, some} {
						base := MatMul{M: m, A: a, LDA: k, LDC: n + 3, Epilogue: ep}
						packed := base
						packed.W, packed.C = mustPack(t, tensor.F32, n, k, 1, s), make([]float32, m*(n+3))
						packed.Scratch = Alloc(packed.ScratchBytes(ps[0].Threads()))
						packed.Run(ps[0])
						for _, pool := range ps {
							runFresh(t, pool, base, n, k, 1, s, packed.C)
						}
					}
				}
			}
		}
	})
}

// runFresh runs the product with what is around its memory guarded.
func runFresh(t *testing.T, pool *par.Pool, m MatMul, n, k, batch int, s Source, want []float32) {
	t.Helper()
	w, err := Layout(tensor.F32, n, k, batch)
	if err != nil {
		t.Fatal(err)
	}
	m.W, m.Fresh = w, &s
	c := guard(len(want))
	scratch := guard(m.ScratchBytes(pool.Threads()) / 4)
	m.C, m.Scratch = c.x, Bytes(scratch.x)
	m.Run(pool)
	rows := batch * m.M
	got := make([]float32, len(want))
	for i := range rows {
		copy(got[i*m.LDC:][:n], c.x[i*m.LDC:][:n])
	}
	sameBits(t, fmt.Sprintf("%d threads, M%d N%d K%d, %+v", pool.Threads(), m.M, n, k, m.part), want, got)
	c.check(t, "C", rows, n, m.LDC)
	scratch.check(t, "scratch", 1, len(scratch.x), len(scratch.x))
}

// Packed weights whose A crowds give the bits of an A that does not.
func TestCrowdedRows(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		r := rng(22)
		for _, d := range types() {
			const m, n, k = 45, 200, 1500
			w := mustPack(t, d, n, k, 1, Rows(Bytes(normal(r, n*k)), tensor.F32, k))
			a := normal(r, m*k)
			var want []float32
			for _, lda := range []int{k + 40, 2048, 2047, 3073} {
				x := make([]float32, m*lda)
				for i := range m {
					copy(x[i*lda:], a[i*k:][:k])
				}
				mm := MatMul{M: m, A: x, LDA: lda, W: w, C: make([]float32, m*n), LDC: n}
				mm.Scratch = Alloc(mm.ScratchBytes(2))
				mm.Run(pool)
				if want == nil {
					want = mm.C
				}
				sameBits(t, fmt.Sprintf("%v, stride %d", d, lda), want, mm.C)
			}
		}
	})
}

func TestCrowded(t *testing.T) {
	for _, x := range []struct {
		floats, rows int
		want         bool
	}{
		{1024, 14, true}, {1024, 8, true}, {1024, 7, false}, {1023, 14, true}, {1025, 14, true}, {3072, 14, true},
		{512, 14, false}, {1040, 14, false}, {768, 14, false}, {64, 14, false}, {2048, 14, true},
	} {
		if got := crowded(x.floats*4, x.rows); got != x.want {
			t.Errorf("%d rows %d floats apart: %v", x.rows, x.floats, got)
		}
	}
	for n := 1; n < 5000; n++ {
		if ld := tidyLD(n); ld < n || crowded(ld*4, maxMR) {
			t.Fatalf("rows of %d floats are copied %d apart", n, ld)
		}
	}
}

func TestFreshErrors(t *testing.T) {
	data := make([]float32, 40*8)
	s := Rows(Bytes(data), tensor.F32, 8)
	short := Rows(Bytes(data[1:]), tensor.F32, 8)
	empty, err := Layout(tensor.F32, 40, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	full := mustPack(t, tensor.F32, 40, 8, 1, s)
	for name, x := range map[string]struct {
		w *Packed
		s *Source
	}{"neither": {empty, nil}, "both": {full, &s}, "short": {empty, &short}} {
		m := MatMul{M: 3, A: make([]float32, 24), LDA: 8, W: x.w, Fresh: x.s, C: make([]float32, 120), LDC: 40}
		if err := m.Check(); !errors.Is(err, ErrShape) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, x := range [][3]int{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1 << 40, 1 << 40, 1}, {1 << 20, 1 << 20, 1 << 30}} {
		if _, err := Layout(tensor.F32, x[0], x[1], x[2]); !errors.Is(err, ErrShape) {
			t.Errorf("Layout%v: error %v", x, err)
		}
	}
}

func TestFreshDoesNotAllocate(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	r := rng(23)
	for _, m := range []int{1, 30, ownRows + 1} {
		const n, k = 140, 1024
		s := Columns(Bytes(normal(r, n*k)), tensor.F32, n)
		w, err := Layout(tensor.F32, n, k, 1)
		if err != nil {
			t.Fatal(err)
		}
		mm := MatMul{M: m, A: normal(r, m*k), LDA: k, W: w, Fresh: &s, C: make([]float32, m*n), LDC: n}
		mm.Scratch = Alloc(mm.ScratchBytes(2))
		mm.Run(pool)
		if got := testing.AllocsPerRun(10, func() { mm.Run(pool) }); got != 0 {
			t.Errorf("%d rows: %v allocations per Run", m, got)
		}
	}
}
