// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// draw makes one random graph of a few operations; the reference says what it
// means.
type draw struct {
	*graph.Graph
	r    *rand.Rand
	data [][]byte
}

// input declares a float32 input with standard normal values.
func (d *draw) input(shape ...int) *graph.Node {
	n := d.Input(fmt.Sprintf("x%d", len(d.data)), tensor.F32, shape...)
	v := make([]float32, n.Numel())
	for i := range v {
		v[i] = float32(d.r.NormFloat64())
	}
	d.data = append(d.data, bytesOf(v))
	return n
}

// weight declares a constant, scaled so that sums of fan of them stay near one.
func (d *draw) weight(shape ...int) *graph.Node {
	s := tensor.Shape(shape)
	fan := max(s.Numel()/max(s[0], 1), 1)
	v := make([]float32, s.Numel())
	for i := range v {
		v[i] = float32(d.r.NormFloat64()) / float32(fan)
	}
	name := fmt.Sprintf("w%d", len(d.Nodes))
	return d.Param(graph.Param{Name: name, Shape: s, DType: tensor.F32, Data: bytesOf(v)})
}

// indices declares an input of int32 numbers from 0 to n-1.
func (d *draw) indices(n int, shape ...int) *graph.Node {
	x := d.Input(fmt.Sprintf("x%d", len(d.data)), tensor.I32, shape...)
	v := make([]int, x.Numel())
	for i := range v {
		v[i] = d.r.IntN(n)
	}
	d.data = append(d.data, int32s(v))
	return x
}

func (d *draw) upTo(n int) int { return 1 + d.r.IntN(n) }

// Random runs each operation, and the fused forms that passes.Simplify makes of
// common patterns, on rounds random shapes and holds the result against the
// reference within limit (relative L2).
func Random(t *testing.T, run Runner, rounds int, limit float64) {
	for _, name := range sortedKeys(randomOps) {
		t.Run(name, func(t *testing.T) {
			for round := range rounds {
				randomOne(t, run, name, round, limit)
			}
		})
	}
}

func randomOne(t *testing.T, run Runner, name string, round int, limit float64) {
	d := &draw{Graph: graph.New(name), r: rand.New(rand.NewPCG(uint64(round), 0x6d617374))}
	randomOps[name](d)
	g, err := d.Build()
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	want, err := Reference(g, d.data)
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	// Once as it is and once simplified: both must mean the same.
	simple, err := passes.Simplify(g)
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	for _, h := range []*graph.Graph{g, simple} {
		out, err := run(h, d.data)
		if err != nil {
			t.Fatalf("round %d: %v\n%v", round, err, h)
		}
		for i, o := range g.Outputs {
			got, err1 := floats(o.Node, out[i])
			ref, err2 := floats(o.Node, want[i])
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if e := relL2(got, ref); !(e <= limit) {
				t.Fatalf("round %d: output %s: relative L2 %.3g, want <= %.3g\n%v", round, o.Name, e, limit, h)
			}
		}
	}
}

