// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// ropeTables makes the tables of a grid gw tokens wide.
func ropeTables(tokens, gw, headDim int) *Rope {
	q := headDim / 4
	r := &Rope{Cos: make([]float32, tokens*headDim/2), Sin: make([]float32, tokens*headDim/2)}
	for i := range tokens {
		for h, pos := range []int{i / gw, i % gw} {
			for j := range q {
				th := float64(pos) * math.Pow(100, -float64(j)/float64(q))
				r.Cos[i*headDim/2+h*q+j] = float32(math.Cos(th))
				r.Sin[i*headDim/2+h*q+j] = float32(math.Sin(th))
			}
		}
	}
	return r
}

func refRotate(x []float32, r *Rope, token int) []float64 {
	y := make([]float64, len(x))
	q := len(x) / 4
	for i, v := range x {
		y[i] = float64(v)
	}
	if r == nil {
		return y
	}
	for h := range 2 {
		for j := range q {
			u, v := float64(x[h*2*q+j]), float64(x[h*2*q+q+j])
			c, s := float64(r.Cos[token*2*q+h*q+j]), float64(r.Sin[token*2*q+h*q+j])
			y[h*2*q+j], y[h*2*q+q+j] = u*c-v*s, v*c+u*s
		}
	}
	return y
}

// refAttention is one row of one head as a plain loop.
func refAttention(a *Attention, b, h, i int) []float64 {
	hd := a.HeadDim
	q := refRotate(a.Q[(b*a.Nq+i)*a.LDQ+h*hd:][:hd], a.RopeQ, i)
	p := make([]float64, a.Nk)
	top := math.Inf(-1)
	for j := range p {
		k := refRotate(a.K[(b*a.Nk+j)*a.LDK+h*hd:][:hd], a.RopeK, j)
		for d := range q {
			p[j] += q[d] * k[d]
		}
		p[j] *= float64(a.Scale)
		if a.Mask != nil {
			p[j] += float64(a.Mask[i*a.LDMask+j])
		}
		top = max(top, p[j])
	}
	sum := 0.0
	for j := range p {
		p[j] = math.Exp(p[j] - top)
		sum += p[j]
	}
	o := make([]float64, hd)
	for j := range p {
		for d := range o {
			o[d] += p[j] / sum * float64(a.V[(b*a.Nk+j)*a.LDV+h*hd+d])
		}
	}
	return o
}

// randomAttention draws shapes; half of the cases keep Q, K and V side by side.
func randomAttention(r *rand.Rand, round int) *Attention {
	a := &Attention{Batch: 1 + r.IntN(2), Heads: 1 + r.IntN(3), HeadDim: 8 * (1 + r.IntN(8)), Nq: 1 + r.IntN(70), Nk: 1 + r.IntN(70)}
	switch round {
	case 0:
		a.HeadDim, a.Nq, a.Nk = 64, 150, 203
	case 1:
		a.HeadDim, a.Nq, a.Nk = 128, 33, 64
	case 2:
		a.HeadDim, a.Nq, a.Nk = 16, 20, 5000 // few query rows per task
	}
	a.Scale = float32(1 / math.Sqrt(float64(a.HeadDim)))
	if r.IntN(4) == 0 {
		a.Scale *= -2
	}
	w := a.Heads * a.HeadDim
	if round%2 == 0 {
		a.LDQ, a.LDK, a.LDV = w, w+3, w+r.IntN(20)
		a.Q, a.K, a.V = normal(r, a.Batch*a.Nq*a.LDQ), normal(r, a.Batch*a.Nk*a.LDK), normal(r, a.Batch*a.Nk*a.LDV)
	} else {
		a.Nk = a.Nq
		a.LDQ, a.LDK, a.LDV = 3*w, 3*w, 3*w
		qkv := normal(r, a.Batch*a.Nq*3*w)
		a.Q, a.K, a.V = qkv, qkv[w:], qkv[2*w:]
	}
	if round%3 != 0 {
		a.RopeQ, a.RopeK = ropeTables(a.Nq, 7, a.HeadDim), ropeTables(a.Nk, 5, a.HeadDim)
	}
	if round%4 == 3 {
		a.LDMask = a.Nk + r.IntN(3)
		a.Mask = normal(r, a.Nq*a.LDMask)
		if a.Nk > 1 { // a masked key, as causal masks have
			a.Mask[1] = float32(math.Inf(-1))
		}
	}
	a.LDO = w + r.IntN(9)
	return a
}

