// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Pose is a rigid motion from camera 2 to camera 1: X1 = R X2 + T.
type Pose struct {
	R Mat3
	T Vec3
}

// Apply is R x + T.
func (p Pose) Apply(x Vec3) Vec3 { return add(MulVec(p.R, x), p.T) }

// Inverse is the motion from camera 1 to camera 2.
func (p Pose) Inverse() Pose {
	rt := Transpose(p.R)
	return Pose{rt, scale(MulVec(rt, p.T), -1)}
}

// Matrix is the 4x4 matrix of the motion, row-major.
func (p Pose) Matrix() (m [16]float64) {
	for i := range 3 {
		copy(m[4*i:], p.R[i][:])
		m[4*i+3] = p.T[i]
	}
	m[15] = 1
	return m
}

// Estimate is a pose with its evidence.
type Estimate struct {
	Pose    *Pose   // nil when there is none
	Scale   float64 // of camera 2's units in camera 1's; 1 unless asked for
	Inliers []int   // the data that agree with the pose
	RMS     float64 // root mean square residual of the inliers
	Reason  string  // why Pose is nil
}

// The reasons for having no pose.
const (
	TooFewMatches = "too few matches"
	NoConsensus   = "too few matches agree on one pose"
	Degenerate    = "the points do not determine a pose"
	TwoPoses      = "the matches lie on a plane, and two poses explain them equally well"
)

// minInliers is how many data must agree on a pose: a few more than chance
// makes agree among thousands of wrong matches.
const minInliers = 12

// Rigid finds the motion between two views of the same points, given in each
// camera's own frame: x1[i] = s R x2[i] + T. The scale s is 1 unless withScale.
// tolerance is the largest distance between the two that counts as agreement,
// relative to the point's distance from the camera (0 means 0.05), as depth
// noise grows with depth.
func Rigid(x1, x2 []Vec3, withScale bool, tolerance float64) (Estimate, error) {
	if len(x1) != len(x2) {
		return Estimate{}, fmt.Errorf("geometry: %d and %d points, want pairs", len(x1), len(x2))
	}
	if tolerance == 0 {
		tolerance = 0.05
	}
	if !(tolerance > 0) {
		return Estimate{}, fmt.Errorf("geometry: tolerance %g, want above 0", tolerance)
	}
	// A point at the camera itself has no distance to be relative to.
	keep := []int{}
	for i := range x1 {
		if finite(x1[i][:]...) && finite(x2[i][:]...) && norm(x1[i]) > 0 {
			keep = append(keep, i)
		}
	}
	if len(keep) < minInliers {
		return Estimate{Reason: TooFewMatches}, nil
	}
	cost := func(m similarity, k int) float64 {
		i := keep[k]
		d := sub(x1[i], m.apply(x2[i]))
		return dot(d, d) / dot(x1[i], x1[i])
	}
	limit := tolerance * tolerance
	best, in := ransac(context.Background(), len(keep), 3, limit, 0, func(pick []int) []similarity {
		m, ok := align3(choose(x1, keep, pick), choose(x2, keep, pick), withScale)
		if !ok {
			return nil
		}
		return []similarity{m}
	}, cost)
	if in == nil {
		return Estimate{Reason: Degenerate}, nil
	}
	for range 3 { // polish on all that agree, which may make more agree
		m, ok := horn(choose(x1, keep, in), choose(x2, keep, in), nil, withScale)
		if !ok {
			break
		}
		best = m
		in = agreeing(len(keep), limit, func(k int) float64 { return cost(m, k) })
	}
	if len(in) < minInliers {
		return Estimate{Reason: NoConsensus}, nil
	}
	sum := 0.0
	for k, i := range in {
		d := sub(x1[keep[i]], best.apply(x2[keep[i]]))
		sum += dot(d, d)
		in[k] = keep[i]
	}
	return Estimate{Pose: &Pose{best.r, best.t}, Scale: best.s, Inliers: in, RMS: math.Sqrt(sum / float64(len(in)))}, nil
}

// similarity is x -> s R x + t. The scale is kept out of Pose, whose R is a
// rotation for every reader.
type similarity struct {
	r Mat3
	t Vec3
	s float64
}

func (m similarity) apply(x Vec3) Vec3 { return add(scale(MulVec(m.r, x), m.s), m.t) }

// choose picks x[keep[pick[i]]].
func choose(x []Vec3, keep, pick []int) []Vec3 {
	out := make([]Vec3, len(pick))
	for i, p := range pick {
		out[i] = x[keep[p]]
	}
	return out
}

// frame is an orthonormal basis (as rows) fixed to a triangle; ok is false for
// three points on a line.
func frame(p []Vec3) (f Mat3, ok bool) {
	a, b := sub(p[1], p[0]), sub(p[2], p[0])
	n := cross(a, b)
	if !(norm(n) > 1e-9*norm(a)*norm(b)) {
		return f, false
	}
	f[0] = scale(a, 1/norm(a))
	f[2] = scale(n, 1/norm(n))
	f[1] = cross(f[2], f[0])
	return f, true
}

// align3 is the motion that lays one triangle on another.
func align3(x1, x2 []Vec3, withScale bool) (similarity, bool) {
	f1, ok1 := frame(x1)
	f2, ok2 := frame(x2)
	if !ok1 || !ok2 {
		return similarity{}, false
	}
	// f2 takes frame 2's axes to the unit axes, f1's transpose takes those to
	// frame 1's.
	m := similarity{r: Mul(Transpose(f1), f2), s: 1}
	if withScale {
		m.s = perimeter(x1) / perimeter(x2)
	}
	m.t = sub(x1[0], scale(MulVec(m.r, x2[0]), m.s))
	return m, true
}

