// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"math"
	"testing"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// runEpilogue applies an activation to tiles of values.
func runEpilogue(act Act, x []float32) []float32 {
	y := make([]float32, (len(x)+tileLD-1)/tileLD*tileLD)
	copy(y, x)
	for i := 0; i < len(y); i += tileLD {
		p := unsafe.Pointer(&y[i])
		epilogue(active.Load(), &eargs{tile: p, rows: 1, c: p, ldc: tileLD * 4, act: act})
	}
	return y[:len(x)]
}

// GELU over the whole interesting range, and its limits.
func TestGELU(t *testing.T) {
	const n = 1 << 14
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i-n/2) * (16.0 / n) // -8 to 8
	}
	eachISA(t, func(t *testing.T) {
		y := runEpilogue(GELU, x)
		var num, den float64
		for i, v := range x {
			want := refGELU(float64(v))
			d := float64(y[i]) - want
			num, den = num+d*d, den+want*want
			// gelu = x/2 (1+erf): an error of erf, 3e-7 at most, counts |x|/2 times.
			// The result's own rounding comes on top.
			if math.Abs(d) > 3e-7*math.Abs(float64(v))/2+math.Abs(want)*0x1p-24+1e-9 {
				t.Fatalf("gelu(%v) = %v, want %v", v, y[i], want)
			}
		}
		if l2 := math.Sqrt(num / den); l2 > 1e-7 {
			t.Errorf("relative L2 error %.2g, want below 1e-7", l2)
		}
		inf := float32(math.Inf(1))
		nan := float32(math.NaN())
		for i, got := range runEpilogue(GELU, []float32{-40, -100, -1e30, 100, 1e30, inf}) {
			if want := []float32{0, 0, 0, 100, 1e30, inf}[i]; got != want {
				t.Errorf("limit %d: %v, want %v", i, got, want)
			}
		}
		for _, act := range []Act{GELU, ReLU} {
			if y := runEpilogue(act, []float32{1, nan, 2}); y[1] == y[1] {
				t.Errorf("activation %d of NaN is %v", act, y[1])
			}
		}
	})
}

// Scores of any size, masked ones, and a row masked as a whole.
func TestSoftmax(t *testing.T) {
	inf := math.Inf(-1)
	const subnormal = 0x1p-124 // below it, a result may be zero
	eachISA(t, func(t *testing.T) {
		r := rng(41)
		for round := range 60 {
			n := 32 * (1 + r.IntN(20))
			spread := []float64{0, 1, 30, 1e4, 1e30}[round%5]
			x, m := make([]float32, n), make([]float32, n)
			for i := range x {
				x[i] = float32(spread * r.NormFloat64())
				if i > 0 && r.IntN(4) == 0 {
					m[i] = float32(inf)
				}
			}
			var sum float32
			e := sargs{n: n, sum: unsafe.Pointer(&sum), rows: 1}
			in := append([]float32(nil), x...)
			if round%2 == 0 {
				e.mask = unsafe.Pointer(&m[0])
				for i := range in {
					in[i] += m[i]
				}
			}
			e.x = unsafe.Pointer(&x[0])
			softmax(active.Load(), &e)
			top := inf
			for _, v := range in {
				top = max(top, float64(v))
			}
			all := 0.0
			for i, v := range in {
				want := math.Exp2(float64(v - float32(top)))
				all += want
				closeTo(t, x[i], want, want+subnormal/2e-7, 2e-7, "round %d: 2^(%v - %v)", round, v, top)
			}
			closeTo(t, sum, all, all, 5e-7, "round %d: sum", round)
		}
		x := make([]float32, 32)
		for i := range x {
			x[i] = float32(inf)
		}
		var sum float32
		softmax(active.Load(), &sargs{x: unsafe.Pointer(&x[0]), n: 32, sum: unsafe.Pointer(&sum), rows: 1})
		if sum == sum {
			t.Errorf("a row without any key: sum %v, want NaN", sum)
		}
	})
}

