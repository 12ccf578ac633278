// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
)

// TestFMA32 compares with exact rational arithmetic, on operands chosen so
// that sums fall on and next to float32 midpoints, where rounding twice fails.
func TestFMA32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	exact := func(a, b, c float32) float32 {
		x := new(big.Float).SetPrec(2000).SetMode(big.ToNearestEven)
		x.Mul(new(big.Float).SetPrec(200).SetFloat64(float64(a)), new(big.Float).SetPrec(200).SetFloat64(float64(b)))
		x.Add(x, new(big.Float).SetPrec(200).SetFloat64(float64(c)))
		f, _ := x.Float32()
		return f
	}
	wrongOnce := 0
	check := func(a, b, c float32) {
		t.Helper()
		got, want := FMA32(a, b, c), exact(a, b, c)
		if got != want {
			t.Fatalf("FMA32(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
		if float32(math.FMA(float64(a), float64(b), float64(c))) != want {
			wrongOnce++
		}
	}
	for range 20000 {
		a, b, c := float32(r.NormFloat64()), float32(r.NormFloat64()), float32(r.NormFloat64())
		check(a, b, c)
		check(a*0x1p-70, b*0x1p-60, c*0x1p-130) // subnormal results
		// A power of two plus half a unit in its last place, plus a sliver.
		e := math.Ldexp(1, r.IntN(20)-10)
		m := float32(e * (1 + float64(r.IntN(1<<23))*0x1p-23))
		ulp := e * 0x1p-23
		check(float32(ulp/2), 1+float32(r.IntN(3)-1)*0x1p-23, m)
		check(float32(-ulp/2), 1+float32(r.IntN(3)-1)*0x1p-23, m)
		// (1+d)(1-d) ulp/2 is a hair below the midpoint; m's parity decides
		// whether the tie that a float64 sees would go the wrong way.
		d := float32(1+r.IntN(100)) * 0x1p-23
		check(1+d, (1-d)*float32(ulp/2), m)
		check(1+d, (1-d)*float32(-ulp/2), m)
	}
	check(1+0x1p-23, 0x1p-24-0x1p-47, 1+0x1p-23)
	check(0x1p-30, 0x1p-30, 1)
	check(float32(0x1.000002p-24), float32(0x1.fffffep-1), 1)
	if wrongOnce == 0 {
		t.Error("no operand needed the careful path: the test does not test it")
	}
}

// data returns n descriptors; with few distinct ones when ties is set.
func data(r *rand.Rand, n, dim int, ties bool) []float32 {
	x := make([]float32, n*dim)
	for i := range n {
		if ties && i > 3 {
			j := r.IntN(4)
			copy(x[i*dim:(i+1)*dim], x[j*dim:(j+1)*dim])
			continue
		}
		for k := range dim {
			x[i*dim+k] = float32(r.NormFloat64())
		}
	}
	return x
}

// interleave stores n descriptors in groups of w, [dim][w] each; n%w == 0.
func interleave(x []float32, n, dim, w int) []float32 {
	out := make([]float32, n*dim)
	for i := range n {
		for k := range dim {
			out[i/w*w*dim+k*w+i%w] = x[i*dim+k]
		}
	}
	return out
}

func forEach(t *testing.T, f func(t *testing.T, k *Kernel, dim, panels int, ties bool)) {
	for _, k := range All() {
		t.Run(k.ISA.String(), func(t *testing.T) {
			for _, dim := range []int{1, 2, 3, 16, 24, 25, 128} {
				for _, panels := range []int{1, 2, 5} {
					f(t, k, dim, panels, false)
					f(t, k, dim, panels, true)
				}
			}
		})
	}
}

func TestStrip(t *testing.T) {
	forEach(t, func(t *testing.T, k *Kernel, dim, panels int, ties bool) {
		r := rand.New(rand.NewPCG(uint64(dim), uint64(panels)))
		n := panels * k.NR
		a, b := data(r, k.MR, dim, ties), data(r, n, dim, ties)
		rows, cols := interleave(a, k.MR, dim, k.MR), interleave(b, n, dim, k.NR)
		old := make([]float32, n) // the column maxima are running ones
		for j := range old {
			old[j] = float32(r.NormFloat64())
		}
		wantRow := make([]float32, k.MR)
		wantCol := append([]float32(nil), old...)
		for i := range k.MR {
			wantRow[i] = float32(math.Inf(-1))
			for j := range n {
				s := Dot(a[i*dim:(i+1)*dim], b[j*dim:(j+1)*dim])
				wantRow[i], wantCol[j] = max(wantRow[i], s), max(wantCol[j], s)
			}
		}
		for _, both := range []bool{true, false} {
			gotRow, gotCol := make([]float32, k.MR), append([]float32(nil), old...)
			p := Args{
				Rows: &rows[0], Cols: &cols[0], Panels: panels, ColMax: &gotCol[0],
				Tmp: &make([]float32, TmpFloats)[0], RowMax: &gotRow[0], Dim: dim,
			}
			want := wantCol
			if both {
				k.Strip(&p)
			} else {
				k.StripRow(&p)
				want = old
			}
			for i := range gotRow {
				if gotRow[i] != wantRow[i] {
					t.Fatalf("dim %d panels %d both %v: row %d maximum %x, want %x", dim, panels, both, i, gotRow[i], wantRow[i])
				}
			}
			for j := range gotCol {
				if gotCol[j] != want[j] {
					t.Fatalf("dim %d panels %d both %v: column %d maximum %x, want %x", dim, panels, both, j, gotCol[j], want[j])
				}
			}
		}
	})
}

func TestFirstEqualAndRowBest(t *testing.T) {
	forEach(t, func(t *testing.T, k *Kernel, dim, panels int, ties bool) {
		r := rand.New(rand.NewPCG(uint64(dim), uint64(panels)))
		n := panels * k.NR
		a, b := data(r, 1, dim, false), data(r, n, dim, ties)
		cols := interleave(b, n, dim, k.NR)
		score := make([]float32, n)
		best := float32(math.Inf(-1))
		for j := range score {
			score[j] = Dot(a, b[j*dim:(j+1)*dim])
			best = max(best, score[j])
		}
		if got := k.RowBest(&a[0], &cols[0], panels, dim); got != best {
			t.Fatalf("dim %d panels %d: best %x, want %x", dim, panels, got, best)
		}
		for j, s := range score {
			first := 0
			for score[first] != s {
				first++
			}
			if got := k.FirstEqual(&a[0], &cols[0], panels, dim, s); got != first {
				t.Fatalf("dim %d panels %d: score of column %d found at %d, want %d", dim, panels, j, got, first)
			}
		}
		if got := k.FirstEqual(&a[0], &cols[0], panels, dim, best+1); got != -1 {
			t.Fatalf("dim %d panels %d: absent score found at %d", dim, panels, got)
		}
	})
}

// BenchmarkStrip measures the tile kernels alone, the strip in the L2 cache;
// GFLOP/s counts two operations per multiply-add.
func BenchmarkStrip(b *testing.B) {
	const dim, cols = UnrolledDim, 1024
	r := rand.New(rand.NewPCG(1, 1))
	for _, k := range All() {
		panels := cols / k.NR
		rows, strip := data(r, k.MR, dim, false), data(r, panels*k.NR, dim, false)
		p := Args{Rows: &rows[0], Cols: &strip[0], Panels: panels, ColMax: &make([]float32, cols)[0],
			Tmp: &make([]float32, 4*TmpFloats)[0], RowMax: &make([]float32, k.MR)[0], Dim: dim}
		for _, m := range []struct {
			name string
			f    func(*Args)
		}{{"both", k.Strip}, {"row", k.StripRow}} {
			b.Run(k.ISA.String()+"/"+m.name, func(b *testing.B) {
				for b.Loop() {
					m.f(&p)
				}
				flop := 2 * float64(dim*k.MR*panels*k.NR) * float64(b.N)
				b.ReportMetric(flop/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// TestEnvironment: the matcher obeys the variable that the network obeys.
func TestEnvironment(t *testing.T) {
	for _, k := range All() {
		t.Setenv(isa.Env, k.ISA.String())
		if got := Best().ISA; got != k.ISA {
			t.Errorf("%s=%v: kernels of %v", isa.Env, k.ISA, got)
		}
	}
}
