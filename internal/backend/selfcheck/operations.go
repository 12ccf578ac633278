// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"context"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// operation is one case; build declares its inputs and outputs.
type operation struct {
	name  string
	build func(g *graph.Graph)
}

// constant is a weight with values of size 1/sqrt(fan).
func constant(g *graph.Graph, name string, shape ...int) *graph.Node {
	s := tensor.Shape(shape)
	fan := 1
	for _, d := range s[1:] {
		fan *= d
	}
	v := make([]float32, s.Numel())
	for i := range v {
		v[i] = unit(name, i) / float32(math.Sqrt(float64(fan)))
	}
	return g.Param(graph.Param{Name: name, Shape: s, DType: tensor.F32, Data: bytesOf(v)})
}

// unit is a number of about standard size, by name and index.
func unit(name string, i int) float32 {
	return synth.Unit(name, i) * float32(math.Sqrt(3))
}

// operations are those that the network consists of, at sizes with remainders,
// and those in which MPSGraph has been wrong on some system.
var operations = []operation{
	{"linear", func(g *graph.Graph) {
		x := f32(g, "x", 2, 37, 96)
		g.Output("gelu", g.Unary(graph.Gelu, g.Linear(x, constant(g, "w", 160, 96), constant(g, "b", 160))))
		g.Output("plain", g.Linear(x, constant(g, "w2", 33, 96), nil))
	}},
	{"linear of one row", func(g *graph.Graph) { // whose bias macOS 26 has lost
		g.Output("y", g.Linear(f32(g, "x", 1, 96), constant(g, "w", 40, 96), constant(g, "b", 40)))
	}},
	{"matmul", func(g *graph.Graph) {
		a, b := f32(g, "a", 3, 21, 70), f32(g, "b", 3, 70, 19)
		g.Output("y", g.Add(graph.MatMul{}, a, b))
		g.Output("transposed", g.Add(graph.MatMul{TransB: true}, a, f32(g, "c", 3, 19, 70)))
	}},
	{"long sums", func(g *graph.Graph) { // half-precision sums would show here
		g.Output("y", g.Linear(f32(g, "x", 16, 4096), constant(g, "w", 16, 4096), nil))
	}},
	{"attention", func(g *graph.Graph) {
		q, k, v := f32(g, "q", 2, 30, 128), f32(g, "k", 2, 45, 128), f32(g, "v", 2, 45, 128)
		g.Output("y", g.Attention(q, k, v, 2, 0.125))
	}},
	networkAttention,
	{"attention with rotary embedding", func(g *graph.Graph) {
		q, k, v := f32(g, "q", 1, 24, 128), f32(g, "k", 1, 15, 128), f32(g, "v", 1, 15, 128)
		q, k = g.RoPE(q, 2, graph.Rope{Rows: 4, Cols: 6, Base: 100}), g.RoPE(k, 2, graph.Rope{Rows: 5, Cols: 3, Base: 100})
		g.Output("y", g.Attention(q, k, v, 2, 0.125))
	}},
	{"layer norm", func(g *graph.Graph) {
		x := g.Affine(f32(g, "x", 3, 20, 96), 30, 5) // means far from 0
		g.Output("y", g.LayerNorm(x, constant(g, "w", 96), constant(g, "b", 96), 1e-6))
	}},
	{"softmax", func(g *graph.Graph) {
		g.Output("last", g.Add(graph.Softmax{Axis: 2}, f32(g, "x", 2, 9, 50)))
		g.Output("middle", g.Add(graph.Softmax{Axis: 1}, f32(g, "y", 2, 9, 50)))
	}},
	{"convolution", func(g *graph.Graph) {
		x := f32(g, "x", 2, 11, 13, 24)
		y := g.Conv2D(g.Unary(graph.Relu, x), constant(g, "w1", 24, 24, 3, 3), constant(g, "b1", 24), 1, 1)
		g.Output("residual", g.AddTo(x, y))
		g.Output("stride", g.Conv2D(x, constant(g, "w2", 40, 24, 3, 3), constant(g, "b2", 40), 2, 1))
		g.Output("one", g.Conv2D(x, constant(g, "w3", 7, 24, 1, 1), constant(g, "b3", 7), 1, 0))
	}},
	{"grouped convolution", func(g *graph.Graph) { // wrong in float32 for batches and tall kernels
		x := f32(g, "x", 2, 13, 9, 12)
		g.Output("y", g.Add(graph.Conv2D{Stride: 1, Pad: 2, Dilation: 1, Groups: 12}, x, constant(g, "w", 12, 1, 5, 1)))
	}},
	{"transposed convolution", func(g *graph.Graph) {
		x := f32(g, "x", 1, 5, 7, 12)
		g.Output("two", g.ConvTranspose2D(x, constant(g, "w1", 12, 9, 2, 2), constant(g, "b1", 9), 2))
		g.Output("four", g.ConvTranspose2D(x, constant(g, "w2", 12, 9, 4, 4), constant(g, "b2", 9), 4))
	}},
	{"resize", func(g *graph.Graph) {
		x := f32(g, "x", 1, 6, 9, 10)
		g.Output("twice", g.Bilinear(x, 12, 18))
		g.Output("odd", g.Bilinear(x, 7, 16))
		g.Output("centres", g.Add(graph.Resize2D{H: 12, W: 18, Mode: graph.Bilinear}, x))
	}},
	{"pixel shuffle", func(g *graph.Graph) {
		g.Output("y", g.Add(graph.PixelShuffle{R: 4}, f32(g, "x", 1, 3, 5, 48)))
	}},
	{"shapes", func(g *graph.Graph) {
		x := f32(g, "x", 2, 6, 10)
		g.Output("transpose", g.Transpose(x, 2, 0, 1))
		g.Output("slice", g.SliceAxis(x, 2, 3, 8))
		g.Output("concat", g.Concat(1, x, f32(g, "y", 2, 3, 10)))
		g.Output("pad", g.Add(graph.Pad{Before: []int{0, 1, 2}, After: []int{0, 0, 3}, Value: -1.5}, x))
	}},
	{"results without a kernel", func(g *graph.Graph) { // identities, which compilers drop
		x := f32(g, "x", 3, 7)
		y := g.Unary(graph.Exp, x)
		g.Output("input", x)
		g.Output("one", y)
		g.Output("two", y)
	}},
	{"elementwise", func(g *graph.Graph) {
		x := f32(g, "x", 4, 90)
		for name, fn := range map[string]graph.UnaryFn{"exp": graph.Exp, "expm1": graph.Expm1, "erf": graph.Erf, "sqrt": graph.Sqrt} {
			g.Output(name, g.Unary(fn, g.Unary(graph.Abs, x)))
		}
		g.Output("broadcast", g.Binary(graph.Div, x, g.Affine(g.Unary(graph.Abs, f32(g, "row", 90)), 1, 0.5)))
	}},
	{"reductions", func(g *graph.Graph) {
		x := f32(g, "x", 5, 40, 30)
		for name, fn := range map[string]graph.ReduceFn{"sum": graph.ReduceSum, "mean": graph.ReduceMean, "max": graph.ReduceMax} {
			g.Output(name, g.Add(graph.Reduce{Fn: fn, Axes: []int{1}}, x))
		}
		g.Output("top", g.Add(graph.TopK{K: 7}, x))
	}},
	{"output functions", func(g *graph.Graph) {
		x := f32(g, "x", 1, 9, 7, 12)
		g.Output("points", g.Add(graph.ExpPoints{}, g.SliceAxis(x, 3, 0, 3)))
		g.Output("descriptors", g.Add(graph.L2Normalize{}, g.SliceAxis(x, 3, 4, 12)))
		g.Output("confidence", g.Affine(g.Unary(graph.Exp, g.SliceAxis(x, 3, 3, 4)), 1, 1))
	}},
}

