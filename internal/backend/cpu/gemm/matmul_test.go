// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// tolerance of a sum relative to the sum of the magnitudes of its terms: rounding
// of k sums, and for bfloat16 nothing else, since the reference rounds its
// operands first.
const sumTol = 1e-6

// randomEpilogue draws one of the combinations, with Res in rows of ld.
func randomEpilogue(r *rand.Rand, m, n int) (Epilogue, guarded) {
	var e Epilogue
	if r.IntN(3) > 0 {
		e.Bias = normal(r, n)
	}
	e.Act = Act(r.IntN(int(numAct)))
	if r.IntN(2) > 0 {
		e.Gamma = normal(r, n)
	}
	var g guarded
	if r.IntN(2) > 0 {
		e.LDR = n + r.IntN(5)
		g = guard((m-1)*e.LDR+n).fill(r, m, n, e.LDR)
		e.Res = g.x
	}
	return e, g
}

// checkMatMul compares C with a plain float64 loop.
func checkMatMul(t *testing.T, mm *MatMul, a, w []float32, c []float32, ep *Epilogue) {
	t.Helper()
	n, k := mm.W.N, mm.W.K
	w = stored(mm.W.Type, w)
	if mm.W.Type == tensor.BF16 && RoundsBF16(k) { // otherwise only weights are stored
		a = stored(mm.W.Type, a)
	}
	for i := range mm.M {
		for j := range n {
			var sum, mag float64
			if ep.Bias != nil {
				sum = float64(ep.Bias[j])
				mag = math.Abs(sum)
			}
			for q := range k {
				x := float64(a[i*mm.LDA+q]) * float64(w[j*k+q])
				sum += x
				mag += math.Abs(x)
			}
			want := refEpilogue(ep, sum, i, j)
			if ep.Gamma != nil {
				mag = mag*math.Abs(float64(ep.Gamma[j])) + math.Abs(want)
			}
			if ep.Res != nil {
				mag += math.Abs(float64(ep.Res[i*ep.LDR+j]))
			}
			if got := c[i*mm.LDC+j]; !(math.Abs(float64(got)-want) <= sumTol*(mag+1e-3)) {
				t.Fatalf("%v M%d N%d K%d, activation %d: C[%d][%d] = %v, want %v", mm.W.Type, mm.M, n, k, ep.Act, i, j, got, want)
			}
		}
	}
}

func TestMatMul(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		r := rng(1)
		for round := range rounds(100) {
			m, n, k := 1+r.IntN(40), 1+r.IntN(100), 1+r.IntN(70)
			switch round {
			case 0:
				m, n, k = 153, 320, 215
			case 1:
				m, n, k = 7, 64, 2049
			case 2:
				m, n, k = 64, 32*17, 32
			}
			for _, d := range types() {
				w := normal(r, n*k)
				lda, ldc := k+r.IntN(4), n+r.IntN(40)
				a := guard((m-1)*lda+k).fill(r, m, k, lda)
				c := guard((m-1)*ldc + n)
				ep, res := randomEpilogue(r, m, n)
				mm := &MatMul{M: m, A: a.x, LDA: lda, C: c.x, LDC: ldc, Epilogue: ep,
					W: mustPack(t, d, n, k, 1, Rows(Bytes(w), tensor.F32, k))}
				mm.Scratch = Alloc(mm.ScratchBytes(2))
				mm.Run(pool)
				checkMatMul(t, mm, a.x, w, c.x, &ep)
				c.check(t, "C", m, n, ldc)
				a.check(t, "A", m, k, lda)
				if ep.Res != nil {
					res.check(t, "Res", m, n, ep.LDR)
				}
			}
		}
	})
}

// C may be its own residual, the usual x += f(x).
func TestMatMulResidualInPlace(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		r := rng(2)
		for range 20 {
			m, n, k := 1+r.IntN(40), 1+r.IntN(100), 1+r.IntN(70)
			w := normal(r, n*k)
			a, x := normal(r, m*k), normal(r, m*n)
			ep := Epilogue{Bias: normal(r, n), Gamma: normal(r, n), Res: append([]float32(nil), x...), LDR: n}
			mm := &MatMul{M: m, A: a, LDA: k, C: x, LDC: n, Epilogue: ep,
				W: mustPack(t, tensor.F32, n, k, 1, Rows(Bytes(w), tensor.F32, k))}
			mm.Res = x
			mm.Run(pool)
			checkMatMul(t, mm, a, w, x, &ep)
		}
	})
}

// The same product in one piece, row by row, and on 1, 2 and 3 threads has the
// same bits, and so have all members of a batch alone.
func TestMatMulSameBits(t *testing.T) {
	ps := pools(t)
	eachISA(t, func(t *testing.T) {
		r := rng(3)
		for _, d := range types() {
			const batch, m, n, k = 3, 61, 200, 130
			w, a := normal(r, n*k), normal(r, batch*m*k)
			ep := Epilogue{Bias: normal(r, n), Act: GELU, Gamma: normal(r, n), Res: normal(r, batch*m*n), LDR: n}
			p := mustPack(t, d, n, k, 1, Rows(Bytes(w), tensor.F32, k))
			run := func(pool *par.Pool, mm MatMul) {
				mm.Scratch = Alloc(mm.ScratchBytes(pool.Threads()))
				mm.Run(pool)
			}
			whole := MatMul{M: batch * m, A: a, LDA: k, W: p, LDC: n, Epilogue: ep}
			var want []float32
			for i, pool := range ps {
				whole.C = make([]float32, batch*m*n)
				run(pool, whole)
				if i == 0 {
					want = whole.C
				}
				sameBits(t, fmt.Sprintf("%v: %d threads", d, pool.Threads()), want, whole.C)
			}
			rows := make([]float32, batch*m*n)
			for i := range batch * m {
				one := MatMul{M: 1, A: a[i*k:], LDA: k, W: p, C: rows[i*n:], LDC: n, Epilogue: ep}
				one.Res = ep.Res[i*n:]
				run(ps[0], one)
			}
			sameBits(t, fmt.Sprintf("%v: row by row", d), want, rows)
			b := MatMul{M: m, A: a, LDA: k, W: p, C: make([]float32, batch*m*n), LDC: n, Epilogue: ep,
				Batch: batch, StrideA: m * k, StrideC: m * n, StrideR: m * n}
			run(ps[1], b)
			sameBits(t, fmt.Sprintf("%v: batch", d), want, b.C)
		}
	})
}

