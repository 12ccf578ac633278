// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// Activation is a function that fused operations apply to their result.
type Activation string

// The activations. Gelu is the erf form.
const (
	None     Activation = "none"
	Relu     Activation = "relu"
	Gelu     Activation = "gelu"
	GeluTanh Activation = "gelu_tanh"
	Tanh     Activation = "tanh"
	Sigmoid  Activation = "sigmoid"
)

var activations = map[Activation]graph.UnaryFn{
	Relu: graph.Relu, Gelu: graph.Gelu, GeluTanh: graph.GeluTanh, Tanh: graph.Tanh, Sigmoid: graph.Sigmoid,
}

func (a Activation) check() error {
	if _, ok := activations[a]; !ok && a != None {
		return refuse(ErrOption, "activation %q, want none, relu, gelu, gelu_tanh, tanh or sigmoid", string(a))
	}
	return nil
}

// apply adds the activation to a graph.
func (a Activation) apply(g *graph.Graph, x *graph.Node) *graph.Node {
	if a == None {
		return x
	}
	return g.Unary(activations[a], x)
}

// MatMul is a b for a [...,m,k], b [...,k,n]; leading dimensions broadcast.
func (c *Context) MatMul(a, b *Tensor) (*Tensor, error) { return c.MatMulActivation(a, b, None) }

// MatMulTransposed is a b^T for b [...,n,k].
func (c *Context) MatMulTransposed(a, b *Tensor) (*Tensor, error) {
	return c.compute("matmul_t", func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.MatMul{TransB: true}, in[0], in[1])
	}, a, b)
}

// MatMulActivation is act(a b) in one dispatch.
func (c *Context) MatMulActivation(a, b *Tensor, act Activation) (*Tensor, error) {
	if err := act.check(); err != nil {
		return nil, err
	}
	return c.compute("matmul+"+string(act), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return act.apply(g, g.Add(graph.MatMul{}, in[0], in[1]))
	}, a, b)
}

// MatMulBias is a b + bias in one dispatch; bias broadcasts.
func (c *Context) MatMulBias(a, b, bias *Tensor) (*Tensor, error) {
	return c.MatMulBiasActivation(a, b, bias, None)
}

// MatMulBiasActivation is act(a b + bias) in one dispatch; bias broadcasts.
func (c *Context) MatMulBiasActivation(a, b, bias *Tensor, act Activation) (*Tensor, error) {
	if err := act.check(); err != nil {
		return nil, err
	}
	return c.compute("matmul+bias+"+string(act), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return act.apply(g, g.AddTo(g.Add(graph.MatMul{}, in[0], in[1]), in[2]))
	}, a, b, bias)
}

// Linear is act(x W^T + b) for x [...,in], W [out,in], b [out] or nil.
func (c *Context) Linear(x, w, b *Tensor, act Activation) (*Tensor, error) {
	if err := act.check(); err != nil {
		return nil, err
	}
	return c.fusedLinear("linear+"+string(act), x, w, b, nil, func(g *graph.Graph, y, _ *graph.Node) *graph.Node {
		return act.apply(g, y)
	})
}

// fusedLinear runs after(x W^T + b, extra) in one dispatch.
func (c *Context) fusedLinear(key string, x, w, b, extra *Tensor, after func(g *graph.Graph, y, extra *graph.Node) *graph.Node) (*Tensor, error) {
	in := []*Tensor{x, w}
	if b != nil {
		key += "+bias"
		in = append(in, b)
	}
	if extra != nil {
		in = append(in, extra)
	}
	return c.compute(key, func(g *graph.Graph, n []*graph.Node) *graph.Node {
		var bias, rest *graph.Node
		if b != nil {
			bias = n[2]
		}
		if extra != nil {
			rest = n[len(n)-1]
		}
		return after(g, g.Linear(n[0], n[1], bias), rest)
	}, in...)
}

// residualLinear is fusedLinear with an extra operand that must be there.
func (c *Context) residualLinear(key string, x, w, b, r *Tensor, after func(g *graph.Graph, y, r *graph.Node) *graph.Node) (*Tensor, error) {
	if err := given(key, r); err != nil {
		return nil, err
	}
	return c.fusedLinear(key, x, w, b, r, after)
}

// LinearAdd is x W^T + b + r, the residual form.
func (c *Context) LinearAdd(x, w, b, r *Tensor) (*Tensor, error) {
	return c.residualLinear("linear_add", x, w, b, r, func(g *graph.Graph, y, r *graph.Node) *graph.Node { return g.AddTo(y, r) })
}

