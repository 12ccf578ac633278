// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// Fuse moves elementwise work into the operation that makes or reads the
// values, where every backend can do it while they are in registers or cache:
//
//	gelu, relu, a per-channel factor, a residual sum   into Linear
//	relu, a residual sum                               into Conv2D
//	relu of the input                                  into Conv2D
//	rope of q and k                                    into Attention
//
// A value is only fused away when nobody else reads it. A relu that feeds a
// convolution is an exception: it is cheaper to repeat than to store.
func Fuse(g *graph.Graph) (*graph.Graph, error) {
	f := &fuser{rewriter: newRewriter(g), uses: uses(g)}
	return f.run(f.rule)
}

type fuser struct {
	*rewriter
	uses []int
}

func (f *fuser) rule(n *graph.Node, in []*graph.Node) (*graph.Node, error) {
	switch o := n.Op.(type) {
	case graph.Unary:
		return f.activation(o, n), nil
	case graph.Binary:
		switch o.Fn {
		case graph.Mul:
			return f.gamma(n, in), nil
		case graph.Add:
			return f.residual(n, in), nil
		}
	case graph.Conv2D:
		// Only a relu that still stands alone: most went into the convolution before.
		if u, ok := in[0].Op.(graph.Unary); ok && u.Fn == graph.Relu && !o.PreRelu {
			o.PreRelu = true
			return f.new.Add(o, append([]*graph.Node{in[0].In[0]}, in[1:]...)...), nil
		}
	case graph.Attention:
		return f.attention(o, n, in), nil
	}
	return nil, nil
}

// single is the new node of old operand x if nobody else reads x.
func (f *fuser) single(x *graph.Node) *graph.Node {
	if f.uses[x.ID] != 1 {
		return nil
	}
	return f.to[x.ID]
}

func (f *fuser) activation(o graph.Unary, n *graph.Node) *graph.Node {
	act, ok := map[graph.UnaryFn]graph.Activation{graph.Relu: graph.ActRelu, graph.Gelu: graph.ActGelu}[o.Fn]
	x := f.single(n.In[0])
	if !ok || x == nil {
		return nil
	}
	switch p := x.Op.(type) {
	case graph.Linear:
		if p.Act == graph.ActNone && !p.Gamma && !p.Residual {
			p.Act = act
			return f.new.Add(p, x.In...)
		}
	case graph.Conv2D:
		// A backend's convolution epilogue knows ReLU only.
		if p.Act == graph.ActNone && !p.Residual && act == graph.ActRelu {
			p.Act = act
			return f.new.Add(p, x.In...)
		}
	}
	return nil
}

// gamma fuses linear * vector, the layer scale of DINOv2-style blocks.
func (f *fuser) gamma(n *graph.Node, in []*graph.Node) *graph.Node {
	for i := range 2 {
		x, v := f.single(n.In[i]), in[1-i]
		if x == nil || !isParam(v) || len(v.Shape) != 1 {
			continue
		}
		p, ok := x.Op.(graph.Linear)
		if !ok || p.Gamma || p.Residual || v.Shape[0] != x.Shape[len(x.Shape)-1] {
			continue
		}
		p.Gamma = true
		return f.new.Add(p, append(x.In[:len(x.In):len(x.In)], v)...)
	}
	return nil
}

// residual fuses linear + other or conv + other. The other operand must exist
// before the fused node, which it does: the sum comes after both.
func (f *fuser) residual(n *graph.Node, in []*graph.Node) *graph.Node {
	// The second operand first: networks write x + f(x).
	for _, i := range []int{1, 0} {
		x, r := f.single(n.In[i]), in[1-i]
		if x == nil || !r.Shape.Equal(n.Shape) || !x.Shape.Equal(n.Shape) || isParam(r) || r.DType != x.DType {
			continue
		}
		switch p := x.Op.(type) {
		case graph.Linear:
			if !p.Residual {
				p.Residual = true
				return f.new.Add(p, append(x.In[:len(x.In):len(x.In)], r)...)
			}
		case graph.Conv2D:
			if !p.Residual {
				p.Residual = true
				return f.new.Add(p, append(x.In[:len(x.In):len(x.In)], r)...)
			}
		}
	}
	return nil
}

func (f *fuser) attention(o graph.Attention, n *graph.Node, in []*graph.Node) *graph.Node {
	changed := false
	for i, slot := range []**graph.Rope{&o.QRope, &o.KRope} {
		r, ok := n.In[i].Op.(graph.RoPE)
		if !ok || *slot != nil || r.Heads != o.Heads || f.uses[n.In[i].ID] != 1 {
			continue
		}
		*slot = &r.Rope
		in[i] = f.to[n.In[i].In[0].ID]
		changed = true
	}
	if !changed {
		return nil
	}
	return f.new.Add(o, in...)
}

func isParam(n *graph.Node) bool { _, ok := n.Op.(graph.Param); return ok }
