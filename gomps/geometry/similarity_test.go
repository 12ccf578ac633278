// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSimilarity: a known motion and scale come back from points of two cameras, some
// pairs of which are wrong and some of no weight.
func TestSimilarity(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	want := similarity{r: fromQuaternion([]float64{0.9, 0.1, -0.3, math.Sqrt(1 - 0.81 - 0.01 - 0.09)}), t: Vec3{3, -1, 2}, s: 2.5}
	var x1, x2, origin []Vec3
	var weight []float64
	for i := range 600 {
		p := Vec3{rng.Float64()*4 - 2, rng.Float64()*4 - 2, 2 + 6*rng.Float64()}
		q := want.apply(p)
		w := 1.0
		switch {
		case i%5 == 0: // wrong
			q = add(q, Vec3{5 * rng.Float64(), 3, -4 * rng.Float64()})
		case i%7 == 0: // no weight, so however wrong
			q, w = add(q, Vec3{100, 100, 100}), 0
		default:
			for k := range q {
				q[k] += 1e-4 * rng.NormFloat64()
			}
		}
		x1, x2, weight = append(x1, q), append(x2, p), append(weight, w)
		origin = append(origin, want.t)
	}
	e, err := Similarity(x1, x2, weight, origin)
	if err != nil || e.Pose == nil {
		t.Fatal(err, e.Reason)
	}
	if math.Abs(e.Scale-want.s) > 1e-4 || norm(sub(e.Pose.T, want.t)) > 2e-3 || e.RMS > 1e-3 {
		t.Errorf("scale %v, translation %v, residual %v; want %v, %v and little", e.Scale, e.Pose.T, e.RMS, want.s, want.t)
	}
	line := make([]Vec3, 20)
	zero := make([]Vec3, 20)
	for i := range line {
		line[i] = Vec3{0, 0, float64(i + 1)}
	}
	if e, err := Similarity(line, line, nil, zero); err != nil || e.Pose != nil || e.Reason != Degenerate {
		t.Errorf("points on a line: %+v, %v", e, err)
	}
	if e, err := Similarity(line[:3], line[:3], nil, zero[:3]); err != nil || e.Reason != TooFewMatches {
		t.Errorf("three points: %+v, %v", e, err)
	}
	for what, f := range map[string]func() (Estimate, error){
		"lengths":      func() (Estimate, error) { return Similarity(line, line[:3], nil, zero) },
		"at a camera":  func() (Estimate, error) { return Similarity(line, line, nil, line) },
		"no number":    func() (Estimate, error) { return Similarity(append(line[:19:19], Vec3{math.NaN()}), line, nil, zero) },
		"minus weight": func() (Estimate, error) { return Similarity(line, line, append(make([]float64, 19), -1), zero) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}
