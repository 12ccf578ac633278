// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"math"
	"slices"
)

// Vec2 is a point of a picture, Vec3 a point in space.
type (
	Vec2 = [2]float64
	Vec3 = [3]float64
	// Mat3 is a row-major 3x3 matrix.
	Mat3 = [3][3]float64
)

// Identity is the unit matrix.
var Identity = Mat3{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}

// Mul is the matrix product.
func Mul(a, b Mat3) (c Mat3) {
	for i := range 3 {
		for j := range 3 {
			c[i][j] = a[i][0]*b[0][j] + a[i][1]*b[1][j] + a[i][2]*b[2][j]
		}
	}
	return c
}

// MulVec is the matrix times a column.
func MulVec(a Mat3, v Vec3) Vec3 {
	return Vec3{dot(a[0], v), dot(a[1], v), dot(a[2], v)}
}

// Transpose of a rotation is its inverse.
func Transpose(a Mat3) (t Mat3) {
	for i := range 3 {
		for j := range 3 {
			t[i][j] = a[j][i]
		}
	}
	return t
}

// Det is the determinant.
func Det(a Mat3) float64 { return dot(a[0], cross(a[1], a[2])) }

// Inverse by cofactors; ok is false for a matrix that is singular to working
// precision.
func Inverse(a Mat3) (inv Mat3, ok bool) {
	det := Det(a)
	// Hadamard: |det| is at most the product of the rows' lengths, so that this
	// test does not depend on the units of the matrix.
	size := norm(a[0]) * norm(a[1]) * norm(a[2])
	if !(math.Abs(det) > 1e-14*size) || math.IsInf(size, 0) {
		return Mat3{}, false
	}
	c0, c1, c2 := cross(a[1], a[2]), cross(a[2], a[0]), cross(a[0], a[1])
	for i := range 3 {
		inv[i] = Vec3{c0[i] / det, c1[i] / det, c2[i] / det}
	}
	return inv, true
}

func dot(a, b Vec3) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }
func norm(a Vec3) float64   { return math.Sqrt(dot(a, a)) }
func add(a, b Vec3) Vec3    { return Vec3{a[0] + b[0], a[1] + b[1], a[2] + b[2]} }
func sub(a, b Vec3) Vec3    { return Vec3{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }
func scale(a Vec3, s float64) Vec3 {
	return Vec3{a[0] * s, a[1] * s, a[2] * s}
}
func cross(a, b Vec3) Vec3 {
	return Vec3{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

// finite is false when any number is NaN or infinite.
func finite(v ...float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
}

// rotation is Rodrigues' formula: the turn by |w| about w.
func rotation(w Vec3) Mat3 {
	angle := norm(w)
	if angle < 1e-12 { // the first two terms of the series; the axis is undefined at 0
		return Mat3{{1, -w[2], w[1]}, {w[2], 1, -w[0]}, {-w[1], w[0], 1}}
	}
	k := scale(w, 1/angle)
	s, c := math.Sincos(angle)
	v := 1 - c
	return Mat3{
		{c + k[0]*k[0]*v, k[0]*k[1]*v - k[2]*s, k[0]*k[2]*v + k[1]*s},
		{k[1]*k[0]*v + k[2]*s, c + k[1]*k[1]*v, k[1]*k[2]*v - k[0]*s},
		{k[2]*k[0]*v - k[1]*s, k[2]*k[1]*v + k[0]*s, c + k[2]*k[2]*v},
	}
}

// eigen finds the eigenvalues, ascending, and eigenvectors (rows of vec) of a
// symmetric n x n matrix by Jacobi's rotations: slow, and accurate to the last
// bits for the sizes here (4 and 9). It overwrites a.
func eigen(a [][]float64) (val []float64, vec [][]float64) {
	n := len(a)
	v := make([][]float64, n)
	for i := range v {
		v[i] = make([]float64, n)
		v[i][i] = 1
	}
	// Convergence is quadratic, about eight sweeps; the bound is for NaN.
	for range 60 {
		off := 0.0
		diag := 0.0
		for i := range n {
			diag += a[i][i] * a[i][i]
			for j := range i {
				off += a[i][j] * a[i][j]
			}
		}
		if !(off > 1e-32*diag) {
			break
		}
		for p := range n {
			for q := p + 1; q < n; q++ {
				rotate(a, v, p, q)
			}
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case a[i][i] < a[j][j]:
			return -1
		case a[i][i] > a[j][j]:
			return 1
		}
		return 0
	})
	for _, i := range order {
		val = append(val, a[i][i])
		vec = append(vec, v[i])
	}
	return val, vec
}

// rotate makes a[p][q] zero with a plane rotation applied from both sides; the
// rows of v collect the rotations. Of the two angles that would do, the smaller
// one is taken, which is what makes the iteration converge (Golub and Van Loan,
// Matrix Computations, section 8.5).
func rotate(a, v [][]float64, p, q int) {
	if a[p][q] == 0 {
		return
	}
	theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
	t := math.Copysign(1, theta) / (math.Abs(theta) + math.Hypot(theta, 1))
	c := 1 / math.Hypot(t, 1)
	s := t * c
	for k := range a {
		x, y := a[k][p], a[k][q]
		a[k][p], a[k][q] = c*x-s*y, s*x+c*y
	}
	for k := range a {
		x, y := a[p][k], a[q][k]
		a[p][k], a[q][k] = c*x-s*y, s*x+c*y
		x, y = v[p][k], v[q][k]
		v[p][k], v[q][k] = c*x-s*y, s*x+c*y
	}
}

// solve6 solves the normal equations of a six-parameter fit by Cholesky; ok is
// false when they are not positive definite, that is, when the data leave a
// parameter undetermined.
func solve6(a [6][6]float64, b [6]float64) (x [6]float64, ok bool) {
	trace := 0.0
	for i := range 6 {
		trace += a[i][i]
	}
	for i := range 6 {
		for j := 0; j <= i; j++ {
			s := a[i][j]
			for k := range j {
				s -= a[i][k] * a[j][k]
			}
			if i != j {
				a[i][j] = s / a[j][j]
				continue
			}
			if !(s > 1e-14*trace) {
				return x, false
			}
			a[i][i] = math.Sqrt(s)
		}
	}
	for i := range 6 {
		s := b[i]
		for k := range i {
			s -= a[i][k] * x[k]
		}
		x[i] = s / a[i][i]
	}
	for i := 5; i >= 0; i-- {
		s := x[i]
		for k := i + 1; k < 6; k++ {
			s -= a[k][i] * x[k]
		}
		x[i] = s / a[i][i]
	}
	return x, true
}
