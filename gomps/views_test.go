// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

func inferViews(t *testing.T, e *gomps.Engine, images []gomps.Image, opt gomps.ViewsOptions) *gomps.Scene {
	t.Helper()
	s, err := e.InferViews(t.Context(), images, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s
}

func pictures(n, h, w int) []gomps.Image {
	list := make([]gomps.Image, n)
	for i := range list {
		list[i] = picture(h, w, 3*i)
	}
	return list
}

func TestViews(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 84}, "da3_tiny")
	for n := 1; n <= 4; n++ {
		s := inferViews(t, e, pictures(n, 60, 90), gomps.ViewsOptions{Rays: true})
		if len(s.View) != n || len(s.Windows) != 1 {
			t.Fatalf("%d views in %d windows, want %d in 1", len(s.View), len(s.Windows), n)
		}
		for i, v := range s.View {
			for _, c := range []struct {
				what  string
				t     *gomps.Tensor
				shape []int
			}{{"depth", v.Depth, []int{56, 84}}, {"conf", v.Conf, []int{56, 84}}, {"points", v.Points, []int{56, 84, 3}},
				{"rays", v.Rays, []int{32, 48, 6}}, {"ray_conf", v.RayConf, []int{32, 48}}} {
				if !slices.Equal(c.t.Shape(), c.shape) {
					t.Errorf("view %d: %s is %v, want %v", i, c.what, c.t.Shape(), c.shape)
				}
			}
			for _, x := range v.Conf.Float32s() {
				if !(x >= 1) {
					t.Fatalf("view %d: confidence %v, want at least 1", i, x)
				}
			}
			checkPoints(t, v)
			if v.Transform.Width != 84 || v.Transform.Height != 56 || v.Transform.OriginalW != 90 {
				t.Errorf("view %d: transform %+v", i, v.Transform)
			}
		}
		unit := [3][4]float64{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}
		for r, row := range s.View[0].Pose {
			for c, x := range row {
				if math.Abs(x-unit[r][c]) > 1e-6 {
					t.Errorf("%d views: the first camera is at %v, want the origin", n, s.View[0].Pose)
				}
			}
		}
	}
}

// checkPoints projects points back to their pixels and depths.
func checkPoints(t *testing.T, v gomps.SceneView) {
	t.Helper()
	depth, points := v.Depth.Float32s(), v.Points.Float32s()
	w := v.Depth.Shape()[1]
	p, k := v.Pose, v.Intrinsics
	for i := 0; i < len(depth); i += 97 {
		var cam [3]float64
		for row := range 3 {
			for col := range 3 {
				cam[col] += p[row][col] * (float64(points[3*i+row]) - p[row][3])
			}
		}
		x, y := k[0][0]*cam[0]/cam[2]+k[0][2], k[1][1]*cam[1]/cam[2]+k[1][2]
		if math.Abs(x-float64(i%w))+math.Abs(y-float64(i/w)) > 1e-2 || math.Abs(cam[2]-float64(depth[i])) > 1e-4*float64(depth[i]) {
			t.Fatalf("pixel %d,%d at depth %v comes back as %v,%v at %v", i%w, i/w, depth[i], x, y, cam[2])
		}
	}
}

func equalTensors(a, b *gomps.Tensor) bool { return slices.Equal(a.Float32s(), b.Float32s()) }

