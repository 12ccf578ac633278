// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// RelativePositions checks what rotary embedding is for: with one query and one
// key vector repeated over a grid, the score of two tokens depends on the
// difference of their positions alone; position (0,0) turns nothing; rows turn
// the first half of a head and columns the second, in landscape as in portrait.
func RelativePositions(t *testing.T, run Runner) {
	const hd, limit = 16, 2e-5
	r := rand.New(rand.NewPCG(3, 5))
	q, k := make([]float32, hd), make([]float32, hd)
	for i := range hd {
		q[i], k[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
	}
	for _, grid := range []graph.Rope{{Rows: 3, Cols: 5, Base: 100}, {Rows: 5, Cols: 3, Base: 100}} {
		turned := [2][]float64{turn(t, run, q, grid), turn(t, run, k, grid)}
		for i := range hd {
			if d := math.Abs(turned[0][i] - float64(q[i])); d > 1e-6 {
				t.Fatalf("position (0,0) moved element %d by %g", i, d)
			}
		}
		// A step along a row leaves the first half alone, one down a column the second.
		for i := range hd {
			right, down := turned[0][hd+i], turned[0][grid.Cols*hd+i]
			if i < hd/2 && math.Abs(right-float64(q[i])) > 1e-6 || i >= hd/2 && math.Abs(down-float64(q[i])) > 1e-6 {
				t.Fatalf("grid %dx%d: element %d is turned by the other direction", grid.Rows, grid.Cols, i)
			}
		}
		score := func(a, b int) (s float64) {
			for i := range hd {
				s += turned[0][a*hd+i] * turned[1][b*hd+i]
			}
			return s
		}
		seen := map[[2]int]float64{}
		for a := range grid.Rows * grid.Cols {
			for b := range grid.Rows * grid.Cols {
				d := [2]int{a/grid.Cols - b/grid.Cols, a%grid.Cols - b%grid.Cols}
				s := score(a, b)
				if first, ok := seen[d]; ok && math.Abs(s-first) > limit*(1+math.Abs(first)) {
					t.Fatalf("grid %dx%d: difference %v scores %v and %v", grid.Rows, grid.Cols, d, s, first)
				}
				seen[d] = s
			}
		}
	}
}

// turn applies rope to one vector repeated over the grid.
func turn(t *testing.T, run Runner, v []float32, grid graph.Rope) []float64 {
	t.Helper()
	g := graph.New("rope")
	n := grid.Rows * grid.Cols
	x := g.Input("x", tensor.F32, 1, n, len(v))
	g.Output("y", g.RoPE(x, 1, grid))
	var all []float32
	for range n {
		all = append(all, v...)
	}
	out, err := run(g, [][]byte{bytesOf(all)})
	if err != nil {
		t.Fatal(err)
	}
	y, err := floats(g.Outputs[0].Node, out[0])
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// LargeLogits runs attention whose logits reach +-1e4 over 1344 tokens, the
// longest grid of the published sizes: finite, and the reference's numbers within
// limit.
func LargeLogits(t *testing.T, run Runner, limit float64) {
	const n, m, hd = 96, 1344, 64
	r := rand.New(rand.NewPCG(7, 9))
	draw := func(count int, scale float64) []float32 {
		v := make([]float32, count)
		for i := range v {
			v[i] = float32(r.NormFloat64() * scale)
		}
		return v
	}
	g := graph.New("attention")
	q, k, v := g.Input("q", tensor.F32, 1, n, hd), g.Input("k", tensor.F32, 1, m, hd), g.Input("v", tensor.F32, 1, m, hd)
	g.Output("y", g.Attention(q, k, v, 1, 0.125))
	// Products of 64 pairs with deviation 50 each reach 0.125*8*2500*4 = 1e4.
	in := [][]byte{bytesOf(draw(n*hd, 50)), bytesOf(draw(m*hd, 50)), bytesOf(draw(m*hd, 1))}
	want, err := Reference(g, in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := run(g, in)
	if err != nil {
		t.Fatal(err)
	}
	a, err1 := floats(g.Outputs[0].Node, got[0])
	b, err2 := floats(g.Outputs[0].Node, want[0])
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for i, x := range a {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Fatalf("element %d is %v", i, x)
		}
	}
	if e := relL2(a, b); !(e <= limit) {
		t.Errorf("relative L2 %.3g, want <= %.3g", e, limit)
	}
}
