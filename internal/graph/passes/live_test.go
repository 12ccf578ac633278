// SPDX-License-Identifier: Apache-2.0

package passes_test

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// TestLive counts by hand: a and b live together, a through its other shape until c.
func TestLive(t *testing.T) {
	g := graph.New("live")
	x := g.Input("x", tensor.F32, 4, 8)
	a := g.Unary(graph.Exp, x)                                    // 128 bytes
	flat := g.Reshape(a, 32)                                      // a's
	b := g.Unary(graph.Exp, g.Reshape(g.Unary(graph.Exp, a), 32)) // two more of 128, the first gone after
	c := g.Binary(graph.Add, flat, b)                             // and one
	g.Output("y", g.Unary(graph.Exp, c))                          // the caller's
	built, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	// a, the value between and b: three at once.
	if got, want := passes.Live(built, 4), 3*128; got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	if got, want := passes.Live(built, 2), 3*64; got != want {
		t.Errorf("in half precision: got %d bytes, want %d", got, want)
	}
}

// TestLiveWithoutOutputs: an output is the caller's memory, also when its value is read
// again.
func TestLiveWithoutOutputs(t *testing.T) {
	g := graph.New("outputs")
	x := g.Input("x", tensor.F32, 4)
	a := g.Unary(graph.Exp, x)
	g.Output("a", a)
	for i, name := range []string{"b", "c", "d"} {
		g.Output(name, g.Affine(a, 1, float32(i)))
	}
	built, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got := passes.Live(built, 4); got != 0 {
		t.Errorf("%d bytes of a graph that has only outputs", got)
	}
}