// randomOps draws a graph for each operation or pattern.
var randomOps = map[string]func(d *draw){
	"linear": func(d *draw) {
		k, n := d.upTo(80), d.upTo(100)
		d.Output("y", d.Linear(d.input(d.upTo(3), d.upTo(40), k), d.weight(n, k), d.weight(n)))
	},
	"linear_gelu_linear_residual": func(d *draw) {
		k, n := d.upTo(70), d.upTo(90)
		x := d.input(2, d.upTo(20), k)
		h := d.Unary(graph.Gelu, d.Linear(x, d.weight(n, k), d.weight(n)))
		d.Output("y", d.AddTo(x, d.Linear(h, d.weight(k, n), d.weight(k))))
	},
	"linear_gamma_residual": func(d *draw) {
		k := d.upTo(70)
		x := d.input(1, d.upTo(20), k)
		y := d.Binary(graph.Mul, d.Linear(x, d.weight(k, k), d.weight(k)), d.weight(k))
		d.Output("y", d.AddTo(x, y))
	},
	"matmul": func(d *draw) {
		b, m, k, n := d.upTo(3), d.upTo(30), d.upTo(60), d.upTo(40)
		d.Output("y", d.Add(graph.MatMul{}, d.input(b, m, k), d.input(b, k, n)))
		d.Output("t", d.Add(graph.MatMul{TransB: true}, d.input(b, m, k), d.input(1, n, k)))
	},
	"attention_rope": func(d *draw) {
		heads, hd := d.upTo(3), 8*d.upTo(8)
		g1, g2 := graph.Rope{Rows: d.upTo(5), Cols: d.upTo(6), Base: 100}, graph.Rope{Rows: d.upTo(5), Cols: d.upTo(6), Base: 100}
		b := d.upTo(2)
		q := d.RoPE(d.input(b, g1.Rows*g1.Cols, heads*hd), heads, g1)
		kv := d.input(b, g2.Rows*g2.Cols, 2*heads*hd)
		k := d.RoPE(d.SliceAxis(kv, 2, 0, heads*hd), heads, g2)
		d.Output("y", d.Attention(q, k, d.SliceAxis(kv, 2, heads*hd, 2*heads*hd), heads, 0.2))
	},
	"attention_qkv_mask": func(d *draw) {
		heads, hd, n, m := d.upTo(3), 8*d.upTo(9), d.upTo(70), d.upTo(90)
		o := graph.Attention{Heads: heads, Scale: 0.1, Mask: true}
		d.Output("y", d.Add(o, d.input(2, n, heads*hd), d.input(2, m, heads*hd), d.input(2, m, heads*hd), d.input(1, heads, n, m)))
	},
	"layer_norm": func(d *draw) {
		k := d.upTo(300)
		d.Output("y", d.LayerNorm(d.input(d.upTo(9), k), d.weight(k), d.weight(k), 1e-6))
		d.Output("r", d.Add(graph.RMSNorm{Eps: 1e-6}, d.input(d.upTo(9), k), d.weight(k)))
	},
	"softmax": func(d *draw) {
		x := d.input(d.upTo(4), d.upTo(9), d.upTo(60))
		d.Output("y", d.Add(graph.Softmax{Axis: d.r.IntN(3)}, x))
	},
	"conv2d": func(d *draw) {
		c, o, k, s := d.upTo(40), d.upTo(70), d.upTo(3), d.upTo(2)
		x := d.input(d.upTo(2), k+d.r.IntN(12), k+d.r.IntN(12), c)
		d.Output("y", d.Conv2D(x, d.weight(o, c, k, k), d.weight(o), s, d.r.IntN(k)))
	},
	"conv2d_residual_unit": func(d *draw) {
		c := d.upTo(40)
		x := d.input(d.upTo(2), 1+d.upTo(9), 1+d.upTo(12), c)
		y := d.Conv2D(d.Unary(graph.Relu, x), d.weight(c, c, 3, 3), d.weight(c), 1, 1)
		y = d.Conv2D(d.Unary(graph.Relu, y), d.weight(c, c, 3, 3), d.weight(c), 1, 1)
		d.Output("y", d.AddTo(x, y))
	},
	"conv2d_groups": func(d *draw) {
		g := d.upTo(3)
		c, o := g*d.upTo(6), g*d.upTo(6)
		x := d.input(1, 7, 8, c)
		d.Output("y", d.Add(graph.Conv2D{Stride: 1, Pad: 2, Dilation: 2, Groups: g}, x, d.weight(o, c/g, 3, 3)))
	},
	"conv_transpose2d": func(d *draw) {
		c, o, k := d.upTo(40), d.upTo(40), d.upTo(4)
		d.Output("y", d.ConvTranspose2D(d.input(d.upTo(2), d.upTo(6), d.upTo(6), c), d.weight(c, o, k, k), d.weight(o), k))
		x := graph.ConvTranspose2D{Stride: 2, Pad: 1, OutputPad: 1, Bias: true}
		d.Output("s", d.Add(x, d.input(1, d.upTo(6), d.upTo(6), c), d.weight(c, o, 3, 3), d.weight(o)))
	},
	"resize": func(d *draw) {
		for i, mode := range []graph.ResizeMode{graph.Nearest, graph.Bilinear, graph.Bicubic} {
			x := d.input(d.upTo(2), d.upTo(9), d.upTo(9), d.upTo(40))
			o := graph.Resize2D{H: d.upTo(20), W: d.upTo(20), Mode: mode, AlignCorners: mode == graph.Bilinear && d.r.IntN(2) == 0}
			d.Output(fmt.Sprint("y", i), d.Add(o, x))
		}
		x := d.input(1, 6, 6, d.upTo(40))
		d.Output("table", d.Add(graph.Resize2D{H: 5, W: 7, Mode: graph.Bicubic, ScaleH: 6 / 5.1, ScaleW: 6 / 7.1}, x))
	},
	"pool2d": func(d *draw) {
		x := d.input(1, 3+d.upTo(6), 3+d.upTo(6), d.upTo(20))
		sides := func() [2]int { return [2]int{d.upTo(3), d.upTo(3)} }
		d.Output("max", d.Add(graph.Pool2D{Kernel: sides(), Stride: sides()}, x))
		d.Output("avg", d.Add(graph.Pool2D{Kernel: sides(), Stride: sides(), Average: true}, x))
	},
	"pixel_shuffle": func(d *draw) {
		r := d.upTo(5)
		d.Output("y", d.Add(graph.PixelShuffle{R: r}, d.input(d.upTo(2), d.upTo(5), d.upTo(5), r*r*d.upTo(6))))
	},
	"output_functions": func(d *draw) {
		x := d.input(1, d.upTo(9), d.upTo(9), 7)
		d.Output("points", d.Add(graph.ExpPoints{}, d.SliceAxis(x, 3, 0, 3)))
		d.Output("desc", d.Add(graph.L2Normalize{}, d.SliceAxis(x, 3, 1, 7)))
		c := d.SliceAxis(x, 3, 3, 4)
		d.Output("conf", d.Affine(d.Unary(graph.Exp, d.Reshape(c, c.Shape[:3]...)), 1, 1))
	},
	"shapes": func(d *draw) {
		a, b, c := d.upTo(5), d.upTo(6), 2+d.upTo(7)
		x := d.input(a, b, c)
		d.Output("transpose", d.Transpose(x, 2, 0, 1))
		d.Output("slice", d.Add(graph.Slice{Begin: []int{0, 0, 1}, End: []int{a, b, c}, Step: []int{1, 1, 2}}, x))
		d.Output("concat", d.Concat(1, x, d.input(a, d.upTo(4), c)))
		d.Output("pad", d.Add(graph.Pad{Before: []int{1, 0, 2}, After: []int{0, 2, 1}, Value: -1.5}, x))
		d.Output("broadcast", d.Add(graph.Broadcast{Shape: tensor.Shape{a, b, 4, c}}, d.Reshape(x, a, b, 1, c)))
		d.Output("reshape", d.Reshape(x, a*b, c))
	},
	"patches": func(d *draw) {
		p, h, w := d.upTo(4), d.upTo(4), d.upTo(4)
		x := d.Reshape(d.input(2, h*p, w*p, 3), 2, h, p, w, p, 3)
		x = d.Reshape(d.Transpose(x, 0, 1, 3, 5, 2, 4), 2, h*w, 3*p*p)
		d.Output("y", d.Linear(x, d.weight(9, 3*p*p), d.weight(9)))
	},
	"binary": func(d *draw) {
		a, b := d.upTo(9), d.upTo(40)
		x := d.input(a, 1, b)
		pos := d.Affine(d.Unary(graph.Abs, d.input(a, 1, b)), 1, 0.5)
		for i, fn := range []graph.BinaryFn{graph.Add, graph.Sub, graph.Mul, graph.Div, graph.Maximum, graph.Minimum} {
			y := pos
			if fn != graph.Div {
				y = d.input(d.upTo(4), b)
			}
			d.Output(fmt.Sprint("y", i), d.Binary(fn, x, y))
		}
		d.Output("pow", d.Binary(graph.Pow, pos, d.input(b)))
	},
	"reduce": func(d *draw) {
		x := d.input(d.upTo(5), d.upTo(40), d.upTo(30))
		for i, fn := range []graph.ReduceFn{graph.ReduceSum, graph.ReduceMean, graph.ReduceMax, graph.ReduceMin} {
			d.Output(fmt.Sprint("y", i), d.Add(graph.Reduce{Fn: fn, Axes: []int{d.r.IntN(3)}, Keep: i%2 == 0}, x))
		}
		d.Output("arg", d.Add(graph.ArgReduce{Axis: d.r.IntN(3), Min: d.r.IntN(2) == 0}, x))
		d.Output("top", d.Add(graph.TopK{K: d.upTo(x.Shape[2])}, x))
	},
	"scatter_add": func(d *draw) {
		n, rows := d.upTo(20), d.upTo(12)
		d.Output("rows", d.Add(graph.ScatterAdd{Rows: rows}, d.input(n, d.upTo(300)), d.indices(rows, n)))
		d.Output("numbers", d.Add(graph.ScatterAdd{Rows: rows}, d.input(n), d.indices(rows, n)))
		d.Output("maps", d.Add(graph.ScatterAdd{Rows: rows}, d.input(n, d.upTo(3), d.upTo(9)), d.indices(rows, n)))
	},
	"one_hot": func(d *draw) {
		depth := d.upTo(20)
		d.Output("y", d.Add(graph.OneHot{Depth: depth}, d.indices(depth+2, d.upTo(3), d.upTo(30))))
	},
	"pool_grad": func(d *draw) {
		k, s := [2]int{d.upTo(3), d.upTo(3)}, [2]int{d.upTo(3), d.upTo(3)}
		// Few values, so that windows have ties.
		x := d.Binary(graph.Maximum, d.input(d.upTo(2), k[0]+d.r.IntN(7), k[1]+d.r.IntN(7), d.upTo(40)), d.Affine(d.input(1), 0, 0.5))
		at := d.Add(graph.PoolIndex{Kernel: k, Stride: s}, x)
		d.Output("at", at)
		d.Output("gx", d.Add(graph.PoolGrad{Kernel: k, Stride: s}, x, d.input(at.Shape...)))
	},
	"conv_grad": func(d *draw) {
		for i := range 2 {
			g, s, k, dil := 1+i*d.r.IntN(3), d.upTo(3), d.upTo(3), d.upTo(2)
			o := graph.Conv2D{Stride: s, Pad: d.r.IntN(k + 1), Dilation: dil, Groups: g}
			span := (k-1)*dil + 1
			x := d.input(d.upTo(3), span+d.r.IntN(9), span+d.r.IntN(9), g*d.upTo(9))
			w := d.input(g*d.upTo(9), x.Shape[3]/g, k, k)
			if i == 0 {
				w = d.weight(w.Shape...) // a constant
			}
			gy := d.input(d.Add(o, x, w).Shape...)
			d.Output(fmt.Sprint("gx", i), d.Add(graph.ConvGradInput{Stride: s, Pad: o.Pad, Dilation: dil, Groups: g, H: x.Shape[1], W: x.Shape[2]}, gy, w))
			d.Output(fmt.Sprint("gw", i), d.Add(graph.ConvGradWeight{Stride: s, Pad: o.Pad, Dilation: dil, Groups: g, KH: k, KW: k}, x, gy))
		}
	},
}