// TestViewsOfPairs: a pair of a network of many views is its scene of two, each picture
// is encoded once, and features that were kept give the same bits.
func TestViewsOfPairs(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 84}, "da3_tiny")
	pics := pictures(3, 60, 90)
	s := inferViews(t, e, pics[:2], gomps.ViewsOptions{})
	r := infer(t, e, pics[0], pics[1])
	defer r.Release()
	var feats [2]*gomps.Features
	for i := range feats {
		f, err := e.Encode(t.Context(), pics[i], gomps.InferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Release()
		// As from a file.
		if feats[i], err = e.NewFeatures(f.Tokens.Float32s(), f.Transform); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := e.Decode(t.Context(), feats[0], feats[1], gomps.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seq, err := e.InferSequence(t.Context(), pics, gomps.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sym, err := e.InferSymmetric(t.Context(), pics[0], pics[1], gomps.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	back := infer(t, e, pics[1], pics[0])
	for i := range 2 {
		want := s.View[i]
		for what, v := range map[string]gomps.View{"pair": r.View[i], "features": kept.View[i], "sequence": seq[0].View[i], "symmetric": sym.View[i]} {
			if v.Desc != nil || v.DescConf != nil {
				t.Errorf("%s: view %d has descriptors", what, i)
			}
			if !equalTensors(v.Points, want.Points) || !equalTensors(v.Conf, want.Conf) {
				t.Errorf("%s: view %d is not that of the scene", what, i)
			}
		}
		if !equalTensors(sym.View[2+i].Points, back.View[i].Points) {
			t.Errorf("symmetric: view %d of the pair the other way round differs", i)
		}
	}
	only, err := e.Infer(t.Context(), pics[0], pics[1], gomps.InferOptions{Only: gomps.OutputConf})
	if err != nil || only.View[0].Points != nil || !equalTensors(only.View[1].Conf, r.View[1].Conf) {
		t.Errorf("confidence alone: %v, %+v", err, only)
	}
	before := e.Info().Encodes
	inferViews(t, e, pictures(7, 60, 90), gomps.ViewsOptions{Window: 3, Overlap: 2})
	if n := e.Info().Encodes - before; n != 7 {
		t.Errorf("%d encodes of 7 pictures in windows", n)
	}
}

func TestUnsupported(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 84}, "da3_tiny")
	pics := pictures(2, 56, 84)
	ctx := t.Context()
	for what, f := range map[string]func() error{
		"descriptors": func() error {
			_, err := e.Infer(ctx, pics[0], pics[1], gomps.InferOptions{Only: gomps.OutputDesc | gomps.OutputPoints})
			return err
		},
		"4:3": func() error {
			_, err := e.Infer(ctx, pics[0], pics[1], gomps.InferOptions{Rectangle43: true})
			return err
		},
		"export":    func() error { return e.ExportONNX(ctx, t.TempDir()+"/x.onnx", gomps.ExportOptions{}) },
		"profile":   func() error { _, err := e.Profile(ctx, pics[0], pics[1], gomps.ProfileOptions{}); return err },
		"retrieval": func() error { return e.LoadRetrieval(ctx, t.TempDir()) },
	} {
		err := f()
		var u *gomps.UnsupportedError
		if !errors.Is(err, gomps.ErrUnsupported) || !errors.As(err, &u) || u.Instead == "" {
			t.Errorf("%s: %v, want an UnsupportedError", what, err)
		}
	}
	m := open(t, gomps.Config{}, "mast3r_micro")
	if _, err := m.InferViews(ctx, pics, gomps.ViewsOptions{}); !errors.Is(err, gomps.ErrUnsupported) {
		t.Errorf("many views with MASt3R: %v", err)
	}
	k := gomps.KnownCamera{Pose: [3][4]float64{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}, Intrinsics: [3][3]float64{{70, 0, 42}, {0, 70, 28}, {0, 0, 1}}}
	bad := k
	bad.Pose[0][0] = 2
	blind := k
	blind.Intrinsics[1][1] = math.NaN()
	for what, o := range map[string]gomps.ViewsOptions{
		"rule": {Reference: "best"}, "window": {Window: -1}, "overlap": {Window: 2, Overlap: 2}, "resolution": {Resolution: 9000},
		"one camera": {Cameras: []gomps.KnownCamera{k}}, "no rotation": {Cameras: []gomps.KnownCamera{k, bad}}, "no focal length": {Cameras: []gomps.KnownCamera{k, blind}},
		"raw": {Raw: true},
	} {
		p := pics
		if what == "raw" {
			p = pictures(2, 57, 84)
		}
		if _, err := e.InferViews(ctx, p, o); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	if _, err := e.InferViews(ctx, nil, gomps.ViewsOptions{}); !errors.Is(err, gomps.ErrShape) {
		t.Errorf("no pictures: %v", err)
	}
}

// TestViewsOfDifferentSizes: they are cut to the smallest of each side, and the
// transforms say so.
func TestViewsOfDifferentSizes(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 84}, "da3_tiny")
	s := inferViews(t, e, []gomps.Image{picture(60, 90, 0), picture(90, 60, 3), picture(80, 80, 6)}, gomps.ViewsOptions{})
	for i, v := range s.View {
		if !slices.Equal(v.Depth.Shape(), []int{56, 56}) {
			t.Errorf("view %d is %v, want [56 56]", i, v.Depth.Shape())
		}
		x, y := v.Transform.ToOriginal(27.5, 27.5)
		if w, h := float64(v.Transform.OriginalW), float64(v.Transform.OriginalH); math.Abs(x-(w-1)/2)+math.Abs(y-(h-1)/2) > 1e-9 {
			t.Errorf("view %d: the middle is at %v,%v of %vx%v", i, x, y, w, h)
		}
	}
}

// TestKnownCameras: what comes out has the cameras that went in, seen from the first,
// and turning the world they are given in changes nothing.
func TestKnownCameras(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 84}, "da3_tiny")
	pics := pictures(3, 112, 168)
	cams := make([]gomps.KnownCamera, 3)
	turned := make([]gomps.KnownCamera, 3)
	for i := range cams {
		s, c := math.Sincos(0.2 * float64(i))
		cams[i] = gomps.KnownCamera{Pose: [3][4]float64{{c, 0, s, 5 * float64(i)}, {0, 1, 0, float64(i * i)}, {-s, 0, c, 0}},
			Intrinsics: [3][3]float64{{150, 0, 84}, {0, 150, 56}, {0, 0, 1}}}
		p := cams[i].Pose
		turned[i] = cams[i]
		turned[i].Pose = [3][4]float64{p[1], p[2], p[0]} // axes changed in turn
		turned[i].Pose[0][3] += 7
	}
	a := inferViews(t, e, pics, gomps.ViewsOptions{Cameras: cams})
	b := inferViews(t, e, pics, gomps.ViewsOptions{Cameras: turned})
	for i, v := range a.View {
		if math.Abs(v.Intrinsics[0][0]-75) > 1e-9 || math.Abs(v.Pose[0][3]-cams[i].Pose[0][3]) > 1e-9 {
			t.Errorf("view %d: pose %v, intrinsics %v", i, v.Pose, v.Intrinsics)
		}
		checkPoints(t, v)
		d, f := v.Depth.Float32s(), b.View[i].Depth.Float32s()
		for k := range d {
			if math.Abs(float64(d[k]-f[k])) > 1e-4*float64(d[k]) {
				t.Fatalf("view %d: depth %v, %v in a turned world", i, d[k], f[k])
			}
		}
	}
	free := inferViews(t, e, pics, gomps.ViewsOptions{})
	if equalTensors(free.View[1].Depth, a.View[1].Depth) {
		t.Error("known cameras changed nothing")
	}
}