// LinearAddGelu is gelu(x W^T + b + r).
func (c *Context) LinearAddGelu(x, w, b, r *Tensor) (*Tensor, error) {
	return c.residualLinear("linear_add_gelu", x, w, b, r, func(g *graph.Graph, y, r *graph.Node) *graph.Node {
		return g.Unary(graph.Gelu, g.AddTo(y, r))
	})
}

// LinearResidualRelu is relu(x W^T + b + r).
func (c *Context) LinearResidualRelu(x, w, b, r *Tensor) (*Tensor, error) {
	return c.residualLinear("linear_residual_relu", x, w, b, r, func(g *graph.Graph, y, r *graph.Node) *graph.Node {
		return g.Unary(graph.Relu, g.AddTo(y, r))
	})
}

// GeluLinear is gelu(x) W^T + b.
func (c *Context) GeluLinear(x, w, b *Tensor) (*Tensor, error) {
	return c.compute("gelu_linear", func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Linear(g.Unary(graph.Gelu, in[0]), in[1], in[2])
	}, x, w, b)
}

// LayerNormLinear is layer_norm(x) W^T + b.
func (c *Context) LayerNormLinear(x, gamma, beta *Tensor, eps float32, w, b *Tensor) (*Tensor, error) {
	return c.compute(fmt.Sprintf("layer_norm_linear%x", eps), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Linear(g.LayerNorm(in[0], in[1], in[2], eps), in[3], in[4])
	}, x, gamma, beta, w, b)
}

// LinearBatchNormRelu is relu(batch_norm(x W^T + b)) with running statistics
// per output feature.
func (c *Context) LinearBatchNormRelu(x, w, b, gamma, beta, mean, variance *Tensor, eps float32) (*Tensor, error) {
	return c.compute(fmt.Sprintf("linear_batch_norm_relu%x", eps), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		y := g.Linear(in[0], in[1], in[2])
		return g.Unary(graph.Relu, batchNorm(g, y, in[3], in[4], in[5], in[6], eps))
	}, x, w, b, gamma, beta, mean, variance)
}

// LinearBackward computes the gradients of y = act(x W^T + b): it adds the
// weight's to gw and the bias' to gb, in place, and returns the input's. y is
// the layer's output, from which the derivative of the activation is taken
// (relu, tanh, sigmoid, none); for the gelu forms give the pre-activation
// x W^T + b.
func (c *Context) LinearBackward(gy, y, x, w, gw, gb *Tensor, act Activation) (*Tensor, error) {
	if err := act.check(); err != nil {
		return nil, err
	}
	if err := checkLinearBackward(gy, y, x, w, gw, gb); err != nil {
		return nil, err
	}
	out, err := c.computeAll("linear_backward+"+string(act), func(g *graph.Graph, in []*graph.Node) []*graph.Node {
		gy, y, x, w, gw, gb := in[0], in[1], in[2], in[3], in[4], in[5]
		if act != None {
			gy = g.Binary(graph.Mul, gy, derivative(g, act, y))
		}
		rows := gy.Shape[:len(gy.Shape)-1].Numel()
		flat := g.Reshape(gy, rows, w.Shape[0])
		xs := g.Reshape(x, rows, w.Shape[1])
		// gW = gy^T x: a product with both operands seen as [rows, .].
		dw := g.Add(graph.MatMul{}, g.Transpose(flat, 1, 0), xs)
		db := g.Add(graph.Reduce{Axes: []int{0}}, flat)
		dx := g.Reshape(g.Add(graph.MatMul{}, flat, w), x.Shape...)
		return []*graph.Node{dx, g.AddTo(gw, dw), g.AddTo(gb, db)}
	}, gy, y, x, w, gw, gb)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(gw.become(out[1], nil), gb.become(out[2], nil)); err != nil {
		release(out)
		return nil, err
	}
	return out[0], nil
}

