// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// twoViews is a set-up with exact pixels in two cameras.
type twoViews struct {
	k1, k2 Mat3
	truth  Pose // camera 2 to camera 1, |t| = 1
	points []Vec3
	a, b   []Vec2
}

// views looks at a cloud, or a plane, 4 to 8 baselines/narrow away.
func views(n int, baseline float64, plane bool, seed uint64) twoViews {
	r := rand.New(rand.NewPCG(seed, 3))
	v := twoViews{k1: Mat3{{700, 0, 325}, {0, 710, 236}, {0, 0, 1}}, k2: Mat3{{650, 0, 318}, {0, 655, 245}, {0, 0, 1}}}
	t := Vec3{r.NormFloat64(), r.NormFloat64(), 0.5 * r.NormFloat64()}
	t = scale(t, baseline/norm(t))
	turn := rotation(Vec3{0.08 * r.NormFloat64(), 0.08 * r.NormFloat64(), 0.2 * r.NormFloat64()})
	motion := Pose{turn, t}
	back := motion.Inverse()
	for len(v.a) < n {
		z := 4 + 4*r.Float64()
		p := Vec3{(2*r.Float64() - 1) * 2, (2*r.Float64() - 1) * 1.4, z}
		if plane {
			p[2] = 5 + 0.3*p[0] - 0.2*p[1]
		}
		q1, ok1 := Project(v.k1, p)
		q2, ok2 := Project(v.k2, back.Apply(p))
		if !ok1 || !ok2 || q1[0] < 0 || q1[0] > 640 || q1[1] < 0 || q1[1] > 480 || q2[0] < -50 || q2[0] > 690 || q2[1] < -50 || q2[1] > 530 {
			continue
		}
		v.points = append(v.points, p)
		v.a, v.b = append(v.a, q1), append(v.b, q2)
	}
	if baseline > 0 {
		motion.T = scale(motion.T, 1/baseline)
	}
	v.truth = motion
	return v
}

// noisy adds noise to picture 2 and makes every third match wrong.
func (v twoViews) noisy(sigma float64, wrong int, seed uint64) []Vec2 {
	r := rand.New(rand.NewPCG(seed, 5))
	b := slices.Clone(v.b)
	for i := range b {
		b[i][0] += sigma * r.NormFloat64()
		b[i][1] += sigma * r.NormFloat64()
		if wrong > 0 && i%wrong == 0 {
			b[i] = Vec2{640 * r.Float64(), 480 * r.Float64()}
		}
	}
	return b
}

// angles are the errors of the turn and of the direction, in degrees.
func (v twoViews) angles(p Pose) (turn, direction float64) {
	d := Mul(p.R, Transpose(v.truth.R))
	c := (d[0][0] + d[1][1] + d[2][2] - 1) / 2
	turn = math.Acos(max(-1, min(1, c))) * 180 / math.Pi
	direction = math.Acos(max(-1, min(1, dot(p.T, v.truth.T)/norm(p.T)))) * 180 / math.Pi
	return turn, direction
}

func TestFivePoint(t *testing.T) {
	miss := 0
	for seed := range uint64(300) {
		v := views(5, 1, seed%5 == 0, seed)
		i1, _ := Inverse(v.k1)
		i2, _ := Inverse(v.k2)
		a, b := make([]Vec3, 5), make([]Vec3, 5)
		for i := range a {
			a[i], b[i] = MulVec(i1, Vec3{v.a[i][0], v.a[i][1], 1}), MulVec(i2, Vec3{v.b[i][0], v.b[i][1], 1})
		}
		best := 180.0
		for _, e := range fivePoint(a, b) {
			for i := range a {
				if r := dot(b[i], MulVec(e, a[i])); !(math.Abs(r) < 1e-8) {
					t.Fatalf("seed %d: a pair is off its own matrix by %g", seed, r)
				}
			}
			for _, m := range motions(e) {
				if d := Det(m.R); math.Abs(d-1) > 1e-9 {
					t.Fatalf("det R = %g", d)
				}
				turn, direction := v.angles(m.Inverse())
				best = min(best, max(turn, direction))
			}
		}
		if !(best < 0.01) {
			miss++
		}
	}
	if miss > 6 {
		t.Errorf("%d of 300 sets of five pairs without the true motion", miss)
	}
}

