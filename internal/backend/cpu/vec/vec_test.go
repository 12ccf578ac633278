// SPDX-License-Identifier: Apache-2.0

package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

const (
	maxTail = 70 // every tail of every unrolling, and both loops before it
	canary  = float32(-12345.25)
)

// eachISA runs f under every instruction set of this machine.
func eachISA(t *testing.T, f func(t *testing.T)) {
	for _, i := range Supported() {
		t.Run(i.String(), func(t *testing.T) {
			restore, err := Force(i)
			if err != nil {
				t.Fatal(err)
			}
			defer restore()
			f(t)
		})
	}
}

// guarded is a slice of n elements at an odd offset between canaries.
func guarded(n, shift int) (all, s []float32) {
	all = make([]float32, n+40)
	for i := range all {
		all[i] = canary
	}
	return all, all[16+shift : 16+shift+n : 16+shift+n]
}

func checkCanaries(t *testing.T, all, s []float32, shift int) {
	t.Helper()
	for i, v := range all {
		if (i < 16+shift || i >= 16+shift+len(s)) && v != canary {
			t.Fatalf("length %d: element %d outside the row was overwritten", len(s), i-16-shift)
		}
	}
}

func randRow(r *rand.Rand, s []float32, scale float64) {
	for i := range s {
		s[i] = float32(r.NormFloat64() * scale)
	}
}

type tolerance struct{ abs, rel float64 }

func (tol tolerance) ok(got float32, want float64) bool {
	if math.IsNaN(want) || math.IsNaN(float64(got)) {
		return math.IsNaN(want) && math.IsNaN(float64(got))
	}
	if got == float32(want) {
		return true
	}
	return math.Abs(float64(got)-want) <= tol.abs+tol.rel*math.Abs(want)
}

// Subnormal results may be off by one of their units.
const tiny = 0x1p-148

var unaries = []struct {
	name  string
	f     func(dst, src []float32)
	ref   func(float64) float64
	scale float64
	tol   tolerance
}{
	{"exp", Exp, math.Exp, 20, tolerance{tiny, 2e-7}},
	{"expm1", Expm1, math.Expm1, 5, tolerance{0, 3e-7}},
	{"expm1/small", Expm1, math.Expm1, 1e-3, tolerance{0, 2e-7}},
	{"erf", Erf, math.Erf, 1.5, tolerance{tiny, 7e-7}},
	{"gelu", GELU, geluGo, 3, tolerance{3e-7, 1.2e-7}},
	{"sigmoid", Sigmoid, sigmoid64, 6, tolerance{0x1p-126, 4e-7}},
	{"tanh", Tanh, math.Tanh, 2, tolerance{0, 5e-7}},
	{"relu", ReLU, relu64, 3, tolerance{}},
}

func TestUnary(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, u := range unaries {
			for n := range maxTail {
				src := make([]float32, n)
				randRow(r, src, u.scale)
				all, dst := guarded(n, n%7)
				u.f(dst, src)
				checkCanaries(t, all, dst, n%7)
				for i, x := range src {
					if want := u.ref(float64(x)); !u.tol.ok(dst[i], want) {
						t.Fatalf("%s(%g) at %d of %d: got %g, want %g", u.name, x, i, n, dst[i], want)
					}
				}
				u.f(src, src) // in place
				for i := range src {
					if math.Float32bits(src[i]) != math.Float32bits(dst[i]) {
						t.Fatalf("%s: in place differs at %d of %d: %g, %g", u.name, i, n, src[i], dst[i])
					}
				}
			}
		}
	})
}

// TestUnaryDense walks through the arguments that occur, closely, and the
// special ones.
func TestUnaryDense(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	special := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, nan, 1e-45, -1e-45, 1e-40, -1e-39, 0x1p-126, 1e-30, -1e-20, 1e-10,
		88.7, 88.72, 88.73, 89, 100, 1e30, math.MaxFloat32, -87, -87.5, -90, -95, -103, -103.9, -104.1, -110, -1e30, -math.MaxFloat32, 13.9, 14.1, -20}
	eachISA(t, func(t *testing.T) {
		for _, u := range unaries {
			src := append([]float32(nil), special...)
			lim := 6 * u.scale
			for x := -lim; x < lim; x += lim / 10007 {
				src = append(src, float32(x))
			}
			dst := make([]float32, len(src))
			u.f(dst, src)
			worst, at := 0.0, float32(0)
			for i, x := range src {
				want := u.ref(float64(x))
				if !u.tol.ok(dst[i], want) {
					t.Errorf("%s(%g): got %g, want %g", u.name, x, dst[i], want)
				}
				if e := math.Abs(float64(dst[i])-want) / math.Abs(want); i >= len(special) && e > worst && math.Abs(want) > 1e-30 && want < math.MaxFloat32 {
					worst, at = e, x
				}
			}
			t.Logf("%s: largest relative error %.2g at %g", u.name, worst, at)
		}
	})
}