func TestAttention(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		r := rng(31)
		for round := range rounds(24) {
			a := randomAttention(r, round)
			w := a.Heads * a.HeadDim
			rows := a.Batch * a.Nq
			tol := 4e-6
			if Supports(tensor.BF16) && round%2 == 1 {
				// Rounded operands: the scores move by a few 2^-9, the weights too.
				a.Type, tol = tensor.BF16, 0.06
			}
			o := guard((rows-1)*a.LDO + w)
			a.O = o.x
			scratch := guard(a.ScratchBytes(2) / 4)
			a.Scratch = Bytes(scratch.x)
			a.Run(pool)
			o.check(t, "O", rows, w, a.LDO)
			scratch.check(t, "scratch", 1, len(scratch.x), len(scratch.x))
			step := 1 + rows/12 // the reference is slow: not every row of the large cases
			for i := 0; i < rows; i += step {
				for h := range a.Heads {
					for d, want := range refAttention(a, i/a.Nq, h, i%a.Nq) {
						if got := a.O[i*a.LDO+h*a.HeadDim+d]; !(math.Abs(float64(got)-want) <= tol) {
							t.Fatalf("round %d: %d heads of %d, %dx%d: O[%d] head %d [%d] = %v, want %v",
								round, a.Heads, a.HeadDim, a.Nq, a.Nk, i, h, d, got, want)
						}
					}
				}
			}
		}
	})
}

// Thread counts, and a batch against its members alone, give the same bits; so
// does writing over Q.
func TestAttentionSameBits(t *testing.T) {
	ps := pools(t)
	eachISA(t, func(t *testing.T) {
		for _, d := range types() {
			if d == tensor.F16 {
				continue
			}
			for _, nk := range []int{61, 64} {
				r := rng(32)
				a := Attention{Batch: 2, Heads: 3, HeadDim: 40, Nq: 75, Nk: nk, LDQ: 120, LDK: 120, LDV: 120, LDO: 120, Scale: 0.2,
					RopeQ: ropeTables(75, 7, 40), RopeK: ropeTables(nk, 7, 40), Type: d}
				a.Q, a.K, a.V = normal(r, 150*120), normal(r, 2*nk*120), normal(r, 2*nk*120)
				attentionSameBits(t, ps, a)
			}
		}
	})
}

func attentionSameBits(t *testing.T, ps []*par.Pool, a Attention) {
	t.Helper()
	run := func(p *par.Pool, a Attention) {
		a.Scratch = Alloc(a.ScratchBytes(p.Threads()))
		a.Run(p)
	}
	var want []float32
	for _, p := range ps {
		a.O = make([]float32, len(a.Q))
		run(p, a)
		if want == nil {
			want = a.O
		}
		sameBits(t, fmt.Sprintf("%v, %d keys, %d threads", a.Type, a.Nk, p.Threads()), want, a.O)
	}
	got := make([]float32, len(a.Q))
	for b := range a.Batch {
		one := a
		one.Batch = 1
		q, kv := b*a.Nq*a.LDQ, b*a.Nk*a.LDK
		one.Q, one.K, one.V, one.O = a.Q[q:], a.K[kv:], a.V[kv:], got[q:]
		run(ps[1], one)
	}
	sameBits(t, "members alone", want, got)
	a.O = a.Q
	run(ps[1], a)
	sameBits(t, "in place of Q", want, a.O)
}

