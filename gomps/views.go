// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/geometry"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/da3"
)

// viewsCall is the state of a call with a network of many views.
type viewsCall struct {
	*job
	opt  ViewsOptions
	pics []*picture
	out  *Scene
	// done is how many views of out are there.
	done int
	// fits says that the memory of the call was looked at.
	fits bool
}

// together is how many pictures are encoded at once.
const together = 4

// run encodes the pictures, then looks at one window after another.
func (c *viewsCall) run() error {
	if err := c.fit(len(c.pics), c.pics[0].height, c.pics[0].width); err != nil {
		return err
	}
	if err := c.encode(); err != nil {
		return err
	}
	for _, w := range c.windows() {
		if err := c.window(w[0], w[1]); err != nil {
			return err
		}
	}
	return c.finish()
}

// encode fills in the features of the pictures that have none.
func (c *viewsCall) encode() error {
	w, err := c.begin(encoderQueue)
	if err != nil {
		return err
	}
	var bare []*picture
	for _, p := range c.pics {
		if p.feat == nil {
			bare = append(bare, p)
		}
	}
	for len(bare) > 0 {
		n := min(together, len(bare))
		if err := w.encode(bare[:n]...); err != nil {
			return err
		}
		bare = bare[n:]
	}
	return w.finish(&c.out.Timing)
}

// windows are the ranges of views that are looked at together.
func (c *viewsCall) windows() [][2]int {
	n := len(c.pics)
	size := c.opt.Window
	if c.l.oneView() {
		list := make([][2]int, n)
		for i := range list {
			list[i] = [2]int{i, i + 1}
		}
		return list
	}
	if size == 0 || size >= n {
		return [][2]int{{0, n}}
	}
	overlap := c.opt.Overlap
	if overlap == 0 {
		overlap = max(size/3, 1)
	}
	step := max(size-overlap, 1)
	var list [][2]int
	for at := 0; ; at += step {
		if at+size >= n {
			// The last one is full, so that its views know as many others.
			return append(list, [2]int{n - size, n})
		}
		list = append(list, [2]int{at, at + size})
	}
}

// window looks at views from to to and lays them on those that are done.
func (c *viewsCall) window(from, to int) error {
	views, report, err := c.look(from, to)
	if err != nil {
		return err
	}
	report.Overlap = max(c.done-from, 0)
	if report.Overlap > 0 {
		if err := c.align(views, &report); err != nil {
			return err
		}
	}
	for i := range views {
		if from+i < c.done {
			views[i].Release()
			continue
		}
		c.out.View[from+i] = views[i]
	}
	c.done = max(c.done, to)
	c.out.Windows = append(c.out.Windows, report)
	return nil
}

// look runs everything after the encoder on views from to to. Their poses are the
// network's own.
func (c *viewsCall) look(from, to int) ([]SceneView, WindowReport, error) {
	report := WindowReport{First: from, Count: to - from, Scale: 1}
	pics := c.pics[from:to]
	if c.l.oneView() {
		views, err := c.lookAtOne(from)
		return views, report, err
	}
	given, err := c.given(from, to)
	if err != nil {
		return nil, report, err
	}
	reference := 0
	if given == nil {
		if reference, err = c.reference(pics); err != nil {
			return nil, report, err
		}
	}
	report.Reference = from + reference
	w, err := c.begin(decoderQueue)
	if err != nil {
		return nil, report, err
	}
	order := da3.Order(len(pics), reference)
	views := make([]SceneView, len(pics))
	pose, err := w.views(pics, order, given, c.opt.Rays, views)
	if err != nil {
		return nil, report, err
	}
	if err := w.finish(&c.out.Timing); err != nil {
		return nil, report, err
	}
	if err := pose.Fetch(); err != nil {
		return nil, report, deviceError("read the cameras", err)
	}
	f := float32s(pose.Bytes(), len(pics)*da3.PoseDim)
	for place, i := range order {
		cam := da3.Decode(f[place*da3.PoseDim : (place+1)*da3.PoseDim])
		views[i].Pose = cam.Pose
		views[i].Intrinsics = cam.Intrinsics(pics[i].height, pics[i].width)
	}
	pose.Release()
	if given != nil {
		if err := c.known(from, views); err != nil {
			return nil, report, err
		}
	}
	return views, report, nil
}

// reference chooses the view to which the others of a window refer.
func (c *viewsCall) reference(pics []*picture) (int, error) {
	n, d := len(pics), c.l.facts.EncDim
	if n < 3 {
		return da3.Reference(make([][]float32, n), c.opt.Reference)
	}
	rows := c.l.rows(pics[0].height, pics[0].width)
	p, err := c.program(part{what: "class", images: n, h1: rows, exact: true}, func() (*graph.Graph, error) { return classGraph(n, rows, d) })
	if err != nil {
		return 0, err
	}
	var in []backend.Buffer
	for _, pic := range pics {
		in = append(in, pic.feat)
	}
	out, err := c.temp(4 * n * d)
	if err != nil {
		return 0, err
	}
	w, err := c.begin(decoderQueue)
	if err != nil {
		return 0, err
	}
	if err := w.run(p, in, []backend.Buffer{out}); err != nil {
		return 0, err
	}
	if err := w.finish(&c.out.Timing); err != nil {
		return 0, err
	}
	if err := out.Fetch(); err != nil {
		return 0, deviceError("read features", err)
	}
	class := make([][]float32, n)
	all := float32s(out.Bytes(), n*d)
	for i := range class {
		class[i] = all[i*d : (i+1)*d]
	}
	return da3.Reference(class, c.opt.Reference)
}

