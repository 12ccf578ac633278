// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPointsBehindTheCamera: a point on or behind the camera's plane has no pixel.
func TestPointsBehindTheCamera(t *testing.T) {
	k := Mat3{{100, 0, 50}, {0, 100, 40}, {0, 0, 1}}
	for _, c := range []struct {
		z    float64
		seen bool
	}{{1, true}, {1e-300, true}, {0, false}, {-1e-300, false}, {-1, false}, {math.NaN(), false}} {
		if p, ok := Project(k, Vec3{0, 0, c.z}); ok != c.seen {
			t.Errorf("a point at z = %g: pixel %v, seen %v", c.z, p, ok)
		}
	}
}

// TestListsOfUnequalLength: pairs need as many of one as of the other, whichever is
// longer; so do what belongs to them.
func TestListsOfUnequalLength(t *testing.T) {
	k := Mat3{{100, 0, 50}, {0, 100, 40}, {0, 0, 1}}
	points, pixels := make([]Vec3, 40), make([]Vec2, 40)
	for i := range points {
		points[i] = Vec3{float64(i % 7), float64(i % 5), 4 + float64(i%3)}
		pixels[i], _ = Project(k, points[i])
	}
	for _, n := range []int{0, 39} {
		for name, call := range map[string]func() error{
			"rigid, fewer of the first":   func() error { _, err := Rigid(points[:n], points, false, 0); return err },
			"rigid, fewer of the second":  func() error { _, err := Rigid(points, points[:n], true, 0); return err },
			"pixels, fewer of the first":  func() error { _, _, _, err := Homography(pixels[:n], pixels, 0); return err },
			"pixels, fewer of the second": func() error { _, _, _, err := Homography(pixels, pixels[:n], 0); return err },
			"pose, fewer points":          func() error { _, err := PnP(points[:n], pixels, k, 0); return err },
			"pose, fewer pixels":          func() error { _, err := PnP(points, pixels[:n], k, 0); return err },
		} {
			if err := call(); err == nil {
				t.Errorf("%s (%d of 40): accepted", name, n)
			}
		}
	}
	for _, n := range []int{1, 40, 159, 161} {
		o := RelativeOptions{Covariance: make([]float32, n)}
		if err := o.check(pixels, pixels, k, k); err == nil {
			t.Errorf("%d numbers of covariance for 40 matches: accepted", n)
		}
	}
	for _, sigma := range []float64{-0.1, 3, 300, math.NaN(), math.Inf(1)} {
		o := RelativeOptions{FocalSigma: [2]float64{sigma, 0}}
		if err := o.check(pixels, pixels, k, k); err == nil {
			t.Errorf("a focal length known within a factor of e^%g: accepted", sigma)
		}
	}
}

// TestDepthsBehindTheCamera: points behind the camera say nothing of the scale.
func TestDepthsBehindTheCamera(t *testing.T) {
	var points, front []Vec3
	var depth, seen []float64
	for i := range 60 {
		d := 6 + float64(i)
		front, seen = append(front, Vec3{0, 0, 2}), append(seen, d)
		points, depth = append(points, Vec3{0, 0, 2}, Vec3{0, 0, -2}, Vec3{0, 0, 2}), append(depth, d, 500, -1)
	}
	length, spread, ok := MetricScale(points, depth)
	want, wantSpread, _ := MetricScale(front, seen)
	if !ok || length != want || spread != wantSpread {
		t.Errorf("length %g, spread %g, %v, want %g and %g", length, spread, ok, want, wantSpread)
	}
	if _, _, ok := MetricScale([]Vec3{{0, 0, -1}, {0, 0, -1}}, []float64{1, 1}); ok {
		t.Error("a scale from points behind the camera")
	}
}

// TestSampson: the distance from the epipolar geometry, to first order, is the error over the
// length of its gradient by all four coordinates.
func TestSampson(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 0))
	for range 200 {
		var f Mat3
		for i := range f {
			f[i] = Vec3{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		}
		p := [4]float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		value := func(p [4]float64) float64 { return dot(Vec3{p[2], p[3], 1}, MulVec(f, Vec3{p[0], p[1], 1})) }
		square := 0.0
		for k := range p {
			const h = 1e-5
			more, less := p, p
			more[k], less[k] = p[k]+h, p[k]-h
			d := (value(more) - value(less)) / (2 * h)
			square += d * d
		}
		want := value(p) * value(p) / square
		if got := sampson(f, Vec2{p[0], p[1]}, Vec2{p[2], p[3]}); math.Abs(got-want) > 1e-6*(1+want) {
			t.Fatalf("%v at %v: %g, want %g", f, p, got, want)
		}
	}
}

// TestTooFewForASample: a sample of seven cannot be drawn from six.
func TestTooFewForASample(t *testing.T) {
	for n := range 7 {
		_, in := ransac(t.Context(), n, 7, 1, 0, func([]int) []int { return []int{0} }, func(int, int) float64 { return 0 })
		if in != nil {
			t.Errorf("%d data, samples of 7: inliers %v", n, in)
		}
	}
	if _, in := ransac(t.Context(), 7, 7, 1, 0, func([]int) []int { return []int{0} }, func(int, int) float64 { return 0 }); len(in) != 7 {
		t.Errorf("7 data, samples of 7: inliers %v", in)
	}
}

