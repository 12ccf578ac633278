// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// TestLimits tries each rule at its limit: the last value that is allowed builds, the
// first that is not is refused, and nothing panics.
func TestLimits(t *testing.T) {
	type build = func(g *Graph)
	index := func(g *Graph, d tensor.DType, shape ...int) *Node { return g.Input("i", d, shape...) }
	conv := func(c Conv2D, x, w [4]int) build {
		return func(g *Graph) { g.Add(c, f32s(g, "x", x[:]...), f32s(g, "w", w[:]...)) }
	}
	plain := Conv2D{Stride: 1, Dilation: 1, Groups: 1}
	with := func(f func(*Conv2D)) Conv2D { c := plain; f(&c); return c }
	for name, c := range map[string]struct{ good, bad build }{
		"matmul rank": {
			func(g *Graph) { g.Add(MatMul{}, f32s(g, "a", 2, 3), f32s(g, "b", 3, 2)) },
			func(g *Graph) { g.Add(MatMul{}, f32s(g, "a", 2, 3), f32s(g, "b", 3)) }},
		"rope base": {
			func(g *Graph) { g.RoPE(f32s(g, "x", 1, 4, 8), 2, Rope{2, 2, 1e-30}) },
			func(g *Graph) { g.RoPE(f32s(g, "x", 1, 4, 8), 2, Rope{2, 2, 0}) }},
		"rope base NaN": {
			func(g *Graph) { g.RoPE(f32s(g, "x", 1, 4, 8), 2, Rope{2, 2, 100}) },
			func(g *Graph) { g.RoPE(f32s(g, "x", 1, 4, 8), 2, Rope{2, 2, float32(math.NaN())}) }},
		"keys": {
			func(g *Graph) { g.Attention(f32s(g, "q", 1, 2, 8), f32s(g, "k", 1, 1, 8), f32s(g, "v", 1, 1, 8), 2, 1) },
			func(g *Graph) { g.Attention(f32s(g, "q", 1, 2, 8), f32s(g, "k", 1, 0, 8), f32s(g, "v", 1, 0, 8), 2, 1) }},
		"heads": {
			func(g *Graph) { g.Attention(f32s(g, "q", 1, 2, 8), f32s(g, "k", 1, 1, 8), f32s(g, "v", 1, 1, 8), 1, 1) },
			func(g *Graph) { g.Attention(f32s(g, "q", 1, 2, 8), f32s(g, "k", 1, 1, 8), f32s(g, "v", 1, 1, 8), 0, 1) }},
		"convolution padding": {
			conv(plain, [4]int{1, 4, 4, 2}, [4]int{2, 2, 3, 3}),
			conv(with(func(c *Conv2D) { c.Pad = -1 }), [4]int{1, 8, 8, 2}, [4]int{2, 2, 3, 3})},
		"convolution groups of outputs": {
			conv(with(func(c *Conv2D) { c.Groups = 2 }), [4]int{1, 4, 4, 4}, [4]int{4, 2, 1, 1}),
			conv(with(func(c *Conv2D) { c.Groups = 2 }), [4]int{1, 4, 4, 4}, [4]int{3, 2, 1, 1})},
		"convolution dilation": {
			conv(with(func(c *Conv2D) { c.Dilation = 2 }), [4]int{1, 5, 5, 2}, [4]int{2, 2, 3, 3}),
			conv(with(func(c *Conv2D) { c.Dilation = 0 }), [4]int{1, 5, 5, 2}, [4]int{2, 2, 3, 3})},
		"kernel as large as its map": {
			conv(plain, [4]int{1, 3, 3, 2}, [4]int{2, 2, 3, 3}),
			conv(plain, [4]int{1, 2, 3, 2}, [4]int{2, 2, 3, 3})},
		"output padding": {
			func(g *Graph) {
				g.Add(ConvTranspose2D{Stride: 2, OutputPad: 1}, f32s(g, "x", 1, 2, 2, 3), f32s(g, "w", 3, 4, 2, 2))
			},
			func(g *Graph) {
				g.Add(ConvTranspose2D{Stride: 2, OutputPad: 2}, f32s(g, "x", 1, 2, 2, 3), f32s(g, "w", 3, 4, 2, 2))
			}},
		"pooling rows": {
			func(g *Graph) { g.Add(Pool2D{Kernel: [2]int{3, 1}, Stride: [2]int{1, 1}}, f32s(g, "x", 1, 3, 2, 1)) },
			func(g *Graph) { g.Add(Pool2D{Kernel: [2]int{4, 1}, Stride: [2]int{1, 1}}, f32s(g, "x", 1, 3, 2, 1)) }},
		"pooling columns": {
			func(g *Graph) { g.Add(Pool2D{Kernel: [2]int{1, 2}, Stride: [2]int{1, 1}}, f32s(g, "x", 1, 3, 2, 1)) },
			func(g *Graph) { g.Add(Pool2D{Kernel: [2]int{1, 3}, Stride: [2]int{1, 1}}, f32s(g, "x", 1, 3, 2, 1)) }},
		"pooling stride": {
			func(g *Graph) { g.Add(Pool2D{Kernel: [2]int{1, 1}, Stride: [2]int{1, 1}}, f32s(g, "x", 1, 3, 2, 1)) },
			func(g *Graph) { g.Add(Pool2D{Kernel: [2]int{1, 1}, Stride: [2]int{1, 0}}, f32s(g, "x", 1, 3, 2, 1)) }},
		"resize": {
			func(g *Graph) { g.Add(Resize2D{H: 1, W: 1}, f32s(g, "x", 1, 3, 2, 1)) },
			func(g *Graph) { g.Add(Resize2D{H: 1, W: 0}, f32s(g, "x", 1, 3, 2, 1)) }},
		"pixel shuffle": {
			func(g *Graph) { g.Add(PixelShuffle{R: 2}, f32s(g, "x", 1, 1, 1, 8)) },
			func(g *Graph) { g.Add(PixelShuffle{R: 2}, f32s(g, "x", 1, 1, 1, 10)) }},
		"eps": {
			func(g *Graph) { g.LayerNorm(f32s(g, "x", 2, 8), f32s(g, "g", 8), f32s(g, "b", 8), 1e-30) },
			func(g *Graph) { g.LayerNorm(f32s(g, "x", 2, 8), f32s(g, "g", 8), f32s(g, "b", 8), 0) }},
		"infinite eps": {
			func(g *Graph) { g.LayerNorm(f32s(g, "x", 2, 8), f32s(g, "g", 8), f32s(g, "b", 8), math.MaxFloat32) },
			func(g *Graph) {
				g.LayerNorm(f32s(g, "x", 2, 8), f32s(g, "g", 8), f32s(g, "b", 8), float32(math.Inf(1)))
			}},
		"softmax": {
			func(g *Graph) { g.Add(Softmax{Axis: 0}, f32s(g, "x", 1, 2)) },
			func(g *Graph) { g.Add(Softmax{Axis: 0}, f32s(g, "x", 0, 2)) }},
		"topk": {
			func(g *Graph) { g.Add(TopK{K: 3}, f32s(g, "x", 2, 3)) },
			func(g *Graph) { g.Add(TopK{K: 4}, f32s(g, "x", 2, 3)) }},
		"topk of nothing": {
			func(g *Graph) { g.Add(TopK{K: 1}, f32s(g, "x", 2, 3)) },
			func(g *Graph) { g.Add(TopK{K: 0}, f32s(g, "x", 2, 3)) }},
		"permutation": {
			func(g *Graph) { g.Transpose(f32s(g, "x", 2, 3, 4), 2, 0, 1) },
			func(g *Graph) { g.Transpose(f32s(g, "x", 2, 3, 4), 2, 2, 1) }},
		"slice": {
			func(g *Graph) { g.Add(Slice{Begin: []int{0}, End: []int{3}, Step: []int{1}}, f32s(g, "x", 3)) },
			func(g *Graph) { g.Add(Slice{Begin: []int{0}, End: []int{4}, Step: []int{1}}, f32s(g, "x", 3)) }},
		"slice step": {
			func(g *Graph) { g.Add(Slice{Begin: []int{0}, End: []int{3}, Step: []int{2}}, f32s(g, "x", 3)) },
			func(g *Graph) { g.Add(Slice{Begin: []int{0}, End: []int{3}, Step: []int{0}}, f32s(g, "x", 3)) }},
		"concatenation": {
			func(g *Graph) { g.Concat(0, f32s(g, "a", 2, 3), f32s(g, "b", 5, 3)) },
			func(g *Graph) { g.Concat(0, f32s(g, "a", 2, 3), f32s(g, "b", 5, 4)) }},
		"padding behind": {
			func(g *Graph) { g.Add(Pad{Before: []int{0}, After: []int{0}}, f32s(g, "x", 3)) },
			func(g *Graph) { g.Add(Pad{Before: []int{0}, After: []int{-1}}, f32s(g, "x", 3)) }},
		"padding before": {
			func(g *Graph) { g.Add(Pad{Before: []int{2}, After: []int{0}}, f32s(g, "x", 3)) },
			func(g *Graph) { g.Add(Pad{Before: []int{-1}, After: []int{0}}, f32s(g, "x", 3)) }},
		"index of i32": {
			func(g *Graph) { g.Add(Gather{}, f32s(g, "x", 3), index(g, tensor.I32, 2)) },
			func(g *Graph) { g.Add(Gather{}, f32s(g, "x", 3), index(g, tensor.U8, 2)) }},
		"index of i64": {
			func(g *Graph) { g.Add(Gather{}, f32s(g, "x", 3), index(g, tensor.I64, 2)) },
			func(g *Graph) { g.Add(Gather{}, f32s(g, "x", 3), index(g, tensor.F32, 2)) }},
		"axis": {
			func(g *Graph) { g.Add(Softmax{Axis: 1}, f32s(g, "x", 1, 2)) },
			func(g *Graph) { g.Add(Softmax{Axis: 2}, f32s(g, "x", 1, 2)) }},
		"axis from the end": {
			func(g *Graph) { g.Add(Softmax{Axis: -2}, f32s(g, "x", 1, 2)) },
			func(g *Graph) { g.Add(Softmax{Axis: -3}, f32s(g, "x", 1, 2)) }},
		"broadcast": {
			func(g *Graph) { g.AddTo(f32s(g, "x", 2, 3), f32s(g, "y", 2, 1)) },
			func(g *Graph) { g.AddTo(f32s(g, "x", 2, 3), f32s(g, "y", 2, 2)) }},
		"rows": {
			func(g *Graph) { g.Add(ScatterAdd{Rows: 1}, f32s(g, "x", 3), index(g, tensor.I32, 3)) },
			func(g *Graph) { g.Add(ScatterAdd{Rows: 0}, f32s(g, "x", 3), index(g, tensor.I32, 3)) }},
		"depth": {
			func(g *Graph) { g.Add(OneHot{Depth: 1}, index(g, tensor.I32, 3)) },
			func(g *Graph) { g.Add(OneHot{Depth: 0}, index(g, tensor.I32, 3)) }},
	} {
		g := New(name)
		if c.good(g); g.Err() != nil {
			t.Errorf("%s: refused at its limit: %v", name, g.Err())
		}
		g = New(name)
		if c.bad(g); g.Err() == nil {
			t.Errorf("%s: accepted beyond its limit", name)
		}
	}
}
