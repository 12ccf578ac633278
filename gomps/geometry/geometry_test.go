// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// scene is a synthetic two-view set-up with known truth.
type scene struct {
	k      Mat3
	truth  Pose // camera 2 to camera 1
	x1, x2 []Vec3
	uv2    []Vec2
}

func newScene(n int, seed uint64) scene {
	r := rand.New(rand.NewPCG(seed, 7))
	s := scene{k: Mat3{{420, 0, 255}, {0, 433, 190}, {0, 0, 1}}}
	s.truth = Pose{rotation(Vec3{0.1 * r.NormFloat64(), 0.3 * r.NormFloat64(), 0.1 * r.NormFloat64()}),
		Vec3{r.NormFloat64(), 0.3 * r.NormFloat64(), 0.4 * r.NormFloat64()}}
	back := s.truth.Inverse()
	for len(s.x1) < n {
		x2 := Vec3{4*r.Float64() - 2, 3*r.Float64() - 1.5, 3 + 4*r.Float64()}
		x1 := s.truth.Apply(x2)
		uv, ok := Project(s.k, back.Apply(x1))
		if !ok {
			continue
		}
		s.x1, s.x2, s.uv2 = append(s.x1, x1), append(s.x2, x2), append(s.uv2, uv)
	}
	return s
}

func maxDiff(a, b Pose) float64 {
	d := 0.0
	for i := range 3 {
		d = max(d, math.Abs(a.T[i]-b.T[i]))
		for j := range 3 {
			d = max(d, math.Abs(a.R[i][j]-b.R[i][j]))
		}
	}
	return d
}

// checkPose is the convention, on numbers: X1 = R X2 + t, det R = +1.
func checkPose(t *testing.T, what string, e Estimate, s scene, tol float64) {
	t.Helper()
	if e.Pose == nil {
		t.Errorf("%s: no pose: %s", what, e.Reason)
		return
	}
	if d := maxDiff(*e.Pose, s.truth); !(d < tol) {
		t.Errorf("%s: pose off by %g, limit %g", what, d, tol)
	}
	if d := Det(e.Pose.R); math.Abs(d-1) > 1e-9 {
		t.Errorf("%s: det R = %g, want +1", what, d)
	}
	m := e.Pose.Matrix()
	for i, x2 := range s.x2[:5] {
		x1 := e.Pose.Apply(x2)
		if d := norm(sub(x1, s.x1[i])); !(d < 20*tol) {
			t.Errorf("%s: R X2 + t is %g from X1", what, d)
		}
		if d := math.Abs(m[0]*x2[0] + m[1]*x2[1] + m[2]*x2[2] + m[3] - x1[0]); d > 1e-12 {
			t.Errorf("%s: the 4x4 matrix differs from Apply by %g", what, d)
		}
	}
}

func TestPnPExact(t *testing.T) {
	for seed := range uint64(20) {
		s := newScene(100, seed)
		e, err := PnP(s.x1, s.uv2, s.k, 0)
		if err != nil {
			t.Fatal(err)
		}
		checkPose(t, "PnP", e, s, 1e-8)
		if len(e.Inliers) != 100 || e.RMS > 1e-6 || e.Scale != 1 {
			t.Errorf("seed %d: %d inliers, RMS %g", seed, len(e.Inliers), e.RMS)
		}
	}
}

// TestPnPWithOutliers has half of the matches wrong and noise on the rest.
func TestPnPWithOutliers(t *testing.T) {
	s := newScene(6000, 3) // more than vote on a hypothesis
	r := rand.New(rand.NewPCG(5, 5))
	for i := range s.uv2 {
		switch {
		case i%2 == 0:
			s.uv2[i] = Vec2{512 * r.Float64(), 384 * r.Float64()}
		default:
			s.uv2[i][0] += 0.5 * r.NormFloat64()
			s.uv2[i][1] += 0.5 * r.NormFloat64()
		}
	}
	s.x1[101][0], s.uv2[103][1] = math.NaN(), math.Inf(1)
	e, err := PnP(s.x1, s.uv2, s.k, 3)
	if err != nil {
		t.Fatal(err)
	}
	checkPose(t, "PnP", e, s, 2e-3)
	wrong := 0
	for _, i := range e.Inliers {
		if i%2 == 0 {
			wrong++
		}
	}
	if len(e.Inliers) < 2900 || wrong > 30 || slices.Contains(e.Inliers, 101) || slices.Contains(e.Inliers, 103) {
		t.Errorf("%d inliers, %d of them wrong", len(e.Inliers), wrong)
	}
	if e.RMS < 0.5 || e.RMS > 0.9 {
		t.Errorf("RMS %g, want about 0.5 sqrt 2", e.RMS)
	}
	again, _ := PnP(s.x1, s.uv2, s.k, 3)
	if *again.Pose != *e.Pose {
		t.Error("a second call gives another pose")
	}
}

