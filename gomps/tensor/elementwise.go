// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	dt "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// compute runs an operation with one result in float32 and stores it in the
// type of the first operand; all float operands must agree in type.
func (c *Context) compute(key string, build func(g *graph.Graph, in []*graph.Node) *graph.Node, in ...*Tensor) (*Tensor, error) {
	out, err := c.computeAll(key, func(g *graph.Graph, in []*graph.Node) []*graph.Node {
		return []*graph.Node{build(g, in)}
	}, in...)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// computeAll is compute for several results.
func (c *Context) computeAll(key string, build func(g *graph.Graph, in []*graph.Node) []*graph.Node, in ...*Tensor) ([]*Tensor, error) {
	store := dt.F32
	var first *Tensor
	for _, t := range in {
		if t == nil || !t.dtype.Float() { // run reports nil
			continue
		}
		if first == nil {
			first, store = t, t.dtype
		}
		if t.dtype != store {
			return nil, refuse(ErrDType, "%s of %v%v and %v%v", key, store, first.shape, t.dtype, t.shape)
		}
	}
	return c.run(key, func(g *graph.Graph, nodes []*graph.Node) []*graph.Node {
		for i, n := range nodes {
			if n.DType.Float() {
				nodes[i] = g.Cast(n, dt.F32)
			}
		}
		out := build(g, nodes)
		for i, n := range out {
			if n.DType.Float() {
				out[i] = g.Cast(n, store)
			}
		}
		return out
	}, in...)
}

func (c *Context) unary(fn graph.UnaryFn, x *Tensor) (*Tensor, error) {
	return c.compute(fn.String(), func(g *graph.Graph, in []*graph.Node) *graph.Node { return g.Unary(fn, in[0]) }, x)
}

// Exp and the functions after it apply to every element; the list of operations in the
// package comment says what each is.
func (c *Context) Exp(x *Tensor) (*Tensor, error)        { return c.unary(graph.Exp, x) }
func (c *Context) Log(x *Tensor) (*Tensor, error)        { return c.unary(graph.Log, x) }
func (c *Context) Sqrt(x *Tensor) (*Tensor, error)       { return c.unary(graph.Sqrt, x) }
func (c *Context) Sin(x *Tensor) (*Tensor, error)        { return c.unary(graph.Sin, x) }
func (c *Context) Cos(x *Tensor) (*Tensor, error)        { return c.unary(graph.Cos, x) }
func (c *Context) Tan(x *Tensor) (*Tensor, error)        { return c.unary(graph.Tan, x) }
func (c *Context) Neg(x *Tensor) (*Tensor, error)        { return c.unary(graph.Neg, x) }
func (c *Context) Abs(x *Tensor) (*Tensor, error)        { return c.unary(graph.Abs, x) }
func (c *Context) Erf(x *Tensor) (*Tensor, error)        { return c.unary(graph.Erf, x) }
func (c *Context) Expm1(x *Tensor) (*Tensor, error)      { return c.unary(graph.Expm1, x) }
func (c *Context) Reciprocal(x *Tensor) (*Tensor, error) { return c.unary(graph.Reciprocal, x) }
func (c *Context) Rsqrt(x *Tensor) (*Tensor, error)      { return c.unary(graph.Rsqrt, x) }
func (c *Context) Square(x *Tensor) (*Tensor, error)     { return c.unary(graph.Square, x) }
func (c *Context) Step(x *Tensor) (*Tensor, error)       { return c.unary(graph.Step, x) }
func (c *Context) Floor(x *Tensor) (*Tensor, error)      { return c.unary(graph.Floor, x) }
func (c *Context) Ceil(x *Tensor) (*Tensor, error)       { return c.unary(graph.Ceil, x) }

// Relu, Gelu (the erf form), GeluTanh, Sigmoid and Tanh are the activations.
func (c *Context) Relu(x *Tensor) (*Tensor, error)     { return c.unary(graph.Relu, x) }
func (c *Context) Gelu(x *Tensor) (*Tensor, error)     { return c.unary(graph.Gelu, x) }
func (c *Context) GeluTanh(x *Tensor) (*Tensor, error) { return c.unary(graph.GeluTanh, x) }
func (c *Context) Sigmoid(x *Tensor) (*Tensor, error)  { return c.unary(graph.Sigmoid, x) }
func (c *Context) Tanh(x *Tensor) (*Tensor, error)     { return c.unary(graph.Tanh, x) }

func (c *Context) binary(fn graph.BinaryFn, relu bool, a, b *Tensor) (*Tensor, error) {
	key := fn.String()
	if relu {
		key += "+relu"
	}
	return c.compute(key, func(g *graph.Graph, in []*graph.Node) *graph.Node {
		y := g.Binary(fn, in[0], in[1])
		if relu {
			y = g.Unary(graph.Relu, y)
		}
		return y
	}, a, b)
}

// Add, Sub, Mul, Div, Pow, Maximum, Minimum and Atan2 combine elements; shapes
// broadcast as in numpy.
func (c *Context) Add(a, b *Tensor) (*Tensor, error)     { return c.binary(graph.Add, false, a, b) }
func (c *Context) Sub(a, b *Tensor) (*Tensor, error)     { return c.binary(graph.Sub, false, a, b) }
func (c *Context) Mul(a, b *Tensor) (*Tensor, error)     { return c.binary(graph.Mul, false, a, b) }
func (c *Context) Div(a, b *Tensor) (*Tensor, error)     { return c.binary(graph.Div, false, a, b) }
func (c *Context) Pow(a, b *Tensor) (*Tensor, error)     { return c.binary(graph.Pow, false, a, b) }
func (c *Context) Maximum(a, b *Tensor) (*Tensor, error) { return c.binary(graph.Maximum, false, a, b) }
func (c *Context) Minimum(a, b *Tensor) (*Tensor, error) { return c.binary(graph.Minimum, false, a, b) }
func (c *Context) Atan2(a, b *Tensor) (*Tensor, error)   { return c.binary(graph.Atan2, false, a, b) }

// AddRelu, SubRelu, MulRelu and DivRelu apply ReLU in the same dispatch.
func (c *Context) AddRelu(a, b *Tensor) (*Tensor, error) { return c.binary(graph.Add, true, a, b) }
func (c *Context) SubRelu(a, b *Tensor) (*Tensor, error) { return c.binary(graph.Sub, true, a, b) }
func (c *Context) MulRelu(a, b *Tensor) (*Tensor, error) { return c.binary(graph.Mul, true, a, b) }
func (c *Context) DivRelu(a, b *Tensor) (*Tensor, error) { return c.binary(graph.Div, true, a, b) }

// AddBias adds a vector [n] to the rows of x [...,n].
func (c *Context) AddBias(x, bias *Tensor) (*Tensor, error) {
	if err := given("add_bias", x, bias); err != nil {
		return nil, err
	}
	if len(bias.shape) != 1 || len(x.shape) < 1 || bias.shape[0] != x.Dim(-1) {
		return nil, refuse(ErrShape, "add_bias of %v to the rows of %v", bias.shape, x.shape)
	}
	return c.binary(graph.Add, false, x, bias)
}

// withNumbers runs an operation on x and numbers in float32. The numbers are an input of the
// compiled operation, so that changing them does not compile it again.
func (c *Context) withNumbers(key string, x *Tensor, numbers []float32, build func(g *graph.Graph, x *graph.Node, n []*graph.Node) *graph.Node) (*Tensor, error) {
	s, err := c.FromFloat32s(numbers, len(numbers))
	if err != nil {
		return nil, err
	}
	defer s.Release()
	return c.move(key, func(g *graph.Graph, in []*graph.Node) *graph.Node {
		n := make([]*graph.Node, len(numbers))
		for i := range n {
			n[i] = g.SliceAxis(in[1], 0, i, i+1)
			if len(in[0].Shape) == 0 { // beside one without dimensions they have none either
				n[i] = g.Add(graph.Reshape{}, n[i])
			}
		}
		return g.Cast(build(g, g.Cast(in[0], dt.F32), n), in[0].DType)
	}, x, s)
}

// Affine is x*scale + shift with two numbers.
func (c *Context) Affine(x *Tensor, scale, shift float32) (*Tensor, error) {
	return c.withNumbers("affine", x, []float32{scale, shift}, func(g *graph.Graph, x *graph.Node, n []*graph.Node) *graph.Node {
		return g.Binary(graph.Add, g.Binary(graph.Mul, x, n[0]), n[1])
	})
}

// MulAdd is x*scale + shift with tensors, which broadcast.
func (c *Context) MulAdd(x, scale, shift *Tensor) (*Tensor, error) {
	return c.compute("mul_add", func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Binary(graph.Add, g.Binary(graph.Mul, in[0], in[1]), in[2])
	}, x, scale, shift)
}

