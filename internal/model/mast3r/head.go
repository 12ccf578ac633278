// SPDX-License-Identifier: Apache-2.0

package mast3r

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Outputs is a set of what a head may compute.
type Outputs uint8

// The outputs of a head. Points and Conf come from one branch, Desc and
// DescConf from the other; a branch nobody asks for is not computed.
const (
	Points Outputs = 1 << iota
	Conf
	Desc
	DescConf
	AllOutputs = Points | Conf | Desc | DescConf
)

// Head builds the head of view 1 or 2 for batch pictures of height x width
// (network.md 7 and 8).
//
// Inputs: feat f32 [batch,N,EncDim], hook1, hook2, hook3 f32 [batch,N,DecDim].
// Outputs, those that want names, in this order: points [batch,H,W,3],
// conf [batch,H,W], desc [batch,H,W,DescDim], desc_conf [batch,H,W].
func (m *Model) Head(view, batch, height, width int, want Outputs) (*graph.Graph, error) {
	if view != 1 && view != 2 {
		return nil, fmt.Errorf("model: view %d, want 1 or 2", view)
	}
	if err := vit.CheckSize(height, width, m.Patch); err != nil {
		return nil, err
	}
	if want&AllOutputs == 0 || batch < 1 {
		return nil, fmt.Errorf("model: outputs %#x of %d pictures: nothing to compute", want, batch)
	}
	b := m.builder(fmt.Sprintf("head%d", view))
	b.View = fmt.Sprintf("head%d.", view)
	name := fmt.Sprintf("%sdownstream_head%d.", m.names().decoder, view)
	g := m.GridOf(height, width)
	in := [4]*graph.Node{b.Input("feat", tensor.F32, batch, g.Tokens(), m.EncDim)}
	for i := 1; i < 4; i++ {
		in[i] = b.Input(fmt.Sprintf("hook%d", i), tensor.F32, batch, g.Tokens(), m.DecDim)
	}
	if want&(Points|Conf) != 0 {
		raw := b.dpt(in, name+"dpt.", g, height, width)
		if want&Points != 0 {
			b.Output("points", b.Add(graph.ExpPoints{}, b.SliceAxis(raw, 3, 0, 3)))
		}
		if want&Conf != 0 {
			b.Output("conf", b.confidence(raw, 3, m.Conf))
		}
	}
	if want&(Desc|DescConf) != 0 {
		raw := b.localFeatures(in, name+"head_local_features", g)
		if want&Desc != 0 {
			b.Output("desc", b.Add(graph.L2Normalize{}, b.SliceAxis(raw, 3, 0, m.DescDim)))
		}
		if want&DescConf != 0 {
			b.Output("desc_conf", b.confidence(raw, m.DescDim, m.DescConf))
		}
	}
	return b.Build()
}

// confidence is min + min(exp(x), max-min) of one channel.
func (b *builder) confidence(raw *graph.Node, channel int, mode ConfMode) *graph.Node {
	x := b.SliceAxis(raw, 3, channel, channel+1)
	x = b.Unary(graph.Exp, b.Reshape(x, x.Shape[:3]...))
	if !math.IsInf(float64(mode.Max), 1) {
		x = b.Binary(graph.Minimum, x, b.Scalar(mode.Max-mode.Min))
	}
	if mode.Min != 0 {
		x = b.Affine(x, 1, mode.Min)
	}
	return x
}

// dpt is the dense prediction transformer branch: four token grids at four
// scales, fused from coarse to fine.
func (b *builder) dpt(in [4]*graph.Node, name string, g vit.Grid, height, width int) *graph.Node {
	var rn [4]*graph.Node
	for i, x := range in {
		x = b.Reshape(x, x.Shape[0], g.Rows, g.Cols, x.Shape[2])
		at := fmt.Sprintf("%sact_postprocess.%d", name, i)
		x = b.Rescale(b.ConvLayer(x, at+".0", -1, 1, 1, 0), i, at+".1")
		b.Tap(fmt.Sprintf("act%d", i), x)
		w := b.Weight(fmt.Sprintf("%sscratch.layer%d_rn.weight", name, i+1), -1, x.Shape[3], 3, 3)
		rn[i] = b.Conv2D(x, w, nil, 1, 1)
		b.Tap(fmt.Sprintf("rn%d", i), rn[i])
	}
	p := b.Refine(rn[3], nil, name+"scratch.refinenet4", 2*rn[3].Shape[1], 2*rn[3].Shape[2])
	// The coarsest map has ceil(n/2) cells, so twice that may be one too many.
	p = b.SliceAxis(b.SliceAxis(p, 1, 0, g.Rows), 2, 0, g.Cols)
	b.Tap("path4_cropped", p)
	for i := 2; i >= 0; i-- {
		p = b.Refine(p, rn[i], fmt.Sprintf("%sscratch.refinenet%d", name, i+1), 2*p.Shape[1], 2*p.Shape[2])
		b.Tap(fmt.Sprintf("path%d", i+1), p)
	}
	p = b.ConvLayer(p, name+"head.0", -1, 3, 1, 1)
	b.Tap("conv0", p)
	p = b.Bilinear(p, height, width)
	b.Tap("up", p)
	p = b.ConvLayer(p, name+"head.2", -1, 3, 1, 1)
	b.Tap("conv2", p)
	p = b.ConvLayer(b.Unary(graph.Relu, p), name+"head.4", 4, 1, 1, 0)
	b.Tap("dpt_raw", p)
	return p
}

// localFeatures is the descriptor branch: an mlp on encoder and decoder tokens,
// encoder first, whose result holds a patch of pixels per token.
func (b *builder) localFeatures(in [4]*graph.Node, name string, g vit.Grid) *graph.Node {
	m := b.m
	x := b.Concat(2, in[0], in[3])
	x = b.MLP(x, name, (m.DescDim+1)*m.Patch*m.Patch)
	x = b.Reshape(x, x.Shape[0], g.Rows, g.Cols, x.Shape[2])
	x = b.Add(graph.PixelShuffle{R: m.Patch}, x)
	b.Tap("local_raw", x)
	return x
}
