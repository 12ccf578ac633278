// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/da3"
)

// ViewsOptions are the options of InferViews.
type ViewsOptions struct {
	// Raw uses the pictures without resizing; their sides must be multiples of the
	// patch size. Otherwise the long side becomes Resolution and each side the nearest
	// multiple of the patch size. Pictures that then differ in size are cut, in the
	// middle, to the smallest height and width (da3.md 2).
	Raw bool
	// Resolution is the long side of the pictures in this call; 0: the engine's.
	Resolution int
	// Reference is the rule that chooses the view to which the others refer, one of
	// ReferenceRules; "" is the first of them.
	Reference string
	// Rays asks for the rays of each view too, which take as long as its depth.
	Rays bool
	// Cameras are those of the pictures, where they are known: one for each, or none.
	// Depth then has the units of their poses.
	Cameras []KnownCamera
	// Window is how many views are looked at together, of which Overlap are those of
	// the window before: more windows than one are laid on each other by the views
	// that they share. 0: all views in one window if their memory is there, else as
	// many as fit; and a third of the window. Reference views are chosen in each.
	Window, Overlap int
}

// KnownCamera is the camera of a picture of the user's size.
type KnownCamera struct {
	// Pose takes points of the camera to the world, OpenCV axes.
	Pose [3][4]float64
	// Intrinsics are in pixels of the picture.
	Intrinsics [3][3]float64
}

// ReferenceRules are the rules by which a reference view is chosen, the default first.
var ReferenceRules = slices.Clone(da3.Rules)

// maxViews bounds the views of a call.
const maxViews = 1 << 16

// Scene is the reconstruction of pictures in one world, which is the frame of the
// first one's camera. Its unit is the network's own, the same for all views, unless
// cameras were given.
type Scene struct {
	View []SceneView
	// Windows are how the views were looked at; one, as a rule.
	Windows []WindowReport
	Timing  Timing
}

// Release gives the memory of all views back.
func (s *Scene) Release() {
	for i := range s.View {
		s.View[i].Release()
	}
}

// SceneView is one view of a scene. H and W are its network size.
type SceneView struct {
	// Depth [H,W] is along the camera's axis, Conf [H,W] its confidence, at least 1;
	// nil for networks that have none.
	Depth, Conf *Tensor
	// Points [H,W,3] are in the world.
	Points *Tensor
	// Rays [h,w,6] are direction and centre of a ray for each cell of 8/14 of H and W,
	// as the network sees them, in the frame of the window's reference; RayConf [h,w]
	// their confidence. nil unless asked for.
	Rays, RayConf *Tensor
	// Sky [H,W] is from 0.3 on where the sky is, whose depth is then that of the
	// farthest things; of networks of one view only. Such a network knows no cameras:
	// Pose, Intrinsics and Points are there where the camera was given.
	Sky *Tensor
	// Pose takes points of the camera to the world.
	Pose [3][4]float64
	// Intrinsics are in pixels of the network's picture; Transform takes them to the
	// user's.
	Intrinsics [3][3]float64
	// Transform describes how the picture was resized and cropped.
	Transform Transform
}

// Release gives the memory of the tensors back.
func (v *SceneView) Release() {
	for _, t := range []*Tensor{v.Depth, v.Conf, v.Points, v.Rays, v.RayConf, v.Sky} {
		if t != nil {
			t.Release()
		}
	}
}

// WindowReport is a window of views and how it was laid on those before it.
type WindowReport struct {
	// First and Count are its views, Reference the one to which the others refer.
	First, Count, Reference int
	// Overlap is how many views it shares with those before, and Scale the size that
	// its own unit has in the scene's. Residual is the root mean square of how far the
	// shared points are apart, relative to their distance from their camera, Points how
	// many were compared. 0, 1, 0 and 0 for the first window.
	Overlap  int
	Scale    float64
	Residual float64
	Points   int
}