func perimeter(p []Vec3) float64 {
	return norm(sub(p[1], p[0])) + norm(sub(p[2], p[1])) + norm(sub(p[0], p[2]))
}

// horn is the least-squares motion in closed form (B.K.P. Horn 1987): the unit
// quaternion of R is the eigenvector of the largest eigenvalue of a 4x4 matrix
// of the points' correlations. Being a quaternion it is never a reflection. w are the weights
// of the pairs, nil for all the same.
func horn(x1, x2 []Vec3, w []float64, withScale bool) (similarity, bool) {
	c1, c2 := mean(x1, w), mean(x2, w)
	var s Mat3 // s[i][j] = sum of x2's coordinate i times x1's j, both centred
	var n1, n2 float64
	for k := range x1 {
		a, b := sub(x1[k], c1), sub(x2[k], c2)
		f := 1.0
		if w != nil {
			f = w[k]
		}
		n1 += f * dot(a, a)
		n2 += f * dot(b, b)
		for i := range 3 {
			for j := range 3 {
				s[i][j] += f * b[i] * a[j]
			}
		}
	}
	n := [][]float64{
		{s[0][0] + s[1][1] + s[2][2], s[1][2] - s[2][1], s[2][0] - s[0][2], s[0][1] - s[1][0]},
		{s[1][2] - s[2][1], s[0][0] - s[1][1] - s[2][2], s[0][1] + s[1][0], s[2][0] + s[0][2]},
		{s[2][0] - s[0][2], s[0][1] + s[1][0], s[1][1] - s[0][0] - s[2][2], s[1][2] + s[2][1]},
		{s[0][1] - s[1][0], s[2][0] + s[0][2], s[1][2] + s[2][1], s[2][2] - s[0][0] - s[1][1]},
	}
	val, vec := eigen(n)
	// Two equal largest eigenvalues: points on a line, free to turn about it.
	if !(val[3]-val[2] > 1e-9*math.Sqrt(n1*n2)) {
		return similarity{}, false
	}
	m := similarity{r: fromQuaternion(vec[3]), s: 1}
	if withScale {
		m.s = math.Sqrt(n1 / n2) // symmetric in the two point sets
	}
	m.t = sub(c1, scale(MulVec(m.r, c2), m.s))
	return m, true
}

// mean of points with weights w, nil for all the same.
func mean(p []Vec3, w []float64) (c Vec3) {
	if w == nil {
		for _, x := range p {
			c = add(c, x)
		}
		return scale(c, 1/float64(len(p)))
	}
	sum := 0.0
	for i, x := range p {
		c = add(c, scale(x, w[i]))
		sum += w[i]
	}
	return scale(c, 1/sum)
}

// median of numbers, which it leaves as they are; the upper one of an even count.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// Similarity finds x1[i] = s R x2[i] + T for pairs of which most are good, as the
// points of one picture in two reconstructions are: least squares, the pairs weighted
// by weight (nil for all the same) and by their residual over the distance of x1[i]
// from origin, which is where its camera stands. RMS is of those quotients, over the
// Inliers, which are the pairs within 2.5 times the median quotient.
func Similarity(x1, x2 []Vec3, weight []float64, origin []Vec3) (Estimate, error) {
	if len(x1) != len(x2) || len(x1) != len(origin) || weight != nil && len(weight) != len(x1) {
		return Estimate{}, fmt.Errorf("geometry: %d and %d points, %d origins, %d weights, want as many of each", len(x1), len(x2), len(origin), len(weight))
	}
	if len(x1) < minInliers {
		return Estimate{Reason: TooFewMatches}, nil
	}
	far, w := make([]float64, len(x1)), make([]float64, len(x1))
	for i := range x1 {
		far[i] = norm(sub(x1[i], origin[i]))
		base := 1.0
		if weight != nil {
			base = weight[i]
		}
		if !finite(x1[i][:]...) || !finite(x2[i][:]...) || !(far[i] > 0) || !(base >= 0) || !finite(base) {
			return Estimate{}, fmt.Errorf("geometry: pair %d: %v and %v from %v, weight %v: want finite points away from their camera", i, x1[i], x2[i], origin[i], base)
		}
		w[i] = base / (far[i] * far[i])
	}
	const rounds = 12
	base := slices.Clone(w)
	rel := make([]float64, len(x1))
	var m similarity
	for range rounds {
		var ok bool
		if m, ok = horn(x1, x2, w, true); !ok {
			return Estimate{Reason: Degenerate}, nil
		}
		for i := range x1 {
			rel[i] = norm(sub(x1[i], m.apply(x2[i]))) / far[i]
		}
		// Cauchy's weights: a pair far beyond the usual residual counts little.
		usual := max(median(rel), 1e-12)
		for i, r := range rel {
			w[i] = base[i] / (1 + (r/usual)*(r/usual))
		}
	}
	e := Estimate{Pose: &Pose{m.r, m.t}, Scale: m.s}
	limit := 2.5 * max(median(rel), 1e-12)
	sum := 0.0
	for i, r := range rel {
		if r <= limit {
			e.Inliers = append(e.Inliers, i)
			sum += r * r
		}
	}
	e.RMS = math.Sqrt(sum / float64(len(e.Inliers)))
	return e, nil
}

func fromQuaternion(q []float64) Mat3 {
	w, x, y, z := q[0], q[1], q[2], q[3]
	return Mat3{
		{1 - 2*(y*y+z*z), 2 * (x*y - w*z), 2 * (x*z + w*y)},
		{2 * (x*y + w*z), 1 - 2*(x*x+z*z), 2 * (y*z - w*x)},
		{2 * (x*z - w*y), 2 * (y*z + w*x), 1 - 2*(x*x+y*y)},
	}
}
