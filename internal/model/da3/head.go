// SPDX-License-Identifier: Apache-2.0

package da3

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Head builds the head of one view of height x width (da3.md 7, 9, 11).
//
// Inputs: hook0, hook1, hook2, hook3 f32 [1,N,W] of the trunk. Outputs, those that
// want names, in this order: depth [1,H,W], conf [1,H,W], rays [1,h,w,6]
// (direction, centre) and ray_conf [1,h,w] with h, w 8/14 of H, W, sky [1,H,W].
func (m *Model) Head(height, width int, want Outputs) (*graph.Graph, error) {
	if err := vit.CheckSize(height, width, m.Patch); err != nil {
		return nil, err
	}
	if has := m.Outputs(); want == 0 || want&^has != 0 {
		return nil, fmt.Errorf("model: outputs %#x, %s has %#x", want, m.Variant, has)
	}
	b := &head{builder: m.builder("head"), height: height, width: width, grid: vit.Grid{Rows: height / m.Patch, Cols: width / m.Patch}}
	sides := b.sides()
	if want&(Depth|Conf|Sky) != 0 {
		b.dense(sides, want)
	}
	if want&(Rays|RayConf) != 0 {
		b.rays(sides, want)
	}
	return b.Build()
}

// head is a Head under construction.
type head struct {
	*builder
	height, width int
	grid          vit.Grid
}

// sides are the four hooks as maps of the head's width, at 4x, 2x, 1x and 1/2x the
// grid.
func (b *head) sides() [4]*graph.Node {
	m := b.m
	dim := m.Dim
	if m.Views {
		dim *= 2
	}
	var rn [4]*graph.Node
	for i := range rn {
		x := b.Input(fmt.Sprintf("hook%d", i), tensor.F32, 1, b.grid.Tokens(), dim)
		if m.Views {
			x = b.NormLayer(x, "head.norm", outerEps)
		}
		x = b.Reshape(x, 1, b.grid.Rows, b.grid.Cols, dim)
		x = b.uv(b.ConvLayer(x, fmt.Sprintf("head.projects.%d", i), m.Channels[i], 1, 1, 0))
		x = b.Rescale(x, i, fmt.Sprintf("head.resize_layers.%d", i))
		rn[i] = b.Conv2D(x, b.Weight(fmt.Sprintf("head.scratch.layer%d_rn.weight", i+1), m.Features, m.Channels[i], 3, 3), nil, 1, 1)
	}
	return rn
}

// fuse joins the maps from coarse to fine, each to the size of the next, the last
// to twice its size: 8 rows for each row of patches. suffix tells the two chains of
// weights apart.
func (b *head) fuse(sides [4]*graph.Node, suffix string) *graph.Node {
	p := sides[3]
	for i := 3; i >= 0; i-- {
		h, w := 2*p.Shape[1], 2*p.Shape[2]
		if i > 0 {
			h, w = sides[i-1].Shape[1], sides[i-1].Shape[2]
		}
		var skip *graph.Node
		if i < 3 {
			skip = sides[i]
		}
		p = b.Refine(p, skip, fmt.Sprintf("head.scratch.refinenet%d%s", i+1, suffix), h, w)
	}
	return p
}

// last is the end of each branch: a convolution to 32 channels, ReLU, 1x1.
func (b *head) last(x *graph.Node, name string, out int) *graph.Node {
	x = b.ConvLayer(x, name+".0", lastDim, 3, 1, 1)
	return b.ConvLayer(b.Unary(graph.Relu, x), name+".2", out, 1, 1, 0)
}

// lastDim is the width before the last convolution of every branch.
const lastDim = 32