func (o *ViewsOptions) check(views int) error {
	o.Reference = cmp.Or(o.Reference, ReferenceRules[0])
	switch {
	case views < 1 || views > maxViews:
		return &ShapeError{"pictures", fmt.Sprint(views), fmt.Sprintf("1 to %d", maxViews)}
	case !slices.Contains(ReferenceRules, o.Reference):
		return &ConfigError{"Reference", o.Reference, "one of " + strings.Join(ReferenceRules, ", ")}
	case o.Resolution < 0 || o.Resolution > maxResolution:
		return &ConfigError{"Resolution", fmt.Sprint(o.Resolution), fmt.Sprintf("0 to %d", maxResolution)}
	case o.Window < 0 || o.Window > maxViews:
		return &ConfigError{"Window", fmt.Sprint(o.Window), fmt.Sprintf("0 to %d", maxViews)}
	case o.Overlap < 0 || o.Window > 0 && o.Overlap >= o.Window:
		return &ConfigError{"Overlap", fmt.Sprint(o.Overlap), "at least 0 and less than Window"}
	case o.Cameras != nil && len(o.Cameras) != views:
		return &ShapeError{"cameras", fmt.Sprint(len(o.Cameras)), fmt.Sprintf("%d, one for each picture, or none", views)}
	}
	for i, c := range o.Cameras {
		if err := c.check(); err != nil {
			return fmt.Errorf("gomps: camera %d: %w", i, err)
		}
	}
	return nil
}

// check wants a rotation and focal lengths that are one.
func (c KnownCamera) check() error {
	const most = 1e-3
	p, k := c.Pose, c.Intrinsics
	det := p[0][0]*(p[1][1]*p[2][2]-p[1][2]*p[2][1]) - p[0][1]*(p[1][0]*p[2][2]-p[1][2]*p[2][0]) + p[0][2]*(p[1][0]*p[2][1]-p[1][1]*p[2][0])
	worst := math.Abs(det - 1)
	for i := range 3 {
		for j := range 3 {
			sum := 0.0
			for l := range 3 {
				sum += p[i][l] * p[j][l]
			}
			if i == j {
				sum--
			}
			worst = max(worst, math.Abs(sum))
		}
		if v := p[i][3]; math.IsNaN(v) || math.Abs(v) > 1e12 {
			return &ShapeError{"pose", fmt.Sprintf("the centre %v", v), "a finite number"}
		}
	}
	if !(worst <= most) {
		return &ShapeError{"pose", fmt.Sprint(p), "a rotation in the first three columns"}
	}
	for _, f := range []float64{k[0][0], k[1][1]} {
		if !(f > 0) || math.IsInf(f, 1) {
			return &ShapeError{"intrinsics", fmt.Sprintf("a focal length of %v", f), "a finite number above 0"}
		}
	}
	return nil
}

// InferViews reconstructs one to many pictures of a scene, with a network that can:
// depth, points, confidence, pose and intrinsics of each. Every picture is encoded
// once, however many windows it is in.
func (e *Engine) InferViews(ctx context.Context, images []Image, opt ViewsOptions) (*Scene, error) {
	if err := opt.check(len(images)); err != nil {
		return nil, err
	}
	l, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer e.turn.give()
	if l.views == nil {
		return nil, &UnsupportedError{l.facts.Variant, "scenes of many views", "call Infer for each pair, or load a network of many views, as da3_base is"}
	}
	j := e.newJob(ctx, l, 0)
	defer j.close()
	s := &Scene{View: make([]SceneView, len(images))}
	v := &viewsCall{job: j, opt: opt, out: s}
	j.fitViews = v.fit
	if v.pics, err = j.prepare(images, InferOptions{Raw: opt.Raw, Resolution: opt.Resolution}); err != nil {
		return nil, err
	}
	if err := v.run(); err != nil {
		return nil, err
	}
	j.keep(&s.Timing)
	return s, nil
}
