// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"math"
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