func TestSturdyRoots(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 200 {
		want := make([]float64, 10)
		for i := range want {
			want[i] = 3 * r.NormFloat64()
		}
		slices.Sort(want)
		c := []float64{1}
		for _, x := range want {
			next := make([]float64, len(c)+1)
			for i, v := range c {
				next[i] -= x * v
				next[i+1] += v
			}
			c = next
		}
		got := sturdyRoots(c)
		for _, x := range got {
			near := math.Inf(1)
			for _, y := range want {
				near = min(near, math.Abs(x-y))
			}
			if near > 1e-3 {
				t.Errorf("%g is no root of %v", x, want)
			}
		}
		if len(got) < 8 {
			t.Errorf("%d of 10 real roots", len(got))
		}
	}
	for _, c := range [][]float64{{1, 0, 1}, {5}, {}, {math.NaN(), 1}, {1, math.Inf(1)}} {
		if len(c) > 0 {
			if got := sturdyRoots(c); got != nil && len(got) != 0 {
				t.Errorf("%v: roots %v", c, got)
			}
		}
	}
}

func TestRelativePoseExact(t *testing.T) {
	for seed := range uint64(20) {
		v := views(300, 1.2, seed%4 == 0, seed)
		r, err := RelativePose(context.Background(), v.a, v.b, v.k1, v.k2, RelativeOptions{})
		if err == nil && r.Reason == TwoPoses && seed%4 == 0 {
			continue // TestRelativePoseOfFlatScenes says more
		}
		if err != nil || r.Pose == nil {
			t.Fatalf("seed %d: %v %q", seed, err, r.Reason)
		}
		turn, direction := v.angles(*r.Pose)
		if turn > 1e-4 || direction > 1e-3 || len(r.Inliers) < 295 || r.TurnOnly {
			t.Errorf("seed %d: turn off by %g, direction by %g degrees, %d inliers", seed, turn, direction, len(r.Inliers))
		}
		if d := Det(r.Pose.R); math.Abs(d-1) > 1e-9 || math.Abs(norm(r.Pose.T)-1) > 1e-9 {
			t.Errorf("det R = %g, |t| = %g", d, norm(r.Pose.T))
		}
		for k, i := range r.Inliers { // X1 = R X2 + t, in units of the baseline
			if d := norm(sub(scale(r.Points[k], 1.2), v.points[i])); d > 1e-2 {
				t.Errorf("seed %d: a point is off by %g", seed, d)
				break
			}
		}
	}
}

func TestRelativePoseWithOutliers(t *testing.T) {
	for seed := range uint64(6) {
		v := views(900, 1, false, seed)
		b := v.noisy(0.3, 2, seed)
		b[5][0] = math.NaN()
		r, err := RelativePose(context.Background(), v.a, b, v.k1, v.k2, RelativeOptions{Sigma: 0.3})
		if err != nil || r.Pose == nil {
			t.Fatalf("seed %d: %v %q", seed, err, r.Reason)
		}
		turn, direction := v.angles(*r.Pose)
		if turn > 0.3 || direction > 1.5 || slices.Contains(r.Inliers, 5) {
			t.Errorf("seed %d: turn off by %g, direction by %g degrees", seed, turn, direction)
		}
		again, _ := RelativePose(context.Background(), v.a, b, v.k1, v.k2, RelativeOptions{Sigma: 0.3})
		if *again.Pose != *r.Pose {
			t.Error("a second call gives another pose")
		}
		// From another estimator's pose, polished: the same place.
		near := Pose{Mul(rotation(Vec3{0.002, -0.001, 0.002}), r.Pose.R), r.Pose.T}
		p, err := RelativePose(context.Background(), v.a, b, v.k1, v.k2, RelativeOptions{Sigma: 0.3, Start: &near})
		if err != nil || p.Pose == nil {
			t.Fatalf("from a start: %v %q", err, p.Reason)
		}
		if d := maxDiff(*p.Pose, *r.Pose); d > 2e-3 {
			t.Errorf("seed %d: polished from near, the pose differs by %g", seed, d)
		}
	}
}

// inside counts how often the truth lies in the 95 % interval of each of turn and
// direction: chi squared of 3 and of 2 degrees of freedom.
func inside(v twoViews, r Relative) (turn, direction bool) {
	d := Mul(v.truth.R, Transpose(r.Pose.R)) // exp(w) = truth R^T
	w := Vec3{(d[2][1] - d[1][2]) / 2, (d[0][2] - d[2][0]) / 2, (d[1][0] - d[0][1]) / 2}
	var c [][]float64
	for i := range 3 {
		c = append(c, []float64{r.Covariance[i][0], r.Covariance[i][1], r.Covariance[i][2]})
	}
	turn = mahalanobis(c, w[:]) < 7.815
	e1, e2 := tangents(r.Pose.T)
	e := [2]Vec3{e1, e2}
	var u [2]float64
	c = [][]float64{{0, 0}, {0, 0}}
	for i := range 2 {
		u[i] = dot(e[i], v.truth.T)
		for j := range 2 {
			for k := range 3 {
				for l := range 3 {
					c[i][j] += e[i][k] * r.Covariance[3+k][3+l] * e[j][l]
				}
			}
		}
	}
	return turn, mahalanobis(c, u[:]) < 5.991
}

