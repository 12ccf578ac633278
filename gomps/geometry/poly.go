// SPDX-License-Identifier: Apache-2.0

package geometry

import "math"

// Polynomials in x, y and z, as the five-point problem needs them: linear ones
// have 4 coefficients (x, y, z, 1), quadratic ones 10, cubic ones 20. The order of
// the cubic monomials is that of Nister's elimination: the first ten are solved
// for, and the last ten are x and y times powers of z up to the second, and
// powers of z up to the third.
type (
	poly1 [4]float64
	poly2 [10]float64
	poly3 [20]float64
)

type exponents [3]int

var (
	linearTerms = [4]exponents{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 0}}
	cubicTerms  = [20]exponents{
		{3, 0, 0}, {0, 3, 0}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}, {2, 0, 0}, {0, 2, 1}, {0, 2, 0}, {1, 1, 1}, {1, 1, 0},
		{1, 0, 2}, {1, 0, 1}, {1, 0, 0}, {0, 1, 2}, {0, 1, 1}, {0, 1, 0}, {0, 0, 3}, {0, 0, 2}, {0, 0, 1}, {0, 0, 0},
	}
	quadraticTerms = [10]exponents{
		{2, 0, 0}, {1, 1, 0}, {1, 0, 1}, {1, 0, 0}, {0, 2, 0}, {0, 1, 1}, {0, 1, 0}, {0, 0, 2}, {0, 0, 1}, {0, 0, 0},
	}
	times11 = products(linearTerms[:], linearTerms[:], quadraticTerms[:])
	times21 = products(quadraticTerms[:], linearTerms[:], cubicTerms[:])
)

// products says where the product of two monomials goes.
func products(a, b, c []exponents) [][]int {
	table := make([][]int, len(a))
	for i, p := range a {
		table[i] = make([]int, len(b))
		for j, q := range b {
			for k, r := range c {
				if r == (exponents{p[0] + q[0], p[1] + q[1], p[2] + q[2]}) {
					table[i][j] = k
				}
			}
		}
	}
	return table
}

// add11 adds s a b to q.
func (q *poly2) add11(s float64, a, b *poly1) {
	for i, x := range a {
		row := times11[i]
		for j, y := range b {
			q[row[j]] += s * x * y
		}
	}
}

// add21 adds s a b to c.
func (c *poly3) add21(s float64, a *poly2, b *poly1) {
	for i, x := range a {
		row := times21[i]
		x *= s
		for j, y := range b {
			c[row[j]] += x * y
		}
	}
}

// sturdyRoots finds the real roots of c[0] + c[1] x + ... + c[n] x^n in ascending
// order. Between two neighbouring roots of the derivative a polynomial is
// monotonic, so each root is alone in a bracket, and bisection with Newton's steps
// finds it; the derivative's roots come the same way.
func sturdyRoots(c []float64) []float64 {
	n := len(c) - 1
	for n > 0 && c[n] == 0 {
		n--
	}
	if n == 0 || !finite(c[:n+1]...) {
		return nil
	}
	// Fujiwara's bound on the size of a root, which is less than 2 n times the
	// greatest: from a far larger one Newton's steps would creep.
	bound := 0.0
	for k := 1; k <= n; k++ {
		bound = max(bound, math.Pow(math.Abs(c[n-k]/c[n]), 1/float64(k)))
	}
	bound = 2*bound + 1e-300
	if math.IsInf(bound, 0) {
		return nil
	}
	// derivatives[k] is the (n-k)-th derivative, of degree k.
	work := append([]float64(nil), c[:n+1]...)
	levels := make([][]float64, n+1)
	for k := n; k >= 1; k-- {
		levels[k] = work
		next := make([]float64, k)
		for i := range next {
			next[i] = float64(i+1) * work[i+1]
		}
		work = next
	}
	var roots []float64
	for k := 1; k <= n; k++ {
		cuts := append(append([]float64{-bound}, roots...), bound)
		found := make([]float64, 0, k)
		for i := range len(cuts) - 1 {
			if x, ok := rootBetween(levels[k], cuts[i], cuts[i+1]); ok {
				found = append(found, x)
			}
		}
		roots = found
	}
	return roots
}

// rootBetween finds the root of a polynomial that is monotonic from lo to hi.
func rootBetween(c []float64, lo, hi float64) (float64, bool) {
	a, _ := horner(c, lo)
	b, _ := horner(c, hi)
	switch {
	case a == 0:
		return lo, true
	case b == 0:
		return 0, false // the next bracket begins with it
	case (a > 0) == (b > 0):
		return 0, false
	}
	x := (lo + hi) / 2
	for range 100 {
		v, slope := horner(c, x)
		if v == 0 {
			return x, true
		}
		if (v > 0) == (a > 0) {
			lo = x
		} else {
			hi = x
		}
		next := x - v/slope
		if !(next > lo && next < hi) {
			next = (lo + hi) / 2
		}
		if math.Abs(next-x) <= 1e-15*(1+math.Abs(x)) {
			return next, true
		}
		x = next
	}
	return x, true
}

// horner is the value and the slope of a polynomial.
func horner(c []float64, x float64) (value, slope float64) {
	for i := len(c) - 1; i >= 0; i-- {
		slope = slope*x + value
		value = value*x + c[i]
	}
	return value, slope
}