// The kernels for scores have the bits of the general ones, and find the largest
// score of every row.
func TestScores(t *testing.T) {
	pool := par.New(1)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		im := active.Load()
		if !scores(im, kF32, probe()) {
			t.Skip("no kernels for scores")
		}
		const groups, n, k, ldc = 2, 64, 26, 77
		const rows = groups * scoreRows
		r := rng(34)
		a, w := normal(r, rows*k), normal(r, n*k)
		for _, d := range []tensor.DType{tensor.F32, tensor.BF16} {
			if d == tensor.BF16 && im.kern[kBF16] == 0 {
				continue
			}
			mm := MatMul{M: rows, A: a, LDA: k, W: mustPack(t, d, n, k, 1, Rows(Bytes(w), tensor.F32, k)), C: make([]float32, rows*n), LDC: n}
			mm.Scratch = Alloc(mm.ScratchBytes(1))
			mm.Run(pool)
			kind, _ := kindOf(d)
			ld := bf16Row(k)
			in := make([]byte, rows*max(ld, k*4))
			copy(in, Bytes(a))
			if d == tensor.BF16 {
				for i := range rows {
					roundRow(im, in[i*ld:][:ld], a[i*k:][:k])
				}
			} else {
				ld = k * 4
			}
			c, top := guard(rows*ldc), guard(rows*maxLanes)
			for i := range top.x {
				top.x[i] = float32(math.Inf(-1))
			}
			for p := range mm.W.panels() {
				scores(im, kind, &qargs{a: uintptr(unsafe.Pointer(&in[0])), lda: uintptr(ld), b: unsafe.Pointer(&mm.W.data[p*mm.W.panel]),
					c: unsafe.Pointer(&c.x[p*panelN]), ldc: ldc * 4, steps: mm.W.steps(), groups: groups,
					max: uintptr(unsafe.Pointer(&top.x[0])), next: uintptr(unsafe.Pointer(&in[0]))})
			}
			c.check(t, "scores", rows, n, ldc)
			top.check(t, "largest", rows, maxLanes, maxLanes)
			for i := range rows {
				want := mm.C[i*n:][:n]
				sameBits(t, fmt.Sprintf("%v: row %d", d, i), want, c.x[i*ldc:][:n])
				if got := slices.Max(top.x[i*maxLanes:][:maxLanes]); got != slices.Max(want) {
					t.Errorf("%v: row %d: largest %v, want %v", d, i, got, slices.Max(want))
				}
			}
		}
	})
}

// probe makes arguments that any kernel for scores can take.
func probe() *qargs {
	mem := Alloc(16 << 10)
	p := unsafe.Pointer(&mem[0])
	return &qargs{a: uintptr(p), b: p, c: unsafe.Pointer(&mem[8<<10]), ldc: 128, steps: 1, groups: 1,
		max: uintptr(unsafe.Pointer(&mem[4<<10])), next: uintptr(p)}
}

// With BF16 the result is that of operands rounded by hand, up to the rounding of
// the softmax's weights; a uniform softmax has weights that need none. Where nothing
// multiplies bfloat16 it is that of float32.
func TestAttentionBF16Operands(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		a := Attention{Batch: 1, Heads: 2, HeadDim: 24, Nq: 17, Nk: 64, LDQ: 48, LDK: 48, LDV: 48, LDO: 48, Type: tensor.BF16}
		r := rng(33)
		a.Q, a.K, a.V, a.O = normal(r, 17*48), normal(r, 64*48), normal(r, 64*48), make([]float32, 17*48)
		a.Scratch = Alloc(a.ScratchBytes(2))
		a.Run(pool) // Scale is 0: every weight is 1/64
		v := a.V
		if RoundsBF16(a.HeadDim) {
			v = stored(tensor.BF16, v)
		}
		for i, got := range a.O {
			want := 0.0
			for j := range 64 {
				want += float64(v[j*48+i%48]) / 64
			}
			closeTo(t, got, want, 1, 1e-6, "O[%d]", i)
		}
	})
}