func mahalanobis(c [][]float64, x []float64) float64 {
	inv, ok := invertSymmetric(c)
	if !ok {
		return math.Inf(1)
	}
	s := 0.0
	for i := range x {
		for j := range x {
			s += x[i] * inv[i][j] * x[j]
		}
	}
	return s
}

// TestIntervals repeats the noise: 95 % intervals must hold the truth in 90 to 98
// % of the cases, with known and with uncertain focal lengths, wide and narrow
// baselines, equal and unequal covariances.
func TestIntervals(t *testing.T) {
	const repeats = 100
	for _, c := range []struct {
		name        string
		baseline    float64
		focal       float64
		plane, each bool
		wrong       int
	}{
		{"wide", 1.5, 0, false, false, 0}, {"narrow", 0.3, 0, false, false, 0}, {"wrong ones", 1, 0, false, false, 8},
		{"covariances", 1, 0, false, true, 0}, {"focal", 1.5, 0.15, false, false, 0},
	} {
		v := views(200, c.baseline, c.plane, 11)
		turns, directions, focals := 0, 0, 0
		for seed := range uint64(repeats) {
			rnd := rand.New(rand.NewPCG(seed, 8))
			b := v.noisy(0.4, c.wrong, seed)
			o := RelativeOptions{Sigma: 0.4, FocalSigma: [2]float64{c.focal, c.focal}, SharedFocal: true}
			k1, k2 := v.k1, v.k2
			if c.each {
				b = slices.Clone(v.b)
				o.Covariance = make([]float32, 4*len(b))
				for i := range b {
					s := 0.1 + 0.9*rnd.Float64()
					b[i][0] += s * rnd.NormFloat64()
					b[i][1] += s * rnd.NormFloat64()
					o.Covariance[4*i], o.Covariance[4*i+3] = float32(s*s), float32(s*s)
				}
				o.Tolerance = 3.5
			}
			if c.focal > 0 { // the first guess is off by what its uncertainty says
				off := c.focal * rnd.NormFloat64()
				k1, k2 = zoomed(k1, off), zoomed(k2, off)
			}
			r, err := RelativePose(context.Background(), v.a, b, k1, k2, o)
			if err != nil || r.Pose == nil {
				t.Fatalf("%s: %v %q", c.name, err, r.Reason)
			}
			turn, direction := inside(v, r)
			if turn {
				turns++
			}
			if direction {
				directions++
			}
			if math.Abs(math.Log(r.K1[0][0]/v.k1[0][0])) < 1.96*r.FocalSigma[0] {
				focals++
			}
		}
		share := func(n int) float64 { return float64(n) / repeats }
		t.Logf("%s: truth inside 95 %% intervals: turn %.3f, direction %.3f, focal %.3f", c.name, share(turns), share(directions), share(focals))
		// Of so few draws the share itself is known to 2 %.
		for name, n := range map[string]int{"turn": turns, "direction": directions, "focal": focals} {
			if name == "focal" && c.focal == 0 {
				continue
			}
			if share(n) < 0.88 || share(n) > 0.995 {
				t.Errorf("%s: the truth is in %.3f of the 95 %% intervals of the %s, want 0.90 to 0.98", c.name, share(n), name)
			}
		}
	}
}

func TestTurnOnly(t *testing.T) {
	for _, sigma := range []float64{0, 0.3} {
		v := views(400, 0, false, 4)
		r, err := RelativePose(context.Background(), v.a, v.noisy(sigma, 0, 2), v.k1, v.k2, RelativeOptions{Sigma: 0.3})
		if err != nil || r.Pose == nil {
			t.Fatalf("%v %q", err, r.Reason)
		}
		d := Mul(r.Pose.R, Transpose(v.truth.R))
		turn := math.Acos(max(-1, min(1, (d[0][0]+d[1][1]+d[2][2]-1)/2))) * 180 / math.Pi
		if !r.TurnOnly || r.Pose.T != (Vec3{}) || turn > 0.05 {
			t.Errorf("sigma %g: turn only %v, t %v, turn off by %g degrees", sigma, r.TurnOnly, r.Pose.T, turn)
		}
	}
	// The same picture twice.
	v := views(400, 1, false, 4)
	r, err := RelativePose(context.Background(), v.a, v.a, v.k1, v.k1, RelativeOptions{})
	if err != nil || r.Pose == nil || !r.TurnOnly || maxDiffRotation(r.Pose.R) > 1e-6 {
		t.Errorf("the same picture: %v %q, %+v", err, r.Reason, r.Pose)
	}
	// A short baseline, of which the parallax is ten times the noise, is none of it.
	v = views(400, 0.1, false, 4)
	if r, _ := RelativePose(context.Background(), v.a, v.noisy(0.1, 0, 2), v.k1, v.k2, RelativeOptions{Sigma: 0.1}); r.Pose == nil || r.TurnOnly {
		t.Errorf("a short baseline: %q, turn only %v", r.Reason, r.TurnOnly)
	}
}

