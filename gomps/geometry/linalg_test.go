// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestInverse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		var a Mat3
		for i := range 3 {
			for j := range 3 {
				a[i][j] = r.NormFloat64()
			}
		}
		inv, ok := Inverse(a)
		if !ok {
			t.Fatal("a random matrix has no inverse")
		}
		p := Mul(a, inv)
		for i := range 3 {
			for j := range 3 {
				if math.Abs(p[i][j]-Identity[i][j]) > 1e-9*math.Abs(1/Det(a)+1) {
					t.Errorf("A inv(A) = %v", p)
				}
			}
		}
	}
	for _, a := range []Mat3{{}, {{1, 2, 3}, {2, 4, 6}, {0, 0, 1}}, {{math.NaN()}}, {{math.Inf(1), 0, 0}, {0, 1, 0}, {0, 0, 1}}} {
		if _, ok := Inverse(a); ok {
			t.Errorf("%v has an inverse", a)
		}
	}
}

func TestEigen(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for _, n := range []int{1, 4, 9} {
		a, keep := make([][]float64, n), make([][]float64, n)
		for i := range n {
			a[i] = make([]float64, n)
			for j := range i + 1 {
				a[i][j] = r.NormFloat64()
				a[j][i] = a[i][j]
			}
		}
		for i := range n {
			keep[i] = slices.Clone(a[i])
		}
		val, vec := eigen(a)
		if !slices.IsSorted(val) {
			t.Errorf("eigenvalues %v are not ascending", val)
		}
		for k := range n {
			length := 0.0
			for i := range n {
				length += vec[k][i] * vec[k][i]
				s := 0.0
				for j := range n {
					s += keep[i][j] * vec[k][j]
				}
				if math.Abs(s-val[k]*vec[k][i]) > 1e-12 {
					t.Errorf("n %d: A v = %g, want %g", n, s, val[k]*vec[k][i])
				}
			}
			if math.Abs(length-1) > 1e-12 {
				t.Errorf("n %d: eigenvector of squared length %g", n, length)
			}
		}
	}
}

func TestSolve6(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	var rows [10][6]float64
	var a [6][6]float64
	var b, want [6]float64
	for i := range want {
		want[i] = r.NormFloat64()
	}
	for k := range rows {
		y := 0.0
		for i := range 6 {
			rows[k][i] = r.NormFloat64()
			y += rows[k][i] * want[i]
		}
		for i := range 6 {
			b[i] += rows[k][i] * y
			for j := range 6 {
				a[i][j] += rows[k][i] * rows[k][j]
			}
		}
	}
	x, ok := solve6(a, b)
	for i := range x {
		if !ok || math.Abs(x[i]-want[i]) > 1e-10 {
			t.Errorf("x[%d] = %g, want %g", i, x[i], want[i])
		}
	}
	if _, ok := solve6([6][6]float64{{1}}, b); ok {
		t.Error("a singular system was solved")
	}
}

func TestRotation(t *testing.T) {
	for _, w := range []Vec3{{}, {1e-14, 0, 0}, {0.1, -0.2, 0.3}, {0, 0, math.Pi}, {3, 1, -2}} {
		r := rotation(w)
		p := Mul(r, Transpose(r))
		if math.Abs(Det(r)-1) > 1e-12 || math.Abs(p[0][0]-1) > 1e-12 || math.Abs(p[0][1]) > 1e-12 {
			t.Errorf("rotation(%v) = %v is none", w, r)
		}
		if d := norm(sub(MulVec(r, w), w)); d > 1e-12 {
			t.Errorf("rotation(%v) moves its axis by %g", w, d)
		}
	}
	if r := rotation(Vec3{0, 0, math.Pi / 2}); math.Abs(r[1][0]-1) > 1e-12 {
		t.Errorf("a quarter turn about z takes x to %v, want y", MulVec(r, Vec3{1, 0, 0}))
	}
}

func TestRealRoots(t *testing.T) {
	// (x-1)(x+2)(x-3)(x-0.5)
	got := realRoots([5]float64{-3, 8.5, -4, -2.5, 1})
	slices.Sort(got)
	want := []float64{-2, 0.5, 1, 3}
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
		t.Errorf("roots %v, want %v", got, want)
	}
	// (x^2+1)(x-2)^2: a double root and a complex pair
	for _, x := range realRoots([5]float64{4, -4, 5, -4, 1}) {
		if math.Abs(x-2) > 1e-5 {
			t.Errorf("root %g, want 2", x)
		}
	}
	if got := realRoots([5]float64{1, 2, 3, 4, 0}); got != nil {
		t.Errorf("a cubic: %v", got)
	}
}

// TestP3P counts how often the true camera is among the answers.
func TestP3P(t *testing.T) {
	miss := 0
	for seed := range uint64(300) {
		s := newScene(3, seed)
		inv, _ := Inverse(s.k)
		rays := make([]Vec3, 3)
		for i := range rays {
			r := MulVec(inv, Vec3{s.uv2[i][0], s.uv2[i][1], 1})
			rays[i] = scale(r, 1/norm(r))
		}
		best := math.Inf(1)
		for _, p := range p3p(s.x1, rays) {
			best = min(best, maxDiff(p.Inverse(), s.truth))
		}
		if !(best < 1e-5) {
			miss++
		}
	}
	if miss > 6 { // near-degenerate triangles lose digits
		t.Errorf("%d of 300 triangles without the true camera", miss)
	}
}
