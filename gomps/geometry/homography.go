// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"context"
	"fmt"
	"math"
)

// Homography finds the 3x3 matrix, with last element 1, that maps points a to
// points b: exact for a flat scene or a camera that only turns. tolerance is
// the largest error in b's pixels that counts as agreement (0 means 3). The
// matrix is nil, with a reason, when too few points agree on one.
func Homography(a, b []Vec2, tolerance float64) (h *Mat3, inliers []int, reason string, err error) {
	if len(a) != len(b) {
		return nil, nil, "", fmt.Errorf("geometry: %d and %d points, want pairs", len(a), len(b))
	}
	if tolerance == 0 {
		tolerance = 3
	}
	if !(tolerance > 0) {
		return nil, nil, "", fmt.Errorf("geometry: tolerance %g pixels, want above 0", tolerance)
	}
	var x, y []Vec2
	index := []int{}
	for i := range a {
		if finite(a[i][0], a[i][1], b[i][0], b[i][1]) {
			x, y, index = append(x, a[i]), append(y, b[i]), append(index, i)
		}
	}
	if len(x) < minInliers {
		return nil, nil, TooFewMatches, nil
	}
	// A point that m sends to infinity costs Inf or NaN: an outlier either way.
	cost := func(m Mat3, i int) float64 {
		p := MulVec(m, Vec3{x[i][0], x[i][1], 1})
		dx, dy := p[0]/p[2]-y[i][0], p[1]/p[2]-y[i][1]
		return dx*dx + dy*dy
	}
	limit := tolerance * tolerance
	best, in := ransac(context.Background(), len(x), 4, limit, 0, func(pick []int) []Mat3 {
		if m, ok := dlt(x, y, pick); ok {
			return []Mat3{m}
		}
		return nil
	}, cost)
	if in == nil {
		return nil, nil, Degenerate, nil
	}
	for range 3 {
		m, ok := dlt(x, y, in)
		if !ok {
			break
		}
		best = m
		in = agreeing(len(x), limit, func(i int) float64 { return cost(m, i) })
	}
	if len(in) < minInliers {
		return nil, nil, NoConsensus, nil
	}
	for i, j := range in {
		in[i] = index[j]
	}
	return &best, in, "", nil
}

// dlt is the direct linear transform on the picked points: each pair gives two
// equations that are linear in the nine elements, and the answer is the
// direction that violates them least. Centring and scaling both point sets
// first (Hartley 1997) keeps the 9x9 matrix well conditioned.
func dlt(x, y []Vec2, pick []int) (Mat3, bool) {
	if len(pick) < 4 {
		return Mat3{}, false
	}
	tx, okX := normaliser(x, pick)
	ty, okY := normaliser(y, pick)
	if !okX || !okY {
		return Mat3{}, false
	}
	ata := make([][]float64, 9)
	for i := range ata {
		ata[i] = make([]float64, 9)
	}
	for _, i := range pick {
		p := MulVec(tx, Vec3{x[i][0], x[i][1], 1})
		q := MulVec(ty, Vec3{y[i][0], y[i][1], 1})
		for _, row := range [2][9]float64{
			{p[0], p[1], 1, 0, 0, 0, -q[0] * p[0], -q[0] * p[1], -q[0]},
			{0, 0, 0, p[0], p[1], 1, -q[1] * p[0], -q[1] * p[1], -q[1]},
		} {
			for r := range 9 {
				for c := range 9 {
					ata[r][c] += row[r] * row[c]
				}
			}
		}
	}
	// The squared singular values of the system: the first is 0 for exact data,
	// the second tells whether the answer is the only one.
	val, vec := eigen(ata)
	if !(val[1] > 1e-9*val[8]) { // two answers: three of the points are in line
		return Mat3{}, false
	}
	v := vec[0]
	h := Mat3{{v[0], v[1], v[2]}, {v[3], v[4], v[5]}, {v[6], v[7], v[8]}}
	// The answer is for normalised points: b = inv(ty) h tx a.
	back, ok := Inverse(ty)
	if !ok {
		return Mat3{}, false
	}
	h = Mul(Mul(back, h), tx)
	if _, ok := Inverse(h); !ok || h[2][2] == 0 {
		return Mat3{}, false
	}
	for i := range 3 {
		h[i] = scale(h[i], 1/h[2][2])
	}
	return h, finite(h[0][0], h[0][1], h[0][2], h[1][0], h[1][1], h[1][2], h[2][0], h[2][1])
}

// normaliser moves the centroid to the origin and the mean distance to sqrt 2.
func normaliser(x []Vec2, pick []int) (Mat3, bool) {
	var cx, cy, d float64
	n := float64(len(pick))
	for _, i := range pick {
		cx += x[i][0] / n
		cy += x[i][1] / n
	}
	for _, i := range pick {
		d += math.Hypot(x[i][0]-cx, x[i][1]-cy) / n
	}
	if !(d > 0) {
		return Mat3{}, false
	}
	s := math.Sqrt2 / d
	return Mat3{{s, 0, -s * cx}, {0, s, -s * cy}, {0, 0, 1}}, true
}
