// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/da3"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// oneView says whether the network takes one view at a time and tells the sky from the
// rest (da3.md 11).
func (l *loaded) oneView() bool { return l.views.Outputs()&da3.Sky != 0 }

// metricVariant is the network whose depth is in metres times 300 over the focal
// length.
const metricVariant, metricFocal = "da3_metric_large", 300

// lookAtOne runs a network of one view on view i.
func (c *viewsCall) lookAtOne(i int) ([]SceneView, error) {
	w, err := c.begin(decoderQueue)
	if err != nil {
		return nil, err
	}
	views := make([]SceneView, 1)
	if _, err := w.views(c.pics[i:i+1], []int{0}, nil, c.opt.Rays, views); err != nil {
		return nil, err
	}
	if err := w.finish(&c.out.Timing); err != nil {
		return nil, err
	}
	v := &views[0]
	v.Pose = [3][4]float64{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}
	scale := 1.0
	if c.opt.Cameras != nil {
		cam := c.opt.Cameras[i]
		v.Pose, v.Intrinsics = cam.Pose, v.Transform.IntrinsicsToNetwork(cam.Intrinsics)
		if c.l.facts.Variant == metricVariant {
			scale = (v.Intrinsics[0][0] + v.Intrinsics[1][1]) / 2 / metricFocal
		}
	}
	return views, c.finishDepth(v, float32(scale))
}

// finishDepth multiplies the depth of a view and gives its sky one. The result has memory
// of its own: what the host writes into that of a device stays with the host.
func (c *viewsCall) finishDepth(v *SceneView, by float32) error {
	for _, t := range []*Tensor{v.Depth, v.Sky} {
		if err := t.Fetch(); err != nil {
			return err
		}
	}
	t, buf, err := c.result(&graph.Node{Shape: v.Depth.shape, DType: tensor.F32})
	if err != nil {
		return err
	}
	d := v.Depth.Float32s()
	out := float32s(buf.Bytes(), len(d))
	for i, x := range d {
		out[i] = by * x
	}
	fillSky(out, v.Sky.Float32s())
	v.Depth.Release()
	v.Depth = t
	return nil
}

// fillSky gives the sky the depth of the farthest things, unless there is next to
// nothing of one of the two.
func fillSky(depth, sky []float32) {
	const limit, least, far = 0.3, 10, 0.99
	var rest []float32
	for i, s := range sky {
		if !(s >= limit) {
			rest = append(rest, depth[i])
		}
	}
	if len(rest) <= least || len(sky)-len(rest) <= least {
		return
	}
	slices.Sort(rest)
	at := far * float64(len(rest)-1)
	low := int(at)
	high := min(low+1, len(rest)-1)
	value := rest[low] + float32(at-float64(low))*(rest[high]-rest[low])
	for i, s := range sky {
		if s >= limit {
			depth[i] = value
		}
	}
}