// The example of the network, network.md 4.1.
func TestRotateExample(t *testing.T) {
	want := map[int]float64{0: -0.0352800, 1: -0.2165400, 15: 0.2148149, 16: -0.2474981, 17: -0.1546325, 31: 0.4933613,
		32: 0.8610243, 33: 0.0140125, 47: 0.6671576, 48: -0.2667155, 49: -0.9229596, 63: 1.0311167}
	eachISA(t, func(t *testing.T) {
		r := ropeTables(30, 8, 64)
		x, y := make([]float32, 64), make([]float32, 64)
		for i := range x {
			x[i] = float32(i) / 64
		}
		rotate(active.Load(), y, 64, x, 64, 1, 64, r, 3*8+5, 1)
		for i, v := range want {
			closeTo(t, y[i], v, 1, 2e-7, "t'[%d]", i)
		}
	})
}

func TestAttentionErrors(t *testing.T) {
	good := func() Attention {
		return Attention{Batch: 1, Heads: 2, HeadDim: 8, Nq: 3, Nk: 4, Q: make([]float32, 48), K: make([]float32, 64),
			V: make([]float32, 64), O: make([]float32, 48), LDQ: 16, LDK: 16, LDV: 16, LDO: 16}
	}
	ok := good()
	if err := ok.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Attention){
		"head":     func(a *Attention) { a.HeadDim = 12 },
		"no keys":  func(a *Attention) { a.Nk = 0 },
		"short Q":  func(a *Attention) { a.Q = a.Q[:47] },
		"narrow K": func(a *Attention) { a.LDK = 15 },
		"short O":  func(a *Attention) { a.O = a.O[:47] },
		"mask":     func(a *Attention) { a.Mask, a.LDMask = make([]float32, 11), 4 },
		"tables":   func(a *Attention) { a.RopeK = ropeTables(3, 3, 8) },
		"type":     func(a *Attention) { a.Type = tensor.F16 },
		"overflow": func(a *Attention) { a.Batch, a.Nq = math.MaxInt, 2 },
	} {
		a := good()
		spoil(&a)
		if err := a.Check(); !errors.Is(err, ErrShape) && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestNothingBehindTheLastKey: with any number of keys, odd ones too, the row behind the
// last one of K and V is not read: what stands there, NaN, would be in every result.
func TestNothingBehindTheLastKey(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	eachISA(t, func(t *testing.T) {
		r := rng(77)
		for _, nk := range []int{1, 2, 3, 31, 32, 33, 47, 63, 65, 95, 203} {
			for _, kind := range []tensor.DType{tensor.F32, tensor.BF16} {
				if kind == tensor.BF16 && !Supports(tensor.BF16) {
					continue
				}
				a := &Attention{Batch: 1, Heads: 2, HeadDim: 64, Nq: 9, Nk: nk, Scale: 0.125}
				if kind == tensor.BF16 {
					a.Type = kind
				}
				w := a.Heads * a.HeadDim
				a.LDQ, a.LDK, a.LDV, a.LDO = w, w, w, w
				behind := func() []float32 {
					x := normal(r, (nk+1)*w)
					for i := range w {
						x[nk*w+i] = float32(math.NaN())
					}
					return x
				}
				a.Q, a.K, a.V, a.O = normal(r, a.Nq*w), behind(), behind(), make([]float32, a.Nq*w)
				a.Scratch = Bytes(make([]float32, a.ScratchBytes(2)/4))
				a.Run(pool)
				for i, v := range a.O {
					if v != v {
						t.Fatalf("%v, %d keys: NaN at %d", kind, nk, i)
					}
				}
			}
		}
	})
}