// Rows together have the bits of rows alone, whatever lies between them, also where
// the largest scores are known, and the largest weight is exactly 1. As bfloat16, results are the nearest ones but for
// those that the shorter polynomial takes to the other side of a tie.
func TestSoftmaxRows(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		im := active.Load()
		r := rng(43)
		const rows, n, ld = 5, 96, 113
		scores := normal(r, rows*ld)
		scores[ld+7] = float32(math.NaN())
		scores[2*ld+9] = float32(math.Inf(-1))
		for _, form := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
			short, known := form[0], form[1]
			if short && !RoundsBF16(32) || known && scoreRows == 1 {
				continue
			}
			x := guard(rows * ld)
			copy(x.x, scores)
			for i := range rows { // the gaps must stay as they are
				copy(x.x[i*ld+n:][:ld-n], x.all[:64])
			}
			var sums [rows]float32
			e := sargs{x: unsafe.Pointer(&x.x[0]), n: n, sum: unsafe.Pointer(&sums), rows: rows, ld: ld * 4, short: short}
			if top := largest(scores, rows, n, ld); known {
				e.max = unsafe.Pointer(&top[0])
			}
			softmax(im, &e)
			x.check(t, "softmax", rows, n, ld)
			for i := range rows {
				row := append([]float32(nil), scores[i*ld:][:n]...)
				var sum float32
				softmax(im, &sargs{x: unsafe.Pointer(&row[0]), n: n, sum: unsafe.Pointer(&sum), rows: 1, short: short})
				if short {
					sameBits(t, "weights of a row alone", row[:n/2], x.x[i*ld:][:n/2])
				} else {
					sameBits(t, "weights of a row alone", row, x.x[i*ld:][:n])
				}
				sameBits(t, "sum of a row alone", []float32{sum}, sums[i:][:1])
				checkWeights(t, scores[i*ld:][:n], row, sum, short)
			}
		}
	})
}

// largest spreads the largest score of each row over the lanes that kernels keep.
func largest(scores []float32, rows, n, ld int) []float32 {
	top := make([]float32, rows*maxLanes)
	for i := range top {
		top[i] = float32(math.Inf(-1))
	}
	for i := range rows {
		for j, v := range scores[i*ld:][:n] {
			if lane := &top[i*maxLanes+j%maxLanes]; v > *lane {
				*lane = v
			}
		}
	}
	return top
}

func checkWeights(t *testing.T, in, out []float32, sum float32, short bool) {
	t.Helper()
	top := float32(math.Inf(-1))
	for _, v := range in {
		if v != v {
			if sum == sum {
				t.Errorf("a NaN among the scores: sum %v", sum)
			}
			return
		}
		top = max(top, v)
	}
	all := 0.0
	for i, v := range in {
		want := math.Exp2(float64(v - top))
		all += want
		got, tol := out[i], 2e-7
		if short {
			got, tol = tensor.Float32FromBF16(unsafe.Slice((*uint16)(unsafe.Pointer(&out[0])), len(in))[i]), 0x1p-8+1e-4
		}
		closeTo(t, got, want, want, tol, "2^(%v - %v)", v, top)
		if v == top && got != 1 {
			t.Errorf("largest weight %v, want 1", got)
		}
	}
	tol := 5e-7
	if short {
		tol = 1e-4
	}
	closeTo(t, sum, all, all, tol, "sum")
}

// All instruction sets with a fused multiply-add round alike, since the chain of
// every element is the same.
func TestSameBitsAcrossISAs(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	r := rng(42)
	const m, n, k = 45, 77, 133
	a, w, bias := normal(r, m*k), normal(r, n*k), normal(r, n)
	var want []float32
	eachISA(t, func(t *testing.T) {
		if Active() == Portable {
			t.Skip("portable code rounds the products")
		}
		mm := MatMul{M: m, A: a, LDA: k, C: make([]float32, m*n), LDC: n, Epilogue: Epilogue{Bias: bias, Act: ReLU},
			W: mustPack(t, tensor.F32, n, k, 1, Rows(Bytes(w), tensor.F32, k))}
		mm.Run(pool)
		if want == nil {
			want = mm.C
		}
		sameBits(t, Active().String(), want, mm.C)
	})
}

func TestForce(t *testing.T) {
	was := Active()
	defer func() { _ = Force(was) }()
	if err := Force(numISA); err == nil {
		t.Error("an unknown instruction set was accepted")
	}
	if Active() != was {
		t.Errorf("a refused Force changed the instruction set to %v", Active())
	}
	if err := Force(Portable); err != nil || Active() != Portable {
		t.Errorf("Force(Portable): %v, active %v", err, Active())
	}
	if s := ISA(99).String(); s != "isa(99)" {
		t.Errorf("String of an unknown instruction set: %q", s)
	}
}

// The plan covers every number of rows with calls that exist.
func TestRowPlan(t *testing.T) {
	for _, im := range impls {
		if im == nil {
			continue
		}
		for n := 1; n < 200; n++ {
			for left := n; left > 0; {
				i, m := im.rows.take(left)
				if m != im.sizes[i] || m > left {
					t.Fatalf("%v: %d rows of %d: call %d of %d", im.isa, left, n, i, m)
				}
				left -= m
			}
		}
	}
}