func TestPnPSamePicture(t *testing.T) {
	s := newScene(200, 1)
	for i := range s.x1 {
		s.uv2[i], _ = Project(s.k, s.x2[i])
	}
	s.x1, s.truth = s.x2, Pose{R: Identity}
	e, err := PnP(s.x1, s.uv2, s.k, 0)
	if err != nil {
		t.Fatal(err)
	}
	checkPose(t, "identity", e, s, 1e-9)
}

func TestPnPPlanarScene(t *testing.T) {
	s := newScene(300, 9)
	back := s.truth.Inverse()
	for i := range s.x1 {
		s.x1[i][2] = 5
		s.x2[i] = back.Apply(s.x1[i])
		s.uv2[i], _ = Project(s.k, s.x2[i])
	}
	e, err := PnP(s.x1, s.uv2, s.k, 0)
	if err != nil {
		t.Fatal(err)
	}
	checkPose(t, "plane", e, s, 1e-6)
}

func TestNoPose(t *testing.T) {
	s := newScene(400, 2)
	r := rand.New(rand.NewPCG(1, 1))
	wild, same, onLine := slices.Clone(s.uv2), slices.Clone(s.x1), slices.Clone(s.x1)
	for i := range wild {
		wild[i] = Vec2{5120 * r.Float64(), 3840 * r.Float64()}
		same[i] = Vec3{1, 2, 3}
		onLine[i] = Vec3{float64(i), 2 * float64(i), 5}
	}
	nan := slices.Repeat([]Vec3{{math.NaN(), 0, 1}}, len(s.uv2))
	for name, c := range map[string]struct {
		x    []Vec3
		uv   []Vec2
		want string
	}{
		"none":       {nil, nil, TooFewMatches},
		"eleven":     {s.x1[:11], s.uv2[:11], TooFewMatches},
		"all NaN":    {nan, s.uv2, TooFewMatches},
		"unrelated":  {s.x1, wild, NoConsensus},
		"one point":  {same, s.uv2, Degenerate},
		"on a line":  {onLine, s.uv2, Degenerate},
		"same pixel": {s.x1, slices.Repeat(s.uv2[:1], len(s.x1)), ""},
	} {
		e, err := PnP(c.x, c.uv, s.k, 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.want == "" { // any reason will do, but no pose
			c.want = e.Reason
		}
		if e.Pose != nil || e.Reason == "" || e.Reason != c.want {
			t.Errorf("%s: pose %v, reason %q, want %q", name, e.Pose, e.Reason, c.want)
		}
	}
	for name, c := range map[string]struct {
		x1, x2 []Vec3
		want   string
	}{
		"none": {nil, nil, TooFewMatches}, "one point": {same, same, Degenerate},
		"on a line": {onLine, onLine, Degenerate}, "unrelated": {s.x1, reversedDepth(s.x2), NoConsensus},
	} {
		e, err := Rigid(c.x1, c.x2, true, 0.001)
		if err != nil || e.Pose != nil || e.Reason != c.want {
			t.Errorf("rigid, %s: pose %v, reason %q (%v), want %q", name, e.Pose, e.Reason, err, c.want)
		}
	}
}

// reversedDepth makes points that no rigid motion fits.
func reversedDepth(x []Vec3) []Vec3 {
	r := rand.New(rand.NewPCG(8, 8))
	y := slices.Clone(x)
	for i := range y {
		y[i] = Vec3{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
	}
	return y
}

func TestMisuseIsAnError(t *testing.T) {
	s := newScene(20, 2)
	if _, err := PnP(s.x1, s.uv2[1:], s.k, 0); err == nil {
		t.Error("unequal lengths accepted")
	}
	if _, err := PnP(s.x1, s.uv2, s.k, -1); err == nil {
		t.Error("negative tolerance accepted")
	}
	if _, err := Rigid(s.x1, s.x2[1:], false, 0); err == nil {
		t.Error("rigid: unequal lengths accepted")
	}
	if _, err := Rigid(s.x1, s.x2, false, math.NaN()); err == nil {
		t.Error("rigid: NaN tolerance accepted")
	}
	if _, _, _, err := Homography(s.uv2, s.uv2[1:], 0); err == nil {
		t.Error("homography: unequal lengths accepted")
	}
	for _, k := range []Mat3{
		{{-1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {{1, 0, 0}, {0, 0, 0}, {0, 0, 1}},
		{{math.NaN(), 0, 0}, {0, 1, 0}, {0, 0, 1}}, {{1, 0, 0}, {0, 1, 0}, {0, 0, 2}},
		{{1, 0, 0}, {2, 1, 0}, {0, 0, 1}}, {{math.Inf(1), 0, 0}, {0, 1, 0}, {0, 0, 1}},
	} {
		if _, err := PnP(s.x1, s.uv2, k, 0); err == nil {
			t.Errorf("camera matrix %v accepted", k)
		}
	}
}

func TestRigid(t *testing.T) {
	s := newScene(500, 4)
	e, err := Rigid(s.x1, s.x2, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	checkPose(t, "rigid", e, s, 1e-10)

	r := rand.New(rand.NewPCG(2, 2))
	scaled := slices.Clone(s.x2)
	for i := range scaled {
		scaled[i] = scale(scaled[i], 0.4)
		if i%3 == 0 {
			scaled[i] = Vec3{r.NormFloat64(), r.NormFloat64(), 2 + r.Float64()}
		}
	}
	scaled[1][2] = math.NaN()
	e, err = Rigid(s.x1, scaled, true, 0.02)
	if err != nil {
		t.Fatal(err)
	}
	checkPose(t, "with scale", e, s, 2e-3)
	if math.Abs(e.Scale-2.5) > 2e-3 || len(e.Inliers) < 325 || slices.Contains(e.Inliers, 1) {
		t.Errorf("scale %g, want 2.5; %d inliers", e.Scale, len(e.Inliers))
	}
	mirrored := slices.Clone(s.x2)
	for i := range mirrored {
		mirrored[i][0] = -mirrored[i][0]
	}
	if m, ok := horn(s.x1, mirrored, nil, false); !ok || math.Abs(Det(m.r)-1) > 1e-9 {
		t.Errorf("mirrored points: det R = %g, want +1", Det(m.r))
	}
}

// pointMap renders a bumpy surface through k into a w x h map.
func pointMap(k Mat3, w, h int) []float32 {
	pts := make([]float32, 0, 3*w*h)
	for v := range h {
		for u := range w {
			z := 3 + math.Sin(float64(u)/17) + 0.5*math.Cos(float64(v)/11)
			x := (float64(u) - k[0][2]) / k[0][0] * z
			y := (float64(v) - k[1][2]) / k[1][1] * z
			pts = append(pts, float32(x), float32(y), float32(z))
		}
	}
	return pts
}

// spoil makes a fifth of the points wrong in every way.
func spoil(pts []float32) {
	r := rand.New(rand.NewPCG(6, 6))
	for i := 0; i < len(pts); i += 3 {
		switch r.IntN(20) {
		case 0:
			pts[i] = float32(math.NaN())
		case 1:
			pts[i+2] = 0
		case 2:
			pts[i+2] = -pts[i+2]
		case 3:
			pts[i], pts[i+1] = float32(2*r.NormFloat64()), float32(2*r.NormFloat64())
		}
	}
}

func TestFitIntrinsics(t *testing.T) {
	const w, h = 128, 96
	want := Mat3{{150, 0, 40}, {0, 163, 55}, {0, 0, 1}} // far off the centre
	pts := pointMap(want, w, h)
	conf := make([]float32, w*h)
	for i := range conf {
		conf[i] = 1 + float32(i%7)
	}
	conf[5] = float32(math.NaN())
	for _, spoilt := range []bool{false, true} {
		if spoilt {
			spoil(pts)
		}
		k, err := FitIntrinsics(pts, conf, w, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range [][2]float64{{k[0][0], want[0][0]}, {k[1][1], want[1][1]}, {k[0][2], want[0][2]}, {k[1][2], want[1][2]}} {
			if math.Abs(e[0]/e[1]-1) > 1e-3 {
				t.Errorf("spoilt %v: K = %v, want %v", spoilt, k, want)
				break
			}
		}
		if err := CheckIntrinsics(k); err != nil {
			t.Error(err)
		}
	}
}

func TestFocal(t *testing.T) {
	const w, h = 128, 96
	pts := pointMap(Mat3{{150, 0, w / 2}, {0, 150, h / 2}, {0, 0, 1}}, w, h)
	spoil(pts)
	f, err := Focal(pts, w, h, w/2, h/2)
	if err != nil || math.Abs(f/150-1) > 1e-3 {
		t.Errorf("focal %g (%v), want 150", f, err)
	}
	tele := pointMap(Mat3{{1e4, 0, w / 2}, {0, 1e4, h / 2}, {0, 0, 1}}, w, h)
	if f, err := Focal(tele, w, h, w/2, h/2); err != nil || math.Abs(f-3.5*w/1.1547005) > 1e-3 {
		t.Errorf("focal %g (%v), want the clamp at %g", f, err, 3.5*w/1.1547)
	}
}

func TestIntrinsicsRefuse(t *testing.T) {
	flat := make([]float32, 3*64)
	for i := 2; i < len(flat); i += 3 {
		flat[i] = 1
	}
	for name, c := range map[string]struct {
		pts  []float32
		w, h int
	}{
		"all on the axis": {flat, 8, 8}, "all zero": {make([]float32, 3*64), 8, 8}, "four points": {pointMap(Identity, 2, 2), 2, 2},
	} {
		if _, err := FitIntrinsics(c.pts, nil, c.w, c.h); !errors.Is(err, ErrDegenerate) {
			t.Errorf("%s: fit gives %v", name, err)
		}
		if _, err := Focal(c.pts, c.w, c.h, 4, 4); !errors.Is(err, ErrDegenerate) {
			t.Errorf("%s: focal gives %v", name, err)
		}
	}
	for _, c := range []struct{ pts, conf, w, h int }{{10, 0, 2, 2}, {12, 3, 2, 2}, {0, 0, 0, 0}, {12, 0, -2, -2}, {12, 0, 1 << 62, 4}} {
		var conf []float32
		if c.conf > 0 {
			conf = make([]float32, c.conf)
		}
		if _, err := FitIntrinsics(make([]float32, c.pts), conf, c.w, c.h); err == nil || errors.Is(err, ErrDegenerate) {
			t.Errorf("%+v: got %v, want an error about sizes", c, err)
		}
	}
	mirrored := pointMap(Mat3{{-50, 0, 4}, {0, 50, 4}, {0, 0, 1}}, 8, 8)
	if _, err := FitIntrinsics(mirrored, nil, 8, 8); !errors.Is(err, ErrDegenerate) {
		t.Errorf("a mirrored camera: got %v", err)
	}
}

func TestHomography(t *testing.T) {
	want := Mat3{{1.1, 0.05, -12}, {-0.03, 0.95, 20}, {2e-4, -1e-4, 1}}
	r := rand.New(rand.NewPCG(3, 1))
	var a, b []Vec2
	for i := range 400 {
		p := Vec2{640 * r.Float64(), 480 * r.Float64()}
		q := MulVec(want, Vec3{p[0], p[1], 1})
		a, b = append(a, p), append(b, Vec2{q[0] / q[2], q[1] / q[2]})
		if i%4 == 0 {
			b[i] = Vec2{640 * r.Float64(), 480 * r.Float64()}
		}
	}
	b[1][0] = math.NaN()
	h, in, reason, err := Homography(a, b, 1)
	if err != nil || h == nil {
		t.Fatalf("no homography: %v %v", reason, err)
	}
	for i := range 3 {
		for j := range 3 {
			if math.Abs(h[i][j]-want[i][j]) > 1e-5*max(1, math.Abs(want[i][j])) {
				t.Errorf("H[%d][%d] = %g, want %g", i, j, h[i][j], want[i][j])
			}
		}
	}
	if len(in) < 298 || len(in) > 304 || slices.Contains(in, 1) {
		t.Errorf("%d inliers, want about 299", len(in))
	}
	line := make([]Vec2, 50)
	for i := range line {
		line[i] = Vec2{float64(i), 3 * float64(i)}
	}
	if h, _, reason, _ := Homography(line, line, 1); h != nil || reason != Degenerate {
		t.Errorf("points in line: %v, %q", h, reason)
	}
	if h, _, reason, _ := Homography(a[:5], b[:5], 1); h != nil || reason != TooFewMatches {
		t.Errorf("five points: %v, %q", h, reason)
	}
}

func TestMapPoints(t *testing.T) {
	m := Mat3{{2, 0, 1}, {0, 3, -1}, {0, 0, 1}}
	p := []float32{1, 2, 10, 20}
	MapPoints(p, p, m)
	if want := []float32{3, 5, 21, 59}; !slices.Equal(p, want) {
		t.Errorf("got %v, want %v", p, want)
	}
	MapPoints(p[:2], []float32{1, 2}, Mat3{})
	if p[0] == p[0] {
		t.Errorf("a point at infinity came out as %v", p[0])
	}
}
