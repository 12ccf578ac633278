// SPDX-License-Identifier: Apache-2.0

package da3

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Trunk builds the rest of the backbone for views of one grid, the reference view
// first (da3.md 5). given says that the cameras are known.
//
// Inputs: feat0, feat1, ... f32 [1,Lead+N,Dim] of the encoder and, if given,
// cameras f32 [views,Dim] of Tokens. Outputs: for each view its four hooks,
// view0.hook0, view0.hook1, ... f32 [1,N,W], W twice Dim in networks of many views
// and Dim in others; then, in networks of many views, camera f32 [views,2*Dim].
func (m *Model) Trunk(views int, g vit.Grid, given bool) (*graph.Graph, error) {
	switch {
	case views < 1 || g.Rows < 1 || g.Cols < 1:
		return nil, fmt.Errorf("model: %d views of %v patches, want at least 1", views, g)
	case views > 1 && !m.Views:
		return nil, fmt.Errorf("model: %d views for %s, which takes one at a time", views, m.Variant)
	case given && !m.Given:
		return nil, fmt.Errorf("model: %s has no camera encoder, so it takes no known cameras", m.Variant)
	}
	b := m.builder("trunk")
	in := make([]*graph.Node, views)
	tokens := 1 + g.Tokens()
	for i := range in {
		in[i] = b.Input(fmt.Sprintf("feat%d", i), tensor.F32, 1, Lead-1+tokens, m.Dim)
	}
	x := in[0]
	if views > 1 {
		x = b.Concat(0, in...)
	}
	t := &trunk{builder: b, views: views, tokens: tokens, grid: g, hooks: make([][4]*graph.Node, views)}
	t.local = b.SliceAxis(x, 1, Lead-1, Lead-1+tokens)
	if !m.Views {
		return t.single()
	}
	first := t.cameraTokens()
	if given {
		first = b.Reshape(b.Input("cameras", tensor.F32, views, m.Dim), views, 1, m.Dim)
	}
	return t.many(b.Concat(1, first, b.SliceAxis(x, 1, Lead, Lead-1+tokens)))
}

// trunk is a Trunk under construction.
type trunk struct {
	*builder
	views, tokens int
	grid          vit.Grid
	// local are the tokens after the latest block that looks at one view.
	local *graph.Node
	hooks [][4]*graph.Node
}

// cameraTokens stand in for the class tokens: the first for the reference view,
// the second for every other.
func (t *trunk) cameraTokens() *graph.Node {
	d := t.m.Dim
	cam := t.Cast(t.Weight(backbone+"camera_token", 1, 2, d), tensor.F32)
	ref := t.SliceAxis(cam, 1, 0, 1)
	if t.views == 1 {
		return ref
	}
	return t.Concat(0, ref, t.Add(graph.Broadcast{Shape: tensor.Shape{t.views - 1, 1, d}}, t.SliceAxis(cam, 1, 1, 2)))
}

// many runs the blocks in turn within each view (even) and over all of them (odd).
func (t *trunk) many(x *graph.Node) (*graph.Graph, error) {
	n, d, all := t.views, t.m.Dim, t.views*t.tokens
	for i, hook := t.m.Start, 0; i < t.m.Depth; i++ {
		if i%2 == 0 {
			x = t.block(x, i, t.turns(i, t.within))
			t.local = x
		} else {
			x = t.Reshape(t.block(t.Reshape(x, 1, all, d), i, t.turns(i, t.across)), n, t.tokens, d)
		}
		if hook == len(t.m.Hooks) || t.m.Hooks[hook] != i {
			continue
		}
		if hook == len(t.m.Hooks)-1 {
			class := func(x *graph.Node) *graph.Node { return t.SliceAxis(x, 1, 0, 1) }
			t.Output("camera", t.Reshape(t.Concat(2, class(t.local), class(x)), n, 2*d))
		}
		t.hook(hook, t.Concat(2, t.local, t.NormLayer(x, backbone+"norm", outerEps)))
		hook++
	}
	return t.finish()
}