// TestTrianglesOfTwoPoints: three points of which two are one make no triangle, whatever is seen.
func TestTrianglesOfTwoPoints(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 0))
	for n := range 300 {
		x, ray := make([]Vec3, 3), make([]Vec3, 3)
		for i := range x {
			x[i] = Vec3{r.NormFloat64(), r.NormFloat64(), 4 + r.NormFloat64()}
			ray[i] = Vec3{r.NormFloat64() / 3, r.NormFloat64() / 3, 1}
			ray[i] = scale(ray[i], 1/norm(ray[i]))
		}
		x[n%3] = x[(n+1)%3]
		if got := p3p(x, ray); got != nil {
			t.Fatalf("points %v: %d cameras", x, len(got))
		}
	}
}

// TestP3PSeesThePoints: each camera that three points and directions give has the points before it, in
// those directions.
func TestP3PSeesThePoints(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	found := 0
	for range 500 {
		x, ray := make([]Vec3, 3), make([]Vec3, 3)
		for i := range x {
			x[i] = Vec3{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
			ray[i] = Vec3{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
			ray[i] = scale(ray[i], 1/norm(ray[i]))
		}
		for _, p := range p3p(x, ray) {
			found++
			for i := range x {
				seen := p.Apply(x[i])
				if c := dot(seen, ray[i]) / norm(seen); c < 0.999 {
					t.Fatalf("point %d lies at %v, want along %v: cosine %g", i, seen, ray[i], c)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("%d cameras of 500 triangles", found)
	}
}

// TestRelativePoseEndsWithItsContext: the search is asked between two hypotheses, whatever the matches are.
func TestRelativePoseEndsWithItsContext(t *testing.T) {
	k := Mat3{{100, 0, 50}, {0, 100, 40}, {0, 0, 1}}
	r := rand.New(rand.NewPCG(8, 0))
	a, b := make([]Vec2, 2000), make([]Vec2, 2000)
	for i := range a {
		a[i], b[i] = Vec2{100 * r.Float64(), 80 * r.Float64()}, Vec2{100 * r.Float64(), 80 * r.Float64()}
	}
	hypotheses := 0
	ctx, cancel := context.WithCancel(t.Context())
	ransac(ctx, len(a), 5, 1, 0, func([]int) []int {
		if hypotheses++; hypotheses == 3 {
			cancel()
		}
		return nil
	}, func(int, int) float64 { return 0 })
	if hypotheses != 3 {
		t.Errorf("%d hypotheses, want none after the third", hypotheses)
	}
	if _, err := RelativePose(ctx, a, b, k, k, RelativeOptions{FocalSigma: [2]float64{0.3, 0.3}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	p := newEpipolar(a, b, k, k, RelativeOptions{Sigma: 0.5, Tolerance: 1.5, Dependence: 1})
	p.ctx = ctx
	all := make([]int, len(a))
	for i := range all {
		all[i] = i
	}
	if _, ok := p.polish(state{pose: Pose{R: Identity, T: Vec3{1, 0, 0}}}, all); ok {
		t.Error("a fit that was cancelled counts")
	}
}

// TestLeastShare: models of no interest cost a panel of votes each, the best of them is
// still found where there is no other, and one of interest is found as without a least
// share. A search is given up where nothing comes near it.
func TestLeastShare(t *testing.T) {
	const n = 2000
	for _, c := range []struct {
		share, least float64
		most         float64 // votes a model
		models       int
	}{
		{0.02, 0.28, ransacPanel + 10, ransacEarly}, {0.15, 0.28, n, ransacEarly}, {0.25, 0.28, n, ransacMost},
		{0.02, 0, n, ransacMost}, {0.4, 0.28, n, ransacMost}, {0.3, 0.28, n, ransacMost},
	} {
		r := rand.New(rand.NewPCG(1, 1))
		value := make([]float64, n)
		for i := range value {
			value[i] = 1e6 * r.Float64()
			if r.Float64() < c.share {
				value[i] = r.Float64()
			}
		}
		models, votes := 0, 0
		find := func(least float64) []int {
			models, votes = 0, 0
			_, in := ransac(t.Context(), n, 7, 1, least, func(pick []int) []float64 {
				models++
				return []float64{value[pick[0]]}
			}, func(m float64, i int) float64 { votes++; return (m - value[i]) * (m - value[i]) })
			return in
		}
		want, whole := find(0), float64(votes)/float64(models)
		got := find(c.least)
		if per := float64(votes) / float64(models); per > c.most || c.most < n && per > whole/10 || models > c.models || models < c.models/2 {
			t.Errorf("%+v: %d models, %.0f votes each, without a least share %.0f", c, models, per, whole)
		}
		if len(got) == 0 || c.share > c.least && !slices.Equal(got, want) {
			t.Errorf("%+v: %d agree, without a least share %d", c, len(got), len(want))
		}
	}
}
