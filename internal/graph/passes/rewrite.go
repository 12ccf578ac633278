// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// Simplify runs the passes that hold for every backend. own are the kinds of composed
// operations that the backend runs itself.
func Simplify(g *graph.Graph, own ...string) (*graph.Graph, error) {
	g, err := Compose(g, own...)
	if err != nil {
		return nil, err
	}
	for _, pass := range []func(*graph.Graph) (*graph.Graph, error){Fold, Fuse, Prune} {
		if g, err = pass(g); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Compose writes operations that can be written with others so, apart from the kinds
// in own.
func Compose(g *graph.Graph, own ...string) (*graph.Graph, error) {
	r := newRewriter(g)
	return r.run(func(n *graph.Node, in []*graph.Node) (*graph.Node, error) {
		op, ok := n.Op.(graph.Composed)
		if !ok || slices.Contains(own, op.Kind()) {
			return nil, nil
		}
		return op.Compose(r.new, in), nil
	})
}

// rewriter copies a graph node by node; rule may replace a node by returning
// another node of the new graph.
type rewriter struct {
	old *graph.Graph
	new *graph.Graph
	// to maps old IDs to nodes of the new graph.
	to []*graph.Node
}

func newRewriter(g *graph.Graph) *rewriter {
	return &rewriter{old: g, new: graph.New(g.Name), to: make([]*graph.Node, len(g.Nodes))}
}

// operands are the new nodes of an old node's operands.
func (r *rewriter) operands(n *graph.Node) []*graph.Node {
	in := make([]*graph.Node, len(n.In))
	for i, x := range n.In {
		in[i] = r.to[x.ID]
	}
	return in
}

// run applies rule to every node, in order. A rule that returns nil has the
// node copied as it is.
func (r *rewriter) run(rule func(n *graph.Node, in []*graph.Node) (*graph.Node, error)) (*graph.Graph, error) {
	for _, n := range r.old.Nodes {
		in := r.operands(n)
		m, err := rule(n, in)
		if err != nil {
			return nil, fmt.Errorf("passes: graph %q: %s %%%d: %w", r.old.Name, n.Op.Kind(), n.ID, err)
		}
		if m == nil {
			m = r.new.Add(n.Op, in...)
		}
		r.to[n.ID] = m
	}
	for _, o := range r.old.Outputs {
		r.new.Output(o.Name, r.to[o.Node.ID])
	}
	return r.new.Build()
}

// MapParams returns g with every Param replaced by what f makes of it; f gets the
// node of g.
func MapParams(g *graph.Graph, f func(n *graph.Node, p graph.Param) graph.Param) (*graph.Graph, error) {
	r := newRewriter(g)
	return r.run(func(n *graph.Node, _ []*graph.Node) (*graph.Node, error) {
		p, ok := n.Op.(graph.Param)
		if !ok {
			return nil, nil
		}
		return r.new.Add(f(n, p)), nil
	})
}

// uses counts how often each value is read; an output counts once more.
func uses(g *graph.Graph) []int {
	n := make([]int, len(g.Nodes))
	for _, x := range g.Nodes {
		for _, in := range x.In {
			n[in.ID]++
		}
	}
	for _, o := range g.Outputs {
		n[o.Node.ID]++
	}
	return n
}

// Prune drops values that no output depends on. Inputs stay: they are part of
// the graph's signature.
func Prune(g *graph.Graph) (*graph.Graph, error) {
	live := make([]bool, len(g.Nodes))
	for _, o := range g.Outputs {
		live[o.Node.ID] = true
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if _, ok := n.Op.(graph.Input); ok {
			live[i] = true
		}
		for _, x := range n.In {
			live[x.ID] = live[x.ID] || live[i]
		}
	}
	out := graph.New(g.Name)
	to := make([]*graph.Node, len(g.Nodes))
	for i, n := range g.Nodes {
		if !live[i] {
			continue
		}
		in := make([]*graph.Node, len(n.In))
		for j, x := range n.In {
			in[j] = to[x.ID]
		}
		to[i] = out.Add(n.Op, in...)
	}
	for _, o := range g.Outputs {
		out.Output(o.Name, to[o.Node.ID])
	}
	return out.Build()
}