func maxDiffRotation(r Mat3) (d float64) {
	for i := range 3 {
		for j := range 3 {
			d = max(d, math.Abs(r[i][j]-Identity[i][j]))
		}
	}
	return d
}

func TestNoRelativePose(t *testing.T) {
	v := views(200, 1, false, 1)
	r := rand.New(rand.NewPCG(4, 4))
	wild := make([]Vec2, 200)
	for i := range wild {
		wild[i] = Vec2{640 * r.Float64(), 480 * r.Float64()}
	}
	nan := slices.Repeat([]Vec2{{math.NaN(), 1}}, 200)
	one := slices.Repeat([]Vec2{{100, 100}}, 200)
	for name, c := range map[string][2][]Vec2{
		"none": {}, "eleven": {v.a[:11], v.b[:11]}, "NaN": {v.a, nan}, "unrelated": {v.a[:40], wild[:40]}, "one point": {one, one},
	} {
		got, err := RelativePose(context.Background(), c[0], c[1], v.k1, v.k2, RelativeOptions{Tolerance: 0.5})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "one point" {
			if got.Pose != nil && !got.TurnOnly {
				t.Errorf("one point: a pose with a direction, %+v", got.Pose)
			}
			continue
		}
		if got.Pose != nil || got.Reason == "" {
			t.Errorf("%s: pose %v with %d inliers, reason %q", name, got.Pose, len(got.Inliers), got.Reason)
		}
	}
	bad := v.k1
	bad[0][0] = -1
	for name, err := range map[string]error{
		"lengths":    second(RelativePose(context.Background(), v.a, v.b[1:], v.k1, v.k2, RelativeOptions{})),
		"camera":     second(RelativePose(context.Background(), v.a, v.b, bad, v.k2, RelativeOptions{})),
		"tolerance":  second(RelativePose(context.Background(), v.a, v.b, v.k1, v.k2, RelativeOptions{Tolerance: -1})),
		"covariance": second(RelativePose(context.Background(), v.a, v.b, v.k1, v.k2, RelativeOptions{Covariance: make([]float32, 3)})),
		"focal":      second(RelativePose(context.Background(), v.a, v.b, v.k1, v.k2, RelativeOptions{FocalSigma: [2]float64{math.NaN(), 0}})),
		"start":      second(RelativePose(context.Background(), v.a, v.b, v.k1, v.k2, RelativeOptions{Start: &Pose{}})),
		"F lengths":  func() error { _, _, _, err := Fundamental(v.a, v.b[1:], 0); return err }(),
		"F limit":    func() error { _, _, _, err := Fundamental(v.a, v.b, math.NaN()); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestFundamental(t *testing.T) {
	for seed := range uint64(5) {
		v := views(600, 1, false, seed)
		b := v.noisy(0.3, 3, seed)
		f, in, reason, err := Fundamental(v.a, b, 1.5)
		if err != nil || f == nil {
			t.Fatalf("%v %q", err, reason)
		}
		if len(in) < 380 || len(in) > 425 {
			t.Errorf("seed %d: %d inliers, want about 400", seed, len(in))
		}
		worst := 0.0
		for i := range v.a { // the exact matches
			worst = max(worst, math.Sqrt(sampson(*f, v.a[i], v.b[i])))
		}
		if worst > 1.5 {
			t.Errorf("seed %d: an exact match is %g pixels off", seed, worst)
		}
		if fmt.Sprint(*f) == fmt.Sprint(Mat3{}) {
			t.Error("F is 0")
		}
	}
	if f, _, reason, _ := Fundamental(nil, nil, 0); f != nil || reason != TooFewMatches {
		t.Errorf("no points: %v %q", f, reason)
	}
}

func BenchmarkRelativePose(b *testing.B) {
	v := views(2500, 1, false, 1)
	p := v.noisy(0.4, 5, 1)
	for range b.N {
		if r, err := RelativePose(context.Background(), v.a, p, v.k1, v.k2, RelativeOptions{}); err != nil || r.Pose == nil {
			b.Fatal(err, r.Reason)
		}
	}
}