// networkAttention is one layer's of the published network at 512 x 384: what is
// right at small sizes has been wrong at this one.
var networkAttention = operation{"attention of a whole picture", func(g *graph.Graph) {
	const tokens, heads, dim = 768, 16, 1024
	q, k, v := f32(g, "q", 1, tokens, dim), f32(g, "k", 1, tokens, dim), f32(g, "v", 1, tokens, dim)
	g.Output("y", g.Attention(q, k, v, heads, 0.125))
}}

// Operations runs the operations one by one.
func Operations(ctx context.Context, dev, ref backend.Backend, p backend.Precision) []Check {
	list := make([]Check, 0, len(operations))
	for _, o := range operations {
		list = append(list, o.check(ctx, dev, ref, p))
	}
	return list
}

func (o operation) check(ctx context.Context, dev, ref backend.Backend, p backend.Precision) Check {
	g := graph.New(o.name)
	o.build(g)
	g, err := g.Build()
	if err != nil {
		return Check{Name: o.name, Err: err}
	}
	in := make([][]byte, len(g.Inputs))
	for i, n := range g.Inputs {
		v := make([]float32, n.Numel())
		for k := range v {
			v[k] = unit(o.name+n.Op.(graph.Input).Name, k)
		}
		in[i] = bytesOf(v)
	}
	return compare(ctx, o.name, dev, ref, p, g, in)
}