func (c *Context) scalar(fn graph.BinaryFn, x *Tensor, v float32) (*Tensor, error) {
	return c.withNumbers(fn.String()+"_scalar", x, []float32{v}, func(g *graph.Graph, x *graph.Node, n []*graph.Node) *graph.Node {
		return g.Binary(fn, x, n[0])
	})
}

// AddScalar, MulScalar and PowScalar combine every element with one number.
func (c *Context) AddScalar(x *Tensor, v float32) (*Tensor, error) { return c.scalar(graph.Add, x, v) }
func (c *Context) MulScalar(x *Tensor, v float32) (*Tensor, error) { return c.scalar(graph.Mul, x, v) }
func (c *Context) PowScalar(x *Tensor, v float32) (*Tensor, error) { return c.scalar(graph.Pow, x, v) }

// become gives t the memory of y, which must have its shape and type, and releases its own.
func (t *Tensor) become(y *Tensor, err error) error {
	if err != nil {
		return err
	}
	defer y.Release()
	if !y.shape.Equal(t.shape) || y.dtype != t.dtype {
		return refuse(ErrShape, "the result %v%v does not fit in place of %v%v", y.dtype, y.shape, t.dtype, t.shape)
	}
	for {
		old := t.mem.buf.Load()
		if old == nil { // it was released, perhaps while y was computed
			return refuse(ErrReleased, "an operation in place")
		}
		if t.mem.buf.CompareAndSwap(old, y.mem.buf.Load()) {
			y.mem.buf.Store(old)
			t.bounds.Store(nil)
			return nil
		}
	}
}

