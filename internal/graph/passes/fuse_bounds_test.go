// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// A vector of length 1 that is broadcast over a linear layer's result is not its gamma.
func TestABroadcastIsNoGamma(t *testing.T) {
	for length, fused := range map[int]bool{1: false, 6: true} {
		g := graph.New("gamma")
		y := g.Add(graph.Linear{}, g.Input("x", tensor.F32, 2, 4), param(g, "w", 6, 4))
		g.Output("y", g.Binary(graph.Mul, y, param(g, "v", length)))
		if _, err := g.Build(); err != nil {
			t.Fatal(err)
		}
		s, err := Simplify(g)
		if err != nil {
			t.Fatalf("length %d: %v", length, err)
		}
		got := false
		for _, n := range s.Nodes {
			if l, ok := n.Op.(graph.Linear); ok {
				got = l.Gamma
			}
		}
		if got != fused {
			t.Errorf("a vector of %d for rows of 6: gamma %v, want %v", length, got, fused)
		}
	}
}

// Rotary embedding of another number of heads stays a step of its own.
func TestRopeOfOtherHeadsStays(t *testing.T) {
	for heads, fused := range map[int]bool{2: true, 4: false} {
		g := graph.New("rope")
		in := func(name string) *graph.Node { return g.Input(name, tensor.F32, 1, 4, 32) }
		rope := graph.Rope{Rows: 2, Cols: 2, Base: 100}
		q := g.Add(graph.RoPE{Rope: rope, Heads: heads}, in("q"))
		g.Output("y", g.Add(graph.Attention{Heads: 2, Scale: 0.25}, q, in("k"), in("v")))
		if _, err := g.Build(); err != nil {
			t.Fatal(err)
		}
		s, err := Simplify(g)
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
		for _, n := range s.Nodes {
			if _, ok := n.Op.(graph.RoPE); ok {
				steps++
			}
		}
		if (steps == 0) != fused {
			t.Errorf("rope of %d heads before attention of 2: %d steps of its own", heads, steps)
		}
	}
}

// The values have as many tokens as the keys.
func TestValuesHaveTheKeysTokens(t *testing.T) {
	for tokens, fine := range map[int]bool{4: true, 3: false, 5: false} {
		g := graph.New("attention")
		in := func(name string, n int) *graph.Node { return g.Input(name, tensor.F32, 1, n, 32) }
		g.Output("y", g.Add(graph.Attention{Heads: 2, Scale: 1}, in("q", 4), in("k", 4), in("v", tokens)))
		if _, err := g.Build(); fine != (err == nil) || err != nil && !errors.Is(err, graph.ErrShape) {
			t.Errorf("%d values for 4 keys: %v", tokens, err)
		}
	}
}

// What is added to a product is added after its activation: an activation of the sum stays
// a step of its own.
func TestActivationsOfSumsStay(t *testing.T) {
	products := map[graph.Op]func(*graph.Graph) *graph.Node{
		graph.Linear{}: func(g *graph.Graph) *graph.Node { return param(g, "w", 4, 4) },
		graph.Conv2D{Stride: 1, Dilation: 1, Groups: 1}: func(g *graph.Graph) *graph.Node { return param(g, "w", 4, 4, 1, 1) },
	}
	for op, weight := range products {
		g := graph.New("sum")
		x := g.Input("x", tensor.F32, 1, 2, 2, 4)
		sum := g.Binary(graph.Add, g.Add(op, x, weight(g)), g.Input("r", tensor.F32, 1, 2, 2, 4))
		g.Output("y", g.Unary(graph.Relu, sum))
		if _, err := g.Build(); err != nil {
			t.Fatal(err)
		}
		s, err := Simplify(g)
		if err != nil {
			t.Fatal(err)
		}
		if last := s.Outputs[0].Node.Op; last != (graph.Unary{Fn: graph.Relu}) || len(s.Nodes) != 5 {
			t.Errorf("%s: %d nodes, the last %#v; want a ReLU behind a product with a sum", op.Kind(), len(s.Nodes), last)
		}
	}
}
