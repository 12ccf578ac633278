// SPDX-License-Identifier: Apache-2.0

package geometry

import "math"

// Two motions explain the matches of a plane equally well (Longuet-Higgins, The
// reconstruction of a plane surface from two perspective projections, 1986). As a rule one
// of them puts a part of the plane behind a camera, or matches off the plane tell.

// twinApart is how many standard deviations two motions must differ to be two.
const twinApart = 5

// settle replaces what was fitted by its twin where that explains the matches better. false:
// nothing tells which of the two it is.
func (p *epipolar) settle(fit fitted, in []int) (fitted, []int, bool) {
	start, ok := p.twin(fit.state)
	if !ok {
		return fit, in, true
	}
	q, back := *p, start.pose.Inverse()
	q.o.Start = &back // it is not searched for again
	other, in2, reason := q.fitted(start)
	if reason != "" || !apart(fit, other) {
		return fit, in, true
	}
	better, told := p.compare(fit.state, other.state)
	if better {
		return other, in2, told
	}
	return fit, in, told
}

// compare says whether the second motion explains the matches better, and whether the
// evidence is enough: three standard deviations.
func (p *epipolar) compare(one, two state) (second, told bool) {
	near1, near2 := p.near(one), p.near(two)
	// A match that fits, behind a camera, is a wrong one, as many as chance makes, or a
	// wrong motion's.
	behind1 := float64(len(near1) - len(p.agreeing(one)))
	behind2 := float64(len(near2) - len(p.agreeing(two)))
	if math.Abs(behind1-behind2) > 3*math.Sqrt(behind1+behind2) {
		return behind2 < behind1, true
	}
	// Each motion sees one coordinate of a match's noise, and on a plane each another one:
	// the difference of two sums of n squares has a variance of 4 n, in variances of a match.
	// Wrong matches near one of the two count little.
	n := float64(max(len(near1), len(near2)))
	variance := max(min(p.square(one, near1), p.square(two, near2))/n, 1e-6)
	gain := p.capped(one, 9*variance) - p.capped(two, 9*variance)
	return gain > 0, math.Abs(gain) > 3*math.Sqrt(4*n*p.o.Dependence)*variance
}

// twin is the other motion of the plane nearest to the points that the matches see.
func (p *epipolar) twin(s state) (state, bool) {
	a, b := p.rays(s)
	in := p.near(s)
	n, ok := planeOf(s.pose, a, b, in)
	if !ok {
		return s, false
	}
	// The plane's homography is R (1 + u n'). Along w = u x n it changes nothing; in the
	// plane of u and n, det(1 + u n' - turn) = 0 has two solutions: none, and this turn.
	u := MulVec(Transpose(s.pose.R), s.pose.T)
	w := cross(u, n)
	size := norm(w)
	if !(size > 1e-9) {
		return s, false
	}
	turn := rotation(scale(w, -2*math.Atan2(size, 2+dot(u, n))/size))
	// What is left of the homography, 1 + u n' - turn, is the new u n'.
	var rest Mat3
	for r := range 3 {
		for c := range 3 {
			rest[r][c] = u[r]*n[c] - turn[r][c]
		}
		rest[r][r]++
	}
	columns := Transpose(rest)
	t := columns[0]
	for _, c := range columns[1:] {
		if norm(c) > norm(t) {
			t = c
		}
	}
	if size = norm(t); !(size > 0) {
		return s, false
	}
	t = scale(t, 1/size)
	normal := MulVec(columns, t)
	front := 0
	for _, i := range in {
		if dot(normal, a[i]) > 0 {
			front++
		}
	}
	if 2*front < len(in) {
		t = scale(t, -1)
	}
	s.pose = Pose{R: Mul(s.pose.R, turn), T: MulVec(s.pose.R, t)}
	return s, true
}

// planeOf fits n x = 1 to the points that matches see, in units of each point's distance,
// which is below 0 behind a camera. What lies far off the plane is left out.
func planeOf(m Pose, a, b []Vec3, in []int) (n Vec3, ok bool) {
	inverse := make([]float64, 0, len(in)) // of the distances
	kept := make([]int, 0, len(in))
	for _, i := range in {
		if s1, _ := depths(m, a[i], b[i]); s1 != 0 && finite(s1) {
			kept, inverse = append(kept, i), append(inverse, 1/s1)
		}
	}
	limit := math.Inf(1)
	for range 6 {
		var sum Mat3
		var right Vec3
		for k, i := range kept {
			if math.Abs(dot(n, a[i])-inverse[k]) > limit {
				continue
			}
			for r := range 3 {
				right[r] += a[i][r] * inverse[k]
				for c := range 3 {
					sum[r][c] += a[i][r] * a[i][c]
				}
			}
		}
		inv, ok := Inverse(sum)
		if !ok {
			return n, false
		}
		n = MulVec(inv, right)
		off := make([]float64, len(kept))
		for k, i := range kept {
			off[k] = dot(n, a[i]) - inverse[k]
		}
		limit = 3 * medianSize(off)
	}
	return n, true
}

// apart says whether two motions differ by more than their uncertainty.
func apart(one, two fitted) bool {
	d := Mul(two.state.pose.R, Transpose(one.state.pose.R))
	w := Vec3{d[2][1] - d[1][2], d[0][2] - d[2][0], d[1][0] - d[0][1]}
	turn := math.Atan2(norm(w), d[0][0]+d[1][1]+d[2][2]-1)
	c := &one.covariance
	return turn > twinApart*math.Sqrt(c[0][0]+c[1][1]+c[2][2])
}