// given are the camera tokens of views whose cameras are known; nil without.
func (c *viewsCall) given(from, to int) (backend.Buffer, error) {
	if c.opt.Cameras == nil {
		return nil, nil
	}
	rel, _ := da3.Relative(c.cameras(from, to))
	n := to - from
	p, err := c.program(part{what: "tokens", images: n}, func() (*graph.Graph, error) { return c.l.views.Tokens(n) })
	if err != nil {
		return nil, err
	}
	in, err := c.temp(4 * n * da3.PoseDim)
	if err != nil {
		return nil, err
	}
	copy(float32s(in.Bytes(), n*da3.PoseDim), da3.Encode(rel))
	out, err := c.temp(p.Graph().Outputs[0].Node.Bytes())
	if err != nil {
		return nil, err
	}
	w, err := c.begin(decoderQueue)
	if err != nil {
		return nil, err
	}
	if err := w.run(p, []backend.Buffer{in}, []backend.Buffer{out}); err != nil {
		return nil, err
	}
	return out, w.finish(&c.out.Timing)
}

// cameras are known cameras at network size.
func (c *viewsCall) cameras(from, to int) []da3.Camera {
	list := make([]da3.Camera, to-from)
	for i := range list {
		p, k := c.pics[from+i], c.opt.Cameras[from+i]
		list[i] = da3.CameraOf(k.Pose, p.transform.IntrinsicsToNetwork(k.Intrinsics), p.height, p.width)
	}
	return list
}

// known puts the known cameras in the place of the network's and brings depth to their
// unit: by the sizes that both have around their middle (da3.md 9).
func (c *viewsCall) known(from int, views []SceneView) error {
	cams := c.cameras(from, from+len(views))
	size := func(at func(i int) [3]float64) float64 {
		var mean [3]float64
		for i := range views {
			for k, v := range at(i) {
				mean[k] += v / float64(len(views))
			}
		}
		sum := 0.0
		for i := range views {
			for k, v := range at(i) {
				sum += (v - mean[k]) * (v - mean[k])
			}
		}
		return sum
	}
	centre := func(p [3][4]float64) [3]float64 { return [3]float64{p[0][3], p[1][3], p[2][3]} }
	ours := size(func(i int) [3]float64 { return centre(views[i].Pose) })
	theirs := size(func(i int) [3]float64 { return centre(cams[i].Pose) })
	scale := 1.0
	if ours > 0 && theirs > 0 {
		scale = math.Sqrt(theirs / ours)
	} else if _, unit := da3.Relative(cams); unit > 0 {
		scale = unit
	}
	for i := range views {
		k := c.opt.Cameras[from+i].Intrinsics
		views[i].Pose, views[i].Intrinsics = cams[i].Pose, views[i].Transform.IntrinsicsToNetwork(k)
	}
	return c.stretch(views, float32(scale))
}

// stretch multiplies the depth of views.
func (c *viewsCall) stretch(views []SceneView, by float32) error {
	return c.each(views, func(w *work, v *SceneView) error { return w.stretch(v, by) })
}

// each runs programs for each view, and waits for all.
func (c *viewsCall) each(views []SceneView, run func(w *work, v *SceneView) error) error {
	w, err := c.begin(decoderQueue)
	if err != nil {
		return err
	}
	for i := range views {
		if err := run(w, &views[i]); err != nil {
			return err
		}
	}
	return w.finish(&c.out.Timing)
}

// align lays the views of a window on those that are done, by the points of the views
// that are in both.
func (c *viewsCall) align(views []SceneView, r *WindowReport) error {
	if c.opt.Cameras != nil {
		return nil // one world already
	}
	const most = 4096 // pairs of points of a view
	var a, b, origin []geometry.Vec3
	var weight []float64
	for i := range r.Overlap {
		old, fresh := &c.out.View[r.First+i], &views[i]
		x, err := old.lift()
		if err != nil {
			return err
		}
		y, err := fresh.lift()
		if err != nil {
			return err
		}
		cell := old.Depth.shape[1]
		for at, step := 0, max(len(x.depth)/most, 1)|1; at < len(x.depth); at += step {
			p, q := x.at(at%cell, at/cell), y.at(at%cell, at/cell)
			w := float64(min(x.conf(at), y.conf(at)))
			if !usable(p) || !usable(q) || !(w > 0) || w > 1e30 {
				continue
			}
			a, b, weight = append(a, p), append(b, q), append(weight, w)
			origin = append(origin, geometry.Vec3{old.Pose[0][3], old.Pose[1][3], old.Pose[2][3]})
		}
	}
	e, err := geometry.Similarity(a, b, weight, origin)
	if err != nil {
		return fmt.Errorf("gomps: views %d to %d: %w", r.First, r.First+r.Count-1, err)
	}
	if e.Pose == nil {
		return &ShapeError{"windows", fmt.Sprintf("views %d to %d, whose points do not say where they are: %s", r.First, r.First+r.Overlap-1, e.Reason), "a larger Window or Overlap"}
	}
	r.Scale, r.Residual, r.Points = e.Scale, e.RMS, len(a)
	move := da3.Pose{}
	for i := range move {
		copy(move[i][:], e.Pose.R[i][:])
		move[i][3] = e.Pose.T[i]
	}
	for i := range views {
		p := views[i].Pose
		for row := range p {
			p[row][3] *= e.Scale
		}
		views[i].Pose = move.Times(p)
	}
	return c.stretch(views, float32(e.Scale))
}