// AddInPlace, SubInPlace, MulInPlace and DivInPlace replace the elements of t by
// those of t op u; u broadcasts to the shape of t.
func (t *Tensor) AddInPlace(u *Tensor) error { return t.inPlace(graph.Add, u) }
func (t *Tensor) SubInPlace(u *Tensor) error { return t.inPlace(graph.Sub, u) }
func (t *Tensor) MulInPlace(u *Tensor) error { return t.inPlace(graph.Mul, u) }
func (t *Tensor) DivInPlace(u *Tensor) error { return t.inPlace(graph.Div, u) }

func (t *Tensor) inPlace(fn graph.BinaryFn, u *Tensor) error {
	if err := given(fn.String()+" in place", t, u); err != nil {
		return err
	}
	return t.become(t.c.binary(fn, false, t, u))
}

// CopyInPlace replaces the elements of t by those of u, which broadcasts to the shape
// of t and has its type.
func (t *Tensor) CopyInPlace(u *Tensor) error {
	if err := given("copy in place", t, u); err != nil {
		return err
	}
	if t.c != u.c {
		return refuse(ErrOption, "copy in place of a tensor of another context")
	}
	if u.shape.Equal(t.shape) {
		return t.become(u.Copy())
	}
	return t.become(t.c.Broadcast(u, t.shape...))
}

// ReluInPlace replaces the elements of t that are less than 0 by 0.
func (t *Tensor) ReluInPlace() error {
	if err := given("relu in place", t); err != nil {
		return err
	}
	return t.become(t.c.Relu(t))
}

// Zero replaces the elements of t by zeros, as between two steps of training.
func (t *Tensor) Zero() error {
	if err := given("zero", t); err != nil {
		return err
	}
	return t.become(t.c.Zeros(t.DType(), t.shape...))
}

// unaryOps are the functions of one number, all that the graph has.
func unaryOps() (rows []row) {
	gradients := map[graph.UnaryFn]string{graph.Abs: "", graph.Step: "", graph.Floor: "", graph.Ceil: ""}
	for _, f := range []graph.UnaryFn{graph.Relu, graph.Gelu, graph.GeluTanh, graph.Sigmoid, graph.Tanh} {
		gradients[f] = "activation_backward"
	}
	for _, f := range graph.UnaryFns() {
		gradient, ok := gradients[f]
		if !ok {
			gradient = elementary
		}
		run := map1(func(c *Context, x *Tensor) (*Tensor, error) { return c.unary(f, x) })
		rows = append(rows, row{f.String() + "(x)", f.Doc(), gradient, run})
	}
	return rows
}

// binaryOps are the functions of two numbers, all that the graph has.
func binaryOps() (rows []row) {
	for _, f := range graph.BinaryFns() {
		gradient := elementary
		if f == graph.Maximum || f == graph.Minimum {
			gradient = ""
		}
		run := map2(func(c *Context, a, b *Tensor) (*Tensor, error) { return c.binary(f, false, a, b) })
		rows = append(rows, row{f.String() + "(a, b)", f.Doc(), gradient, run})
	}
	return rows
}

var elementwiseOps = []row{
	{"add_bias(x, bias)", "Add a vector to every row.", elementary, map2((*Context).AddBias)},
	{"add_scalar(x; value float)", "x + value.", elementary, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.AddScalar(in[0], a.float("value")))
	}},
	{"mul_scalar(x; value float)", "x * value.", elementary, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.MulScalar(in[0], a.float("value")))
	}},
	{"pow_scalar(x; value float)", "x to the power of value.", elementary, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.PowScalar(in[0], a.float("value")))
	}},
	{"add_(t!, u) -> ", "t += u.", "", inPlace((*Tensor).AddInPlace)},
	{"sub_(t!, u) -> ", "t -= u.", "", inPlace((*Tensor).SubInPlace)},
	{"mul_(t!, u) -> ", "t *= u.", "", inPlace((*Tensor).MulInPlace)},
	{"div_(t!, u) -> ", "t /= u.", "", inPlace((*Tensor).DivInPlace)},
	{"relu_(t!) -> ", "t = max(t, 0).", "", func(_ *Context, in []*Tensor, _ arguments) ([]*Tensor, error) { return nil, in[0].ReluInPlace() }},
	{"copy_(t!, u) -> ", "t = u, which broadcasts to t.", "", inPlace((*Tensor).CopyInPlace)},
	{"zero_(t!) -> ", "t = 0.", "", func(_ *Context, in []*Tensor, _ arguments) ([]*Tensor, error) { return nil, in[0].Zero() }},
}
