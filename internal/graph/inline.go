// SPDX-License-Identifier: Apache-2.0

package graph

import "fmt"

// Inline copies sub into g with its inputs replaced by in, in the order of
// sub.Inputs, and returns its outputs in their order. Params of one name become
// one value, as with Param.
func (g *Graph) Inline(sub *Graph, in ...*Node) []*Node {
	if g.err != nil {
		out := make([]*Node, len(sub.Outputs))
		for i := range out {
			out[i] = &Node{Shape: harmless}
		}
		return out
	}
	to := make([]*Node, len(sub.Nodes))
	for i, x := range sub.Inputs {
		switch {
		case i >= len(in):
			g.err = fmt.Errorf("graph %q: %d inputs for %q, want %d", g.Name, len(in), sub.Name, len(sub.Inputs))
		case !in[i].Shape.Equal(x.Shape) || in[i].DType != x.DType:
			g.err = fmt.Errorf("graph %q: input %d of %q is %v, want %v", g.Name, i, sub.Name, in[i], x)
		default:
			to[x.ID] = in[i]
		}
	}
	for _, n := range sub.Nodes {
		if to[n.ID] != nil {
			continue
		}
		if p, ok := n.Op.(Param); ok && p.Name != "" {
			to[n.ID] = g.Param(p)
			continue
		}
		args := make([]*Node, len(n.In))
		for i, x := range n.In {
			args[i] = to[x.ID]
		}
		to[n.ID] = g.Add(n.Op, args...)
	}
	out := make([]*Node, len(sub.Outputs))
	for i, o := range sub.Outputs {
		out[i] = to[o.Node.ID]
	}
	return out
}