// single runs the blocks of a network of one view.
func (t *trunk) single() (*graph.Graph, error) {
	x := t.local
	for i, hook := t.m.Start, 0; i < t.m.Depth; i++ {
		x = t.block(x, i, nil)
		if hook < len(t.m.Hooks) && t.m.Hooks[hook] == i {
			t.hook(hook, t.NormLayer(x, backbone+"norm", outerEps))
			hook++
		}
	}
	return t.finish()
}

// hook keeps the patches of y for the head.
func (t *trunk) hook(i int, y *graph.Node) {
	for v := range t.views {
		x := y
		if t.views > 1 {
			x = t.SliceAxis(y, 0, v, v+1)
		}
		t.hooks[v][i] = t.SliceAxis(x, 1, 1, t.tokens)
	}
}

func (t *trunk) finish() (*graph.Graph, error) {
	camera := t.Outputs
	t.Outputs = nil
	for v, list := range t.hooks {
		for i, x := range list {
			t.Output(fmt.Sprintf("view%d.hook%d", v, i), x)
		}
	}
	t.Outputs = append(t.Outputs, camera...)
	return t.Build()
}

// turns normalises q and k of block i head by head, then turns them by position.
func (t *trunk) turns(i int, turn func(*graph.Node) *graph.Node) func(*graph.Node, string) *graph.Node {
	return func(x *graph.Node, which string) *graph.Node {
		s := x.Shape
		x = t.Reshape(x, s[0], s[1], t.m.Heads, s[2]/t.m.Heads)
		x = t.NormLayer(x, fmt.Sprintf("%s.attn.%s_norm", blockName(i), which), outerEps)
		return turn(t.Reshape(x, s...))
	}
}

// within is the rope of attention within a view: the class token is at (0,0), the
// patch of row r and column c at (r+1,c+1). Scores depend on differences alone, so
// the class token goes to (-1,-1) and the patches to (r,c) instead.
func (t *trunk) within(x *graph.Node) *graph.Node {
	patches := t.RoPE(t.SliceAxis(x, 1, 1, t.tokens), t.m.Heads, graph.Rope{Rows: t.grid.Rows, Cols: t.grid.Cols, Base: ropeBase})
	return t.Concat(1, t.back(t.SliceAxis(x, 1, 0, 1)), patches)
}

// across is the rope of attention over all views: class tokens are at (0,0), and
// every patch, wherever it is, at (1,1). So only the class tokens turn, by
// (-1,-1).
func (t *trunk) across(x *graph.Node) *graph.Node {
	y := t.Reshape(x, t.views, t.tokens, x.Shape[2])
	y = t.Concat(1, t.back(t.SliceAxis(y, 1, 0, 1)), t.SliceAxis(y, 1, 1, t.tokens))
	return t.Reshape(y, x.Shape...)
}

// back turns every head of x [n,1,Dim] by the position (-1,-1). With the quarters
// a, b, c, d of a head that is x cos + (-b, a, -d, c) sin (network.md 4.1).
func (t *trunk) back(x *graph.Node) *graph.Node {
	hd := t.m.Dim / t.m.Heads
	q := hd / 4
	cos, sin := make([]float32, hd), make([]float32, hd)
	for i := range hd {
		s, c := math.Sincos(-math.Pow(ropeBase, -float64(i%q)/float64(q)))
		cos[i], sin[i] = float32(c), float32(s)
	}
	y := t.Reshape(x, x.Shape[0], t.m.Heads, hd)
	part := func(i int) *graph.Node { return t.SliceAxis(y, 2, i*q, (i+1)*q) }
	turned := t.Concat(2, t.Unary(graph.Neg, part(1)), part(0), t.Unary(graph.Neg, part(3)), part(2))
	y = t.AddTo(t.Binary(graph.Mul, y, t.Constant(cos, hd)), t.Binary(graph.Mul, turned, t.Constant(sin, hd)))
	return t.Reshape(y, x.Shape...)
}