// dense is depth with confidence, or with sky.
func (b *head) dense(sides [4]*graph.Node, want Outputs) {
	p := b.fuse(sides, "")
	p = b.ConvLayer(p, "head.scratch.output_conv1", b.m.Features/2, 3, 1, 1)
	p = b.uv(b.Bilinear(p, b.height, b.width))
	if want&(Depth|Conf) != 0 {
		channels := 1
		if b.m.Views {
			channels = 2
		}
		raw := b.last(p, "head.scratch.output_conv2", channels)
		if want&Depth != 0 {
			b.Output("depth", b.Unary(graph.Exp, b.channel(raw, 0)))
		}
		if want&Conf != 0 {
			b.Output("conf", b.Affine(b.Unary(graph.Exp, b.channel(raw, 1)), 1, 1))
		}
	}
	if want&Sky != 0 {
		b.Output("sky", b.Unary(graph.Relu, b.channel(b.last(p, "head.scratch.sky_output_conv2", 1), 0)))
	}
}

// rays is the second chain: a ray for each cell of the finest map.
func (b *head) rays(sides [4]*graph.Node, want Outputs) {
	const name = "head.scratch.output_conv"
	x := b.fuse(sides, "_aux")
	for i := range 5 {
		out := b.m.Features / 2
		if i%2 == 1 {
			out = b.m.Features
		}
		x = b.ConvLayer(x, fmt.Sprintf("%s1_aux.3.%d", name, i), out, 3, 1, 1)
	}
	x = b.ConvLayer(b.uv(x), name+"2_aux.3.0", lastDim, 3, 1, 1)
	x = b.NormLayer(x, sharedNorm, outerEps)
	x = b.ConvLayer(b.Unary(graph.Relu, x), name+"2_aux.3.5", 7, 1, 1, 0)
	if want&Rays != 0 {
		b.Output("rays", b.SliceAxis(x, 3, 0, 6))
	}
	if want&RayConf != 0 {
		b.Output("ray_conf", b.Affine(b.Unary(graph.Exp, b.channel(x, 6)), 1, 1))
	}
}

// channel is one channel of a map as [1,H,W].
func (b *head) channel(x *graph.Node, i int) *graph.Node {
	x = b.SliceAxis(x, 3, i, i+1)
	return b.Reshape(x, x.Shape[:3]...)
}

// uv adds where each cell of the map is in the picture, in networks of many views:
// 0.1 times sines and cosines of the column and the row (da3.md 8).
func (b *head) uv(x *graph.Node) *graph.Node {
	if !b.m.Views {
		return x
	}
	h, w, c := x.Shape[1], x.Shape[2], x.Shape[3]
	aspect := float64(b.width) / float64(b.height)
	diagonal := math.Hypot(aspect, 1)
	// The first half of the channels depends on the column alone, the other on the row:
	// two small tables in place of one of the map's size.
	x = b.AddTo(x, b.Constant(beside(waves(w, aspect/diagonal, c/4), 0), 1, 1, w, c))
	return b.AddTo(x, b.Constant(beside(waves(h, 1/diagonal, c/4), 1), 1, h, 1, c))
}

// beside are rows with as many zeros after them (half 0) or before them (half 1).
func beside(rows [][]float32, half int) []float32 {
	n := len(rows[0])
	out := make([]float32, 2*n*len(rows))
	for i, row := range rows {
		copy(out[2*n*i+n*half:], row)
	}
	return out
}

// waves are 0.1 sin(p w_j) and 0.1 cos(p w_j), w_j = 100^(-j/freqs), for n places p
// from -span (n-1)/n to span (n-1)/n.
func waves(n int, span float64, freqs int) [][]float32 {
	const size = 0.1
	edge := span * float64(n-1) / float64(n)
	out := make([][]float32, n)
	for i := range out {
		p := -edge
		if n > 1 {
			p += 2 * edge * float64(i) / float64(n-1)
		}
		row := make([]float32, 2*freqs)
		for j := range freqs {
			s, c := math.Sincos(p * math.Pow(100, -float64(j)/float64(freqs)))
			row[j], row[freqs+j] = float32(size*s), float32(size*c)
		}
		out[i] = row
	}
	return out
}
