// SPDX-License-Identifier: Apache-2.0

package geometry_test

import (
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/geometry"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
)

// TestIntrinsicsOfTheOriginal goes the whole way: a camera of the original
// picture, its points seen at network size after a resize with two factors and
// a crop, the fit there, and back to the original.
func TestIntrinsicsOfTheOriginal(t *testing.T) {
	for _, c := range []struct{ w, h, size, patch int }{{1021, 517, 128, 16}, {500, 333, 140, 14}, {333, 500, 128, 16}, {100, 75, 224, 16}} {
		tr, err := preprocess.Plan(c.w, c.h, c.size, c.patch, false)
		if err != nil {
			t.Fatal(err)
		}
		w, h := float64(c.w), float64(c.h)
		want := geometry.Mat3{{0.9 * w, 0, 0.42 * w}, {0, 0.95 * w, 0.57 * h}, {0, 0, 1}}
		var pts []float32
		for v := range tr.Height {
			for u := range tr.Width {
				ou, ov := tr.ToOriginal(float64(u), float64(v))
				z := 2 + 0.5*math.Sin(float64(u)/9)*math.Cos(float64(v)/7)
				pts = append(pts, float32((ou-want[0][2])/want[0][0]*z), float32((ov-want[1][2])/want[1][1]*z), float32(z))
			}
		}
		k, err := geometry.FitIntrinsics(pts, nil, tr.Width, tr.Height)
		if err != nil {
			t.Fatal(err)
		}
		got := tr.IntrinsicsToOriginal(k)
		for i := range 3 {
			for j := range 3 {
				if math.Abs(got[i][j]-want[i][j]) > 1e-3*want[i][j] {
					t.Errorf("%dx%d: K[%d][%d] = %g, want %g within 0.1 %%", c.w, c.h, i, j, got[i][j], want[i][j])
				}
			}
		}
	}
}

// TestMatchesToOriginal maps points with the transform's matrices, which must
// agree with its functions and invert each other.
func TestMatchesToOriginal(t *testing.T) {
	tr, err := preprocess.Plan(1000, 667, 512, 16, true)
	if err != nil {
		t.Fatal(err)
	}
	net := []float32{0, 0, 511, 335, 17, 300}
	orig, back := make([]float32, len(net)), make([]float32, len(net))
	geometry.MapPoints(orig, net, tr.Inverse())
	geometry.MapPoints(back, orig, tr.Matrix())
	for i := 0; i < len(net); i += 2 {
		x, y := tr.ToOriginal(float64(net[i]), float64(net[i+1]))
		if math.Abs(float64(orig[i])-x) > 1e-4 || math.Abs(float64(orig[i+1])-y) > 1e-4 {
			t.Errorf("point %d: %g,%g, want %g,%g", i/2, orig[i], orig[i+1], x, y)
		}
		if math.Abs(float64(back[i]-net[i])) > 1e-3 || math.Abs(float64(back[i+1]-net[i+1])) > 1e-3 {
			t.Errorf("point %d came back as %g,%g", i/2, back[i], back[i+1])
		}
	}
}

// TestStereoPair takes the predictions of a small trained model for a rectified
// stereo pair, camera 2 to the right of camera 1: the pose must be almost pure
// translation, to +x. It pins the signs of the convention to a real scene.
func TestStereoPair(t *testing.T) {
	c := golden.Load(t, golden.Path(t, "golden", "tiny_trained", "motorcycle_256x176.safetensors"))
	pts1, s := c.Floats(t, "pred1.pts3d")
	pts2, _ := c.Floats(t, "pred2.pts3d_in_other_view")
	h, w := s[len(s)-3], s[len(s)-2]
	cx, cy := float64(w)/2, float64(h)/2
	f, err := geometry.Focal(pts1, w, h, cx, cy)
	if err != nil {
		t.Fatal(err)
	}
	var x []geometry.Vec3
	var uv []geometry.Vec2
	for i := 0; i < w*h; i += 7 {
		x = append(x, geometry.Vec3{float64(pts2[3*i]), float64(pts2[3*i+1]), float64(pts2[3*i+2])})
		uv = append(uv, geometry.Vec2{float64(i % w), float64(i / w)})
	}
	e, err := geometry.PnP(x, uv, geometry.Mat3{{f, 0, cx}, {0, f, cy}, {0, 0, 1}}, 0)
	if err != nil || e.Pose == nil {
		t.Fatalf("no pose: %q, %v", e.Reason, err)
	}
	r, d := e.Pose.R, e.Pose.T
	if turn := math.Acos((r[0][0]+r[1][1]+r[2][2]-1)/2) * 180 / math.Pi; !(turn < 5) {
		t.Errorf("turned by %.3g degrees, want less than 5", turn)
	}
	if !(d[0] > 2*math.Abs(d[1]) && d[0] > 2*math.Abs(d[2])) {
		t.Errorf("translation %.3g, want mostly +x", d)
	}
	if len(e.Inliers) < len(x)*3/4 {
		t.Errorf("%d of %d points agree", len(e.Inliers), len(x))
	}
}
