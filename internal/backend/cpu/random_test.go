// SPDX-License-Identifier: Apache-2.0

package cpu_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// randomGraph strings operations together at random: views of views, values
// that live long and short, outputs that are views, inputs or each other.
func randomGraph(r *rand.Rand, nodes int) *graph.Graph {
	g := graph.New("random")
	d := func() int { return 1 + r.IntN(6) }
	pool := []*graph.Node{g.Input("x", tensor.F32, d(), d(), d()), g.Input("y", tensor.F32, d(), d(), d())}
	weight := func(shape ...int) *graph.Node {
		var b []byte
		for range tensor.Shape(shape).Numel() {
			b = append(b, floatBytes(float32(r.NormFloat64()))...)
		}
		return g.Add(graph.Param{Shape: shape, DType: tensor.F32, Data: b})
	}
	for range nodes {
		x := pool[r.IntN(len(pool))]
		s := x.Shape
		axis := r.IntN(3)
		var y *graph.Node
		switch r.IntN(9) {
		case 0:
			y = g.Affine(x, 0.5, float32(r.IntN(3)))
		case 1:
			y = g.AddTo(x, g.Unary(graph.Relu, x))
		case 2:
			y = g.Linear(x, weight(d(), s[2]), nil)
		case 3:
			y = g.AddTo(x, g.Linear(x, weight(s[2], s[2]), weight(s[2])))
		case 4:
			b := r.IntN(s[axis])
			y = g.SliceAxis(x, axis, b, b+1+r.IntN(s[axis]-b))
		case 5:
			y = g.Reshape(x, s[0]*s[1], 1, s[2])
			if r.IntN(2) == 0 {
				y = g.Reshape(x, 1, s[0], s[1]*s[2])
			}
		case 6:
			y = g.Concat(axis, x, g.Affine(x, -1, 0), x)
		case 7:
			y = g.LayerNorm(x, weight(s[2]), weight(s[2]), 1e-2)
		case 8:
			y = g.Transpose(x, 2, 0, 1)
		}
		if y.Shape.Numel() <= 4000 {
			pool = append(pool, y)
		}
	}
	for i := range 4 {
		g.Output(fmt.Sprint("out", i), pool[r.IntN(len(pool))])
	}
	g.Output("last", pool[len(pool)-1])
	return g
}

// TestRandomGraphs runs them in memory full of NaN, the second half with a gap
// after every row.
func TestRandomGraphs(t *testing.T) {
	b := newBackend(t, 2)
	for seed := range uint64(200) {
		if seed == 100 {
			defer cpu.PadEverything()()
		}
		g, err := randomGraph(rand.New(rand.NewPCG(seed, 1)), 25).Build()
		if err != nil {
			t.Fatal(err)
		}
		in := inputsOf(g, seed)
		want := mustRun(t, optest.Reference, g, in)
		c := compile(t, b, g, in)
		b.Poison()
		if err := c.run(context.Background()); err != nil {
			t.Fatalf("graph %d: %v", seed, err)
		}
		for i, x := range c.out {
			checkClose(t, fmt.Sprintf("graph %d, output %q", seed, g.Outputs[i].Name), asFloats(x.Bytes()), asFloats(want[i]))
			x.Release()
		}
		if t.Failed() {
			t.Fatalf("%v", g)
		}
	}
}

// checkClose allows for the rounding of a long chain, relative to the largest
// value.
func checkClose(t *testing.T, what string, got, want []float32) {
	t.Helper()
	top := 1e-3
	for _, v := range want {
		top = max(top, math.Abs(float64(v)))
	}
	for i, v := range got {
		if d := math.Abs(float64(v) - float64(want[i])); !(d <= 1e-4*top) {
			t.Errorf("%s: element %d of %d: got %g, want %g", what, i, len(got), v, want[i])
			return
		}
	}
}

func floatBytes(v float32) []byte {
	u := math.Float32bits(v)
	return []byte{byte(u), byte(u >> 8), byte(u >> 16), byte(u >> 24)}
}