// checkLinearBackward checks all shapes before anything changes, because sums would
// broadcast shapes that do not fit.
func checkLinearBackward(gy, y, x, w, gw, gb *Tensor) error {
	if err := given("linear_backward", gy, y, x, w, gw, gb); err != nil {
		return err
	}
	n := len(x.shape) - 1
	switch {
	case len(w.shape) != 2 || n < 0 || x.shape[n] != w.shape[1]:
		return refuse(ErrShape, "linear_backward of x %v and w %v, want [...,in] and [out,in]", x.shape, w.shape)
	case len(gy.shape) != n+1 || !gy.shape[:n].Equal(x.shape[:n]) || gy.shape[n] != w.shape[0]:
		return refuse(ErrShape, "linear_backward of gy %v for x %v and w %v", gy.shape, x.shape, w.shape)
	case !y.shape.Equal(gy.shape):
		return refuse(ErrShape, "linear_backward of y %v and gy %v", y.shape, gy.shape)
	case !gw.shape.Equal(w.shape) || len(gb.shape) != 1 || gb.shape[0] != w.shape[0]:
		return refuse(ErrShape, "linear_backward into gw %v and gb %v for w %v", gw.shape, gb.shape, w.shape)
	}
	return nil
}

// derivative of an activation: from its output for relu, tanh and sigmoid, from
// its input for the gelu forms.
func derivative(g *graph.Graph, act Activation, v *graph.Node) *graph.Node {
	switch act {
	case Relu:
		return g.Unary(graph.Step, v)
	case Tanh:
		return g.Affine(g.Unary(graph.Square, v), -1, 1)
	case Sigmoid:
		return g.Binary(graph.Mul, v, g.Affine(v, -1, 1))
	case GeluTanh:
		return geluTanhDerivative(g, v)
	}
	return geluDerivative(g, v)
}

// geluTanhDerivative is that of x (1+t)/2 with t = tanh(u), u = k (x + a x^3):
// (1+t)/2 + x (1-t^2)/2 k (1 + 3 a x^2).
func geluTanhDerivative(g *graph.Graph, x *graph.Node) *graph.Node {
	const k, a = 0.79788456080286536, 0.044715 // k is sqrt(2/pi)
	mul := func(p, q *graph.Node) *graph.Node { return g.Binary(graph.Mul, p, q) }
	sq := g.Unary(graph.Square, x)
	t := g.Unary(graph.Tanh, mul(x, g.Affine(sq, k*a, k)))
	slope := mul(g.Affine(g.Unary(graph.Square, t), -0.5, 0.5), g.Affine(sq, 3*k*a, k))
	return g.AddTo(g.Affine(t, 0.5, 0.5), mul(x, slope))
}

// geluDerivative is Phi(x) + x phi(x) with the standard normal distribution and
// density.
func geluDerivative(g *graph.Graph, x *graph.Node) *graph.Node {
	const (
		invSqrt2   = 0.70710678118654752
		invSqrt2Pi = 0.39894228040143268
	)
	cdf := g.Affine(g.Unary(graph.Erf, g.Affine(x, invSqrt2, 0)), 0.5, 0.5)
	pdf := g.Affine(g.Unary(graph.Exp, g.Affine(g.Unary(graph.Square, x), -0.5, 0)), invSqrt2Pi, 0)
	return g.AddTo(cdf, g.Binary(graph.Mul, x, pdf))
}

// ActivationBackward is gy times the derivative of the named activation at the
// pre-activation x.
func (c *Context) ActivationBackward(act Activation, gy, x *Tensor) (*Tensor, error) {
	if err := act.check(); err != nil {
		return nil, err
	}
	return c.compute("activation_backward+"+string(act), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		gy, x := in[0], in[1]
		switch act {
		case None:
			return g.Affine(gy, 1, 0)
		case Tanh, Sigmoid:
			x = act.apply(g, x)
		}
		return g.Binary(graph.Mul, gy, derivative(g, act, x))
	}, gy, x)
}

var linearOps = []row{
	{"matmul(a, b)", "a b; leading dimensions broadcast.", "matmul, matmul_transposed", map2((*Context).MatMul)},
	{"matmul_transposed(a, b)", "a b^T.", "matmul", map2((*Context).MatMulTransposed)},
	{"einsum(x...; spec string)", "Einstein's summation, as einsum(\"ij,jk->ik\", a, b).", "einsum", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Einsum(a.text("spec"), in...))
	}},
	{"linear(x, w, b?; activation string = none)", "activation(x w^T + b), w [out,in].", "linear_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Linear(in[0], in[1], in[2], a.activation()))
	}},
	{"linear_backward(gy, y, x, w, gw!, gb!; activation string = none) -> gx", "Add the gradients of linear to gw and gb; return the input's. y is the output.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.LinearBackward(in[0], in[1], in[2], in[3], in[4], in[5], a.activation()))
	}},
	{"activation_backward(gy, x; activation string)", "gy times the derivative of the named activation at its input x.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.ActivationBackward(a.activation(), in[0], in[1]))
	}},
}