func TestBinary(t *testing.T) {
	type bin struct {
		name string
		f    func(dst, x, y []float32)
		ref  func(x, y float64) float64
		tol  tolerance
	}
	half := tolerance{0, 0x1p-24}
	for _, b := range []bin{
		{"add", Add, func(x, y float64) float64 { return x + y }, half},
		{"sub", Sub, func(x, y float64) float64 { return x - y }, half},
		{"mul", Mul, func(x, y float64) float64 { return x * y }, half},
		{"div", Div, func(x, y float64) float64 { return x / y }, half},
		{"scale", func(d, x, y []float32) { Scale(d, x, 1.7) }, func(x, y float64) float64 { return x * float64(float32(1.7)) }, half},
		{"affine", func(d, x, y []float32) { Affine(d, x, 1.7, -3) }, func(x, y float64) float64 { return float64(float32(x*float64(float32(1.7)))) - 3 }, half},
		{"axpy", func(d, x, y []float32) { copy(d, x); Axpy(d, y, 0.3) }, func(x, y float64) float64 { return x + y*float64(float32(0.3)) }, half},
	} {
		t.Run(b.name, func(t *testing.T) {
			eachISA(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 4))
				for n := range maxTail {
					x, y := make([]float32, n), make([]float32, n)
					randRow(r, x, 3)
					randRow(r, y, 3)
					all, dst := guarded(n, n%5)
					b.f(dst, x, y)
					checkCanaries(t, all, dst, n%5)
					for i := range dst {
						if want := b.ref(float64(x[i]), float64(y[i])); !b.tol.ok(dst[i], want) {
							t.Fatalf("(%g, %g) at %d of %d: got %g, want %g", x[i], y[i], i, n, dst[i], want)
						}
					}
				}
			})
		})
	}
}

func TestDot(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for n := range 3 * maxTail {
			// Neighbours are huge: a lane read past the end would show.
			allX, x := guarded(n, n%3)
			_, y := guarded(n, n%4)
			randRow(r, x, 2)
			randRow(r, y, 2)
			var dot, mag float64
			for i := range x {
				dot += float64(x[i]) * float64(y[i])
				mag += math.Abs(float64(x[i]) * float64(y[i]))
			}
			if got := Dot(x, y); math.Abs(float64(got)-dot) > 4e-7*mag {
				t.Fatalf("dot of %d: got %g, want %g", n, got, dot)
			}
			checkCanaries(t, allX, x, n%3)
		}
	})
}

func TestSoftmaxExp(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		for n := 1; n < 2*maxTail; n++ {
			for _, scale := range []float64{0.1, 5, 100} {
				_, src := guarded(n, n%3)
				randRow(r, src, scale)
				want := make([]float32, n)
				wantSum := softmaxGo(want, src, 0.125)
				all, dst := guarded(n, n%5)
				sum := SoftmaxExp(dst, src, 0.125)
				checkCanaries(t, all, dst, n%5)
				if math.Abs(float64(sum-wantSum)) > 4e-7*float64(wantSum) {
					t.Fatalf("sum of %d: got %g, want %g", n, sum, wantSum)
				}
				for i := range dst {
					// The argument's own rounding, relative to the result.
					tol := tolerance{tiny, 2e-7 + 1.5e-7*math.Abs(math.Log(max(float64(want[i]), 1e-45)))}
					if !tol.ok(dst[i], float64(want[i])) {
						t.Fatalf("%d of %d: got %g, want %g", i, n, dst[i], want[i])
					}
				}
			}
		}
		// Masked keys are minus infinity; a row with a NaN is all NaN in its sum.
		inf := float32(math.Inf(-1))
		row := []float32{1, inf, 2, inf}
		if s := SoftmaxExp(row, row, 1); row[1] != 0 || row[2] != 1 || math.Abs(float64(s)-1-math.Exp(-1)) > 1e-6 {
			t.Errorf("masked row: %v, sum %g", row, s)
		}
		row = []float32{1, float32(math.NaN()), 2}
		if s := SoftmaxExp(row, row, 1); s == s {
			t.Errorf("row with NaN sums to %g", s)
		}
	})
}

func TestNorms(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		for n := 1; n < 2*maxTail; n++ {
			for _, c := range []struct{ mean, std float64 }{{0, 1}, {3, 1e-3}, {-40, 1e-5}, {1000, 1}} {
				src, g, b := make([]float32, n), make([]float32, n), make([]float32, n)
				randRow(r, g, 1)
				randRow(r, b, 1)
				for i := range src {
					src[i] = float32(c.mean + c.std*r.NormFloat64())
				}
				want := make([]float32, n)
				layerNormGo(want, src, g, b, 1e-6)
				all, dst := guarded(n, n%5)
				LayerNorm(dst, src, g, b, 1e-6)
				checkCanaries(t, all, dst, n%5)
				compareRows(t, "layerNorm", dst, want, 2e-6)
				rmsNormGo(want, src, g, 1e-6)
				RMSNorm(dst, src, g, 1e-6)
				checkCanaries(t, all, dst, n%5)
				compareRows(t, "rmsNorm", dst, want, 1e-6)
				norm := l2normGo(want, src, 1e-8)
				if got := L2Normalize(dst, src, 1e-8); !(tolerance{0, 5e-7}).ok(got, float64(norm)) {
					t.Fatalf("norm of %d: got %g, want %g", n, got, norm)
				}
				checkCanaries(t, all, dst, n%5)
				compareRows(t, "l2", dst, want, 1e-6)
			}
		}
		// A constant row has no spread at all: what is left is beta.
		row, one := []float32{0.1, 0.1, 0.1, 0.1, 0.1}, []float32{1, 1, 1, 1, 1}
		LayerNorm(row, row, one, one, 1e-6)
		for _, v := range row {
			if v != 1 {
				t.Errorf("constant row became %v", row)
				break
			}
		}
		zero := make([]float32, 24)
		if L2Normalize(zero, zero, 0); zero[0] == zero[0] {
			t.Error("a zero vector without floor must give NaN")
		}
	})
}