// finish makes the first camera the world and computes the points.
func (c *viewsCall) finish() error {
	origin := da3.Inverse(c.out.View[0].Pose)
	return c.each(c.out.View, func(w *work, v *SceneView) error {
		v.Pose = origin.Times(v.Pose)
		if v.Intrinsics == ([3][3]float64{}) {
			return nil // of a network of one view, which does not know them
		}
		return w.points(v)
	})
}

// views runs the trunk, the cameras and the heads on encoded pictures and fills in
// what the heads give. It returns the cameras' numbers, in the order given.
func (w *work) views(pics []*picture, order []int, given backend.Buffer, rays bool, out []SceneView) (backend.Buffer, error) {
	f, net, n := w.j.l.facts, w.j.l.views, len(pics)
	h, wd := pics[0].height, pics[0].width
	p, err := w.j.program(part{what: "trunk", images: n, h1: h, w1: wd, given: given != nil}, func() (*graph.Graph, error) {
		return net.Trunk(n, f.GridOf(h, wd), given != nil)
	})
	if err != nil {
		return nil, err
	}
	var in []backend.Buffer
	for _, i := range order {
		in = append(in, pics[i].feat)
	}
	if given != nil {
		in = append(in, given)
	}
	hooks := make([]backend.Buffer, len(p.Graph().Outputs))
	for i, o := range p.Graph().Outputs {
		if hooks[i], err = w.j.temp(o.Node.Bytes()); err != nil {
			return nil, err
		}
	}
	w.temps = append(w.temps, hooks...)
	if err := w.run(p, in, hooks); err != nil {
		return nil, err
	}
	w.j.l.counts.decodes.Add(1)
	each := len(hooks) / n
	var pose backend.Buffer
	if net.Outputs()&da3.Conf != 0 {
		if pose, err = w.cameras(n, hooks[len(hooks)-1]); err != nil {
			return nil, err
		}
		each = (len(hooks) - 1) / n
	}
	for place, i := range order {
		if err := w.depth(pics[i], hooks[each*place:each*(place+1)], rays, &out[i]); err != nil {
			return nil, err
		}
	}
	return pose, nil
}

// cameras runs the camera decoder.
func (w *work) cameras(n int, camera backend.Buffer) (backend.Buffer, error) {
	p, err := w.j.program(part{what: "camera", images: n}, func() (*graph.Graph, error) { return w.j.l.views.Camera(n) })
	if err != nil {
		return nil, err
	}
	out, err := w.j.temp(p.Graph().Outputs[0].Node.Bytes())
	if err != nil {
		return nil, err
	}
	return out, w.run(p, []backend.Buffer{camera}, []backend.Buffer{out})
}

// depth runs the head of one view.
func (w *work) depth(pic *picture, hooks []backend.Buffer, rays bool, v *SceneView) error {
	net := w.j.l.views
	want := net.Outputs() & (da3.Depth | da3.Conf | da3.Sky)
	if rays {
		want |= da3.Rays | da3.RayConf
	}
	if lacks := want &^ net.Outputs(); lacks != 0 {
		return &UnsupportedError{w.j.l.facts.Variant, "rays", "ask for none"}
	}
	p, err := w.j.program(part{what: "depth", h1: pic.height, w1: pic.width, rays: rays}, func() (*graph.Graph, error) {
		g, err := net.Head(pic.height, pic.width, want)
		if err != nil || !w.j.l.apart {
			return g, err
		}
		return withTotal(g)
	})
	if err != nil {
		return err
	}
	var out []backend.Buffer
	slots := map[string]**Tensor{"depth": &v.Depth, "conf": &v.Conf, "rays": &v.Rays, "ray_conf": &v.RayConf, "sky": &v.Sky}
	for _, o := range p.Graph().Outputs {
		if slots[o.Name] == nil {
			continue // withTotal's
		}
		t, buf, err := w.j.result(o.Node)
		if err != nil {
			return err
		}
		t.shape = t.shape[1:] // a batch of one
		w.outs, out = append(w.outs, t), append(out, buf)
		*slots[o.Name] = t
	}
	v.Transform = pic.transform
	if out, err = w.total(out); err != nil {
		return err
	}
	if err := w.run(p, hooks, out); err != nil {
		return err
	}
	w.j.l.counts.heads.Add(1)
	return nil
}
