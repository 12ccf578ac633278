// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"context"
	"fmt"
	"math"
)

// Fundamental finds the 3x3 matrix F with (b, 1)' F (a, 1) = 0 for matching
// pixels a of picture 1 and b of picture 2: the epipolar geometry of two cameras
// whose intrinsics are unknown. tolerance is the largest distance from it, in
// pixels (the first-order geometric error of Sampson), that counts as agreement
// (0 means 1.5). F has length 1; it is nil, with a reason, when too few agree.
func Fundamental(a, b []Vec2, tolerance float64) (f *Mat3, inliers []int, reason string, err error) {
	return fundamental(a, b, tolerance, 0)
}

// fundamental is Fundamental where it does not matter which F is found if the share least
// of the matches agrees with none.
func fundamental(a, b []Vec2, tolerance, least float64) (f *Mat3, inliers []int, reason string, err error) {
	if len(a) != len(b) {
		return nil, nil, "", fmt.Errorf("geometry: %d and %d points, want pairs", len(a), len(b))
	}
	if tolerance == 0 {
		tolerance = 1.5
	}
	if !(tolerance > 0) {
		return nil, nil, "", fmt.Errorf("geometry: tolerance %g pixels, want above 0", tolerance)
	}
	x, y, index := usable(a, b)
	if len(x) < minInliers {
		return nil, nil, TooFewMatches, nil
	}
	// Pixels brought to about 1, or the squares of large ones drown the rest.
	all := make([]int, len(x))
	for i := range all {
		all[i] = i
	}
	n1, ok1 := normaliser(x, all)
	n2, ok2 := normaliser(y, all)
	if !ok1 || !ok2 {
		return nil, nil, Degenerate, nil
	}
	u, v := make([]Vec3, len(x)), make([]Vec3, len(y))
	for i := range x {
		u[i], v[i] = MulVec(n1, Vec3{x[i][0], x[i][1], 1}), MulVec(n2, Vec3{y[i][0], y[i][1], 1})
	}
	back := Transpose(n2)
	limit := tolerance * tolerance
	cost := func(m Mat3, i int) float64 { return sampson(m, x[i], y[i]) }
	best, in := ransac(context.Background(), len(x), 7, limit, least, func(pick []int) []Mat3 {
		var out []Mat3
		for _, m := range sevenPoint(u, v, pick) {
			out = append(out, Mul(back, Mul(m, n1)))
		}
		return out
	}, cost)
	if in == nil {
		return nil, nil, Degenerate, nil
	}
	for range 3 {
		m, ok := eightPoint(u, v, in)
		if !ok {
			break
		}
		m = Mul(back, Mul(m, n1))
		if next := agreeing(len(x), limit, func(i int) float64 { return cost(m, i) }); len(next) >= len(in) {
			best, in = m, next
		}
	}
	if len(in) < minInliers {
		return nil, nil, NoConsensus, nil
	}
	for i, j := range in {
		in[i] = index[j]
	}
	size := math.Sqrt(dot(best[0], best[0]) + dot(best[1], best[1]) + dot(best[2], best[2]))
	for i := range 3 {
		best[i] = scale(best[i], 1/size)
	}
	return &best, in, "", nil
}

// usable are the pairs of finite points, and their numbers.
func usable(a, b []Vec2) (x, y []Vec2, index []int) {
	index = []int{}
	for i := range a {
		if finite(a[i][0], a[i][1], b[i][0], b[i][1]) {
			x, y, index = append(x, a[i]), append(y, b[i]), append(index, i)
		}
	}
	return x, y, index
}

// sampson is the squared distance of a match from the epipolar geometry, to first
// order, in pixels of both pictures together.
func sampson(f Mat3, a, b Vec2) float64 {
	l2x := f[0][0]*a[0] + f[0][1]*a[1] + f[0][2]
	l2y := f[1][0]*a[0] + f[1][1]*a[1] + f[1][2]
	l1x := f[0][0]*b[0] + f[1][0]*b[1] + f[2][0]
	l1y := f[0][1]*b[0] + f[1][1]*b[1] + f[2][1]
	e := b[0]*l2x + b[1]*l2y + (f[2][0]*a[0] + f[2][1]*a[1] + f[2][2])
	return e * e / (l2x*l2x + l2y*l2y + l1x*l1x + l1y*l1y)
}

// sevenPoint finds the matrices of rank 2 that seven pairs agree with: of the line
// of matrices F = x X + Y that they leave, those with det F = 0.
func sevenPoint(u, v []Vec3, pick []int) []Mat3 {
	rows := make([][9]float64, len(pick))
	for k, i := range pick {
		for r := range 3 {
			for c := range 3 {
				rows[k][3*r+c] = v[i][r] * u[i][c]
			}
		}
	}
	basis, ok := nullSpace(rows)
	if !ok {
		return nil
	}
	at := func(x float64) (m Mat3) {
		for r := range 3 {
			for c := range 3 {
				m[r][c] = x*basis[0][3*r+c] + basis[1][3*r+c]
			}
		}
		return m
	}
	// The cubic through its values at four places.
	d := [4]float64{Det(at(0)), Det(at(1)), Det(at(-1)), Det(at(2))}
	c2 := (d[1]+d[2])/2 - d[0]
	c3 := (d[3] - d[0] - 4*c2 - (d[1] - d[2])) / 6
	c1 := (d[1]-d[2])/2 - c3
	var out []Mat3
	for _, x := range sturdyRoots([]float64{d[0], c1, c2, c3}) {
		out = append(out, at(x))
	}
	return out
}

// eightPoint is the least-squares matrix of eight or more pairs. It need not have
// rank 2 exactly; on many pairs it nearly has.
func eightPoint(u, v []Vec3, in []int) (Mat3, bool) {
	if len(in) < 8 {
		return Mat3{}, false
	}
	a := make([][]float64, 9)
	for i := range a {
		a[i] = make([]float64, 9)
	}
	var row [9]float64
	for _, i := range in {
		for r := range 3 {
			for c := range 3 {
				row[3*r+c] = v[i][r] * u[i][c]
			}
		}
		for r, x := range row {
			for c := range r + 1 {
				a[r][c] += x * row[c]
			}
		}
	}
	for r := range 9 {
		for c := range r {
			a[c][r] = a[r][c]
		}
	}
	val, vec := eigen(a)
	if !(val[1] > 1e-12*val[8]) {
		return Mat3{}, false
	}
	var m Mat3
	for i, x := range vec[0] {
		m[i/3][i%3] = x
	}
	return m, true
}