// TestWindows: which views are looked at together, and that each window was laid on
// those before it.
func TestWindows(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 84}, "da3_tiny")
	same := make([]gomps.Image, 9)
	for i := range same {
		same[i] = picture(60, 90, 0)
	}
	s := inferViews(t, e, same, gomps.ViewsOptions{Window: 4, Overlap: 2, Reference: "first"})
	want := []gomps.WindowReport{{First: 0, Count: 4}, {First: 2, Count: 4, Reference: 2, Overlap: 2}, {First: 4, Count: 4, Reference: 4, Overlap: 2}, {First: 5, Count: 4, Reference: 5, Overlap: 3}}
	if len(s.Windows) != len(want) {
		t.Fatalf("%d windows, want %d: %+v", len(s.Windows), len(want), s.Windows)
	}
	for i, w := range s.Windows {
		if g := want[i]; w.First != g.First || w.Count != g.Count || w.Reference != g.Reference || w.Overlap != g.Overlap {
			t.Errorf("window %d is %+v, want %+v", i, w, g)
		}
		if i > 0 && (w.Points < 1000 || !(w.Scale > 0.2 && w.Scale < 5)) {
			t.Errorf("window %d: scale %v, residual %v from %d points", i, w.Scale, w.Residual, w.Points)
		}
	}
	for _, v := range s.View {
		checkPoints(t, v)
	}
}

// TestOneView: a network of one view takes pictures one by one, fills the sky in, and
// knows no cameras but those it is given.
func TestOneView(t *testing.T) {
	d, err := synth.Variant("da3_tiny")
	if err != nil {
		t.Fatal(err)
	}
	d.Start = 0
	pool := par.New(1)
	defer pool.Close()
	dir := t.TempDir()
	meta := map[string]string{"variant": "da3_metric_large", "dpt_hooks": "3,4,5,7", "enc_heads": "2"}
	if err := synth.Write(pool, dir, d, synth.Loud, meta); err != nil {
		t.Fatal(err)
	}
	e := open(t, gomps.Config{Resolution: 84}, "da3_tiny")
	if err := e.Load(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	pics := pictures(2, 56, 84)
	s := inferViews(t, e, pics, gomps.ViewsOptions{})
	alone := inferViews(t, e, pics[1:], gomps.ViewsOptions{})
	if !equalTensors(s.View[1].Depth, alone.View[0].Depth) {
		t.Error("a view depends on another")
	}
	v := s.View[0]
	if v.Conf != nil || v.Points != nil || v.Sky == nil {
		t.Errorf("a view without a camera: %+v", v)
	}
	// The sky, where there is one beside other things, has one depth.
	sky, depth := v.Sky.Float32s(), v.Depth.Float32s()
	in := map[float32]int{}
	rest := 0
	for i, x := range sky {
		if x >= 0.3 {
			in[depth[i]]++
		} else {
			rest++
		}
	}
	if rest > 10 && len(sky)-rest > 10 && len(in) != 1 {
		t.Errorf("%d depths in the sky, want one", len(in))
	}
	cam := gomps.KnownCamera{Pose: [3][4]float64{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}, Intrinsics: [3][3]float64{{600, 0, 42}, {0, 600, 28}, {0, 0, 1}}}
	metric := inferViews(t, e, pics[:1], gomps.ViewsOptions{Cameras: []gomps.KnownCamera{cam}})
	for i, x := range metric.View[0].Depth.Float32s() {
		if sky[i] < 0.3 && math.Abs(float64(x/depth[i])-2) > 1e-5 { // 600 / 300
			t.Fatalf("metric depth %v of %v, want twice", x, depth[i])
		}
	}
	checkPoints(t, metric.View[0])
}