// A batch with its own second operand, packed from activations in both
// orientations.
func TestMatMulBatchOperands(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		r := rng(4)
		const batch, m, n, k = 3, 19, 45, 33
		a, w := normal(r, batch*m*k), normal(r, batch*n*k)
		wt := make([]float32, len(w)) // [batch][k][n]
		for b := range batch {
			for j := range n {
				for q := range k {
					wt[(b*k+q)*n+j] = w[(b*n+j)*k+q]
				}
			}
		}
		rows, cols := Rows(Bytes(w), tensor.F32, k), Columns(Bytes(wt), tensor.F32, n)
		rows.StrideB, cols.StrideB = n*k, n*k
		for _, s := range []Source{rows, cols} {
			p := mustPack(t, tensor.F32, n, k, batch, s)
			c := make([]float32, batch*m*n)
			mm := MatMul{M: m, A: a, LDA: k, W: p, C: c, LDC: n, Batch: batch, StrideA: m * k, StrideC: m * n}
			mm.Run(pool)
			for b := range batch {
				one := MatMul{M: m, A: a[b*m*k:], LDA: k, W: p}
				one.LDC = n
				checkMatMul(t, &one, a[b*m*k:], w[b*n*k:(b+1)*n*k], c[b*m*n:], &Epilogue{})
			}
		}
	})
}

func TestMatMulErrors(t *testing.T) {
	w := mustPack(t, tensor.F32, 40, 8, 1, Rows(Bytes(make([]float32, 320)), tensor.F32, 8))
	good := func() MatMul {
		return MatMul{M: 3, A: make([]float32, 24), LDA: 8, W: w, C: make([]float32, 120), LDC: 40}
	}
	ok := good()
	if err := ok.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*MatMul){
		"no weights":    func(m *MatMul) { m.W = nil },
		"no rows":       func(m *MatMul) { m.M = 0 },
		"short A":       func(m *MatMul) { m.A = m.A[:23] },
		"narrow A":      func(m *MatMul) { m.LDA = 7 },
		"short C":       func(m *MatMul) { m.C = m.C[:119] },
		"huge stride":   func(m *MatMul) { m.LDC = math.MaxInt },
		"short bias":    func(m *MatMul) { m.Bias = make([]float32, 39) },
		"short gamma":   func(m *MatMul) { m.Gamma = make([]float32, 39) },
		"short res":     func(m *MatMul) { m.Res, m.LDR = make([]float32, 119), 40 },
		"activation":    func(m *MatMul) { m.Act = numAct },
		"short batch A": func(m *MatMul) { m.Batch, m.StrideA = 2, 1 },
		"short batch C": func(m *MatMul) { m.Batch, m.StrideC = 2, 200 },
		"negative":      func(m *MatMul) { m.Batch, m.StrideA = 2, -1 },
	} {
		m := good()
		spoil(&m)
		if err := m.Check(); !errors.Is(err, ErrShape) && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestRunDoesNotAllocate(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	r := rng(5)
	check := func(what string, run func()) {
		run() // the first call makes the task functions
		if n := testing.AllocsPerRun(20, run); n != 0 {
			t.Errorf("%v %s: %v allocations per Run", Active(), what, n)
		}
	}
	eachISA(t, func(t *testing.T) {
		for _, d := range types() {
			w := mustPack(t, d, 72, 128, 1, Rows(Bytes(normal(r, 72*128)), tensor.F32, 128))
			mm := MatMul{M: 30, A: normal(r, 30*128), LDA: 128, W: w, C: make([]float32, 30*72), LDC: 72,
				Epilogue: Epilogue{Bias: normal(r, 72), Act: GELU}}
			mm.Scratch = Alloc(mm.ScratchBytes(2))
			check(d.String()+" product", func() { mm.Run(pool) })
			if d == tensor.BF16 && !RoundsBF16(32) {
				continue
			}
			c := Conv{Batch: 1, H: 5, W: 6, Cin: 32, KH: 2, KW: 2, PadH: 1, PadW: 1, Weights: w,
				X: normal(r, 960), LDX: 32, Y: make([]float32, 42*72), LDY: 72}
			c.Scratch = Alloc(c.ScratchBytes(2))
			check(d.String()+" convolution", func() { c.Run(pool) })
		}
		for _, d := range []tensor.DType{tensor.F32, tensor.BF16} {
			a := Attention{Batch: 1, Heads: 2, HeadDim: 32, Nq: 20, Nk: 30, Scale: 1, Q: normal(r, 1280), K: normal(r, 1920), V: normal(r, 1920),
				O: make([]float32, 1280), LDQ: 64, LDK: 64, LDV: 64, LDO: 64, RopeQ: ropeTables(20, 5, 32), Type: d}
			a.Scratch = Alloc(a.ScratchBytes(2))
			check(d.String()+" attention", func() { a.Run(pool) })
		}
	})
}
