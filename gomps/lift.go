// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/geometry"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Depth becomes points where it is: on a GPU it does not pass through the host.

// cameraSize are the numbers of a camera for pointsGraph.
const cameraSize = 12

// pointsGraph takes the pixels (x, y) of a view to the world (da3.md 10): depth times
// A (x, y, 1), plus the camera's centre. Inputs: depth f32 [H,W,1]; camera f32 [12], the
// columns of A and the centre. Output: points f32 [H,W,3].
func pointsGraph(height, width int) (*graph.Graph, error) {
	g := graph.New("points")
	depth, camera := g.Input("depth", tensor.F32, height, width, 1), g.Input("camera", tensor.F32, cameraSize)
	column := func(i int) *graph.Node { return g.Reshape(g.SliceAxis(camera, 0, 3*i, 3*i+3), 1, 1, 3) }
	x, y := g.Param(whole("x", width, 1, width, 1)), g.Param(whole("y", height, height, 1, 1))
	ray := g.AddTo(g.AddTo(g.Binary(graph.Mul, column(0), x), column(2)), g.Binary(graph.Mul, column(1), y))
	g.Output("points", g.AddTo(g.Binary(graph.Mul, ray, depth), column(3)))
	return g.Build()
}

// whole are the numbers 0, 1, 2, ...
func whole(name string, n int, shape ...int) graph.Param {
	data := make([]byte, 0, 4*n)
	for i := range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i)))
	}
	return graph.Param{Name: name, Shape: shape, DType: tensor.F32, Data: data}
}

// stretchGraph multiplies depth f32 [H,W] by a number f32 [1].
func stretchGraph(height, width int) (*graph.Graph, error) {
	g := graph.New("stretch")
	depth, by := g.Input("depth", tensor.F32, height, width), g.Input("by", tensor.F32, 1)
	g.Output("depth", g.Binary(graph.Mul, depth, by))
	return g.Build()
}

// classGraph takes the first row of each picture's features, by which a reference view is
// chosen: that is all of them that the host reads.
func classGraph(images, rows, dim int) (*graph.Graph, error) {
	g := graph.New("class")
	first := make([]*graph.Node, images)
	for i := range first {
		first[i] = g.SliceAxis(g.Input(fmt.Sprintf("feat%d", i), tensor.F32, rows, dim), 0, 0, 1)
	}
	g.Output("class", g.Concat(0, first...))
	return g.Build()
}

// numbers is a buffer of the job's with these numbers.
func (j *job) numbers(v ...float32) (backend.Buffer, error) {
	b, err := j.temp(4 * len(v))
	if err != nil {
		return nil, err
	}
	copy(float32s(b.Bytes(), len(v)), v)
	return b, nil
}

// points makes the points of a view in the world.
func (w *work) points(v *SceneView) error {
	h, wd := v.Depth.shape[0], v.Depth.shape[1]
	p, err := w.j.program(part{what: "points", h1: h, w1: wd, exact: true}, func() (*graph.Graph, error) { return pointsGraph(h, wd) })
	if err != nil {
		return err
	}
	l := v.camera()
	var numbers []float32
	for _, column := range [][3]float64{{1 / l.fx, 0, 0}, {0, 1 / l.fy, 0}, {-l.cx / l.fx, -l.cy / l.fy, 1}} {
		for _, row := range l.pose {
			numbers = append(numbers, float32(row[0]*column[0]+row[1]*column[1]+row[2]*column[2]))
		}
	}
	for _, row := range l.pose {
		numbers = append(numbers, float32(row[3]))
	}
	camera, err := w.j.numbers(numbers...)
	if err != nil {
		return err
	}
	t, out, err := w.j.result(p.Graph().Outputs[0].Node)
	if err != nil {
		return err
	}
	v.Points = t
	return w.run(p, []backend.Buffer{*v.Depth.mem.buf.Load(), camera}, []backend.Buffer{out})
}

// stretch multiplies the depth of a view.
func (w *work) stretch(v *SceneView, by float32) error {
	h, wd := v.Depth.shape[0], v.Depth.shape[1]
	p, err := w.j.program(part{what: "stretch", h1: h, w1: wd, exact: true}, func() (*graph.Graph, error) { return stretchGraph(h, wd) })
	if err != nil {
		return err
	}
	factor, err := w.j.numbers(by)
	if err != nil {
		return err
	}
	t, out, err := w.j.result(p.Graph().Outputs[0].Node)
	if err != nil {
		return err
	}
	old := *v.Depth.mem.buf.Load()
	v.Depth, w.temps = t, append(w.temps, old)
	return w.run(p, []backend.Buffer{old, factor}, []backend.Buffer{out})
}

// lift takes pixels of a view to the world, on the host (da3.md 10).
type lift struct {
	depth, confidence []float32
	width             int
	pose              [3][4]float64
	fx, fy, cx, cy    float64
}

// camera is a lift without depth.
func (v *SceneView) camera() lift {
	k := v.Intrinsics
	return lift{width: v.Depth.shape[1], pose: v.Pose, fx: k[0][0], fy: k[1][1], cx: k[0][2], cy: k[1][2]}
}

func (v *SceneView) lift() (lift, error) {
	l := v.camera()
	if err := v.Depth.Fetch(); err != nil {
		return l, err
	}
	l.depth = v.Depth.Float32s()
	if v.Conf != nil {
		if err := v.Conf.Fetch(); err != nil {
			return l, err
		}
		l.confidence = v.Conf.Float32s()
	}
	return l, nil
}

func (l *lift) at(x, y int) geometry.Vec3 {
	d := float64(l.depth[y*l.width+x])
	cam := [3]float64{(float64(x) - l.cx) / l.fx * d, (float64(y) - l.cy) / l.fy * d, d}
	var p geometry.Vec3
	for i, row := range l.pose {
		p[i] = row[0]*cam[0] + row[1]*cam[1] + row[2]*cam[2] + row[3]
	}
	return p
}

func (l *lift) conf(i int) float32 {
	if l.confidence == nil {
		return 1
	}
	return l.confidence[i]
}

func usable(p geometry.Vec3) bool {
	for _, v := range p {
		if v-v != 0 || v > 1e15 || v < -1e15 {
			return false
		}
	}
	return true
}