func compareRows(t *testing.T, what string, got, want []float32, rel float64) {
	t.Helper()
	var m float64
	for _, v := range want {
		m = max(m, math.Abs(float64(v)))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= rel*max(m, 1)) {
			t.Fatalf("%s: %d of %d: got %g, want %g", what, i, len(got), got[i], want[i])
		}
	}
}

func TestLerpAndRotate(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		for n := range maxTail {
			var s [6][]float32
			for i := range s {
				_, s[i] = guarded(n, i)
				randRow(r, s[i], 1)
			}
			want := make([]float32, n)
			lerp4Go(want, s[0], s[1], s[2], s[3], 0.3, 0.7)
			all, dst := guarded(n, n%5)
			Lerp4(dst, s[0], s[1], s[2], s[3], 0.3, 0.7)
			checkCanaries(t, all, dst, n%5)
			compareRows(t, "lerp4", dst, want, 1e-6)
			Lerp4(dst, s[0], s[1], s[2], s[3], 0, 0)
			for i := range dst {
				if dst[i] != s[0][i] {
					t.Fatalf("weight 0 is not exact at %d", i)
				}
			}
			w2 := make([]float32, n)
			rotateGo(want, w2, s[0], s[1], s[2], s[3])
			all2, dst2 := guarded(n, n%3)
			rotate(dst, dst2, s[0], s[1], s[2], s[3])
			checkCanaries(t, all, dst, n%5)
			checkCanaries(t, all2, dst2, n%3)
			compareRows(t, "rotate u", dst, want, 1e-6)
			compareRows(t, "rotate v", dst2, w2, 1e-6)
		}
	})
}

// TestRoPE2D is the worked example of network.md 4.1.
func TestRoPE2D(t *testing.T) {
	var x [128]float32
	var tab [4][16]float32
	for j := range 16 {
		inv := math.Pow(100, -float64(j)/16)
		tab[0][j], tab[1][j] = float32(math.Cos(3*inv)), float32(math.Sin(3*inv))
		tab[2][j], tab[3][j] = float32(math.Cos(5*inv)), float32(math.Sin(5*inv))
	}
	want := map[int]float64{0: -0.0352800, 1: -0.2165400, 15: 0.2148149, 16: -0.2474981, 17: -0.1546325, 31: 0.4933613,
		32: 0.8610243, 33: 0.0140125, 47: 0.6671576, 48: -0.2667155, 49: -0.9229596, 63: 1.0311167}
	eachISA(t, func(t *testing.T) {
		for i := range x {
			x[i] = float32(i%64) / 64
		}
		RoPE2D(x[:], x[:], tab[0][:], tab[1][:], tab[2][:], tab[3][:])
		for i, w := range want {
			for _, h := range []int{0, 64} {
				if math.Abs(float64(x[h+i])-w) > 2e-7 {
					t.Errorf("element %d of head %d: got %g, want %g", i, h/64, x[h+i], w)
				}
			}
		}
	})
}

// TestNoAllocation holds every kernel to the promise of the package comment.
func TestNoAllocation(t *testing.T) {
	x, y, z := make([]float32, 77), make([]float32, 77), make([]float32, 77)
	h, u := make([]uint16, 77), make([]uint8, 77)
	for i := range x {
		x[i], y[i] = float32(i), 1
	}
	eachISA(t, func(t *testing.T) {
		n := testing.AllocsPerRun(10, func() {
			for _, f := range unaries {
				f.f(z, x)
			}
			Add(z, x, y)
			SoftmaxExp(z, x, 1)
			LayerNorm(z, x, y, y, 1e-6)
			RMSNorm(z, x, y, 1e-6)
			L2Normalize(z, x, 0)
			Lerp4(z, x, y, x, y, .1, .2)
			F16FromF32(h, x)
			F32FromF16(z, h)
			BF16FromF32(h, x)
			F32FromU8(z, u)
			_ = Dot(x, y)
		})
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestForce(t *testing.T) {
	if _, err := Force(ISA(99)); err == nil {
		t.Error("an unknown instruction set was accepted")
	}
}
