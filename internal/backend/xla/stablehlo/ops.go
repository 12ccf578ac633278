// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// op dispatches to the translations.
func (l *lowering) op(n *graph.Node) (value, error) {
	switch o := n.Op.(type) {
	case graph.Unary:
		return l.unaryOp(n, o)
	case graph.Binary:
		return l.binaryOp(n, o)
	case graph.Affine:
		x := l.f32(n, 0)
		if o.Scale != 1 {
			x = l.binary("multiply", x, l.like(float64(o.Scale), x))
		}
		if o.Shift != 0 {
			x = l.binary("add", x, l.like(float64(o.Shift), x))
		}
		return l.convert(x, l.result(n)), nil
	case graph.Cast:
		return l.castOp(n, o)
	case graph.MatMul:
		return l.matMul(n, o), nil
	case graph.Linear:
		return l.linear(n, o), nil
	case graph.RoPE:
		return l.rope(n, o), nil
	case graph.Attention:
		return l.attention(n, o), nil
	case graph.LayerNorm, graph.RMSNorm, graph.Softmax, graph.L2Normalize, graph.ExpPoints:
		return l.vectors(n)
	case graph.Reduce, graph.ArgReduce, graph.TopK:
		return l.reductions(n)
	case graph.Conv2D, graph.ConvTranspose2D, graph.Pool2D, graph.Resize2D, graph.PixelShuffle:
		return l.maps(n)
	case graph.ScatterAdd, graph.OneHot, graph.PoolIndex, graph.PoolGrad, graph.ConvGradInput, graph.ConvGradWeight:
		return l.train(n)
	}
	return l.shapes(n)
}

// single is the number of a float constant with one element.
func single(p graph.Param) (float64, bool) {
	if p.Shape.Numel() != 1 {
		return 0, false
	}
	switch le := binary.LittleEndian; p.DType {
	case tensor.F64:
		return math.Float64frombits(le.Uint64(p.Data)), true
	case tensor.F32:
		return float64(math.Float32frombits(le.Uint32(p.Data))), true
	case tensor.F16:
		return float64(tensor.Float32FromF16(le.Uint16(p.Data))), true
	case tensor.BF16:
		return float64(tensor.Float32FromBF16(le.Uint16(p.Data))), true
	case tensor.I32:
		return float64(int32(le.Uint32(p.Data))), true
	}
	return 0, false
}

func (l *lowering) unaryOp(n *graph.Node, o graph.Unary) (value, error) {
	x := l.f32(n, 0)
	y := x
	if name := o.Fn.Names().StableHLO; name != "" {
		y = l.unary(name, x)
		return l.convert(y, l.result(n)), nil
	}
	switch o.Fn {
	case graph.Reciprocal:
		y = l.binary("divide", l.like(1, x), x)
	case graph.Square:
		y = l.binary("multiply", x, x)
	case graph.Relu:
		y = l.relu(x)
	case graph.Gelu:
		y = l.gelu(x)
	case graph.GeluTanh:
		// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
		cube := l.binary("multiply", l.binary("multiply", x, x), x)
		t := l.binary("add", x, l.binary("multiply", cube, l.like(0.044715, x)))
		t = l.unary("tanh", l.binary("multiply", t, l.like(math.Sqrt(2/math.Pi), x)))
		y = l.binary("multiply", l.binary("multiply", x, l.like(0.5, x)), l.binary("add", t, l.like(1, x)))
	case graph.Step:
		y = l.choose(l.compare("GT", x, l.like(0, x)), l.like(1, x), l.like(0, x))
	default:
		return value{}, fmt.Errorf("%w: %v", ErrUnsupported, o.Fn)
	}
	return l.convert(y, l.result(n)), nil
}

func (l *lowering) relu(x value) value { return l.binary("maximum", x, l.like(0, x)) }

// gelu is x/2 (1 + erf(x/sqrt 2)).
func (l *lowering) gelu(x value) value {
	e := l.unary("chlo.erf", l.binary("multiply", x, l.like(math.Sqrt2/2, x)))
	return l.binary("multiply", l.binary("multiply", x, l.like(0.5, x)), l.binary("add", e, l.like(1, x)))
}

// activate applies the function of a fused operation, in float32.
func (l *lowering) activate(a graph.Activation, x value) value {
	if a == graph.ActNone {
		return x
	}
	d := x.dtype
	if a == graph.ActRelu {
		return l.relu(x) // no rounding
	}
	return l.convert(l.gelu(l.convert(x, tensor.F32)), d)
}

func (l *lowering) binaryOp(n *graph.Node, o graph.Binary) (value, error) {
	name := o.Fn.Names().StableHLO
	if name == "" {
		return value{}, fmt.Errorf("%w: %v", ErrUnsupported, o.Fn)
	}
	a, b := l.fit(l.f32(n, 0), n.Shape), l.fit(l.f32(n, 1), n.Shape)
	return l.convert(l.binary(name, a, b), l.result(n)), nil
}

// castOp rounds where the target has fewer digits: XLA removes a pair of
// conversions that lead back, but no reduce_precision.
func (l *lowering) castOp(n *graph.Node, o graph.Cast) (value, error) {
	if _, ok := typeNames[o.To]; !ok || o.To == pred {
		return value{}, fmt.Errorf("%w: cast to %v", ErrUnsupported, o.To)
	}
	x := l.f32(n, 0)
	if bits, ok := map[tensor.DType]string{tensor.F16: "e5m10", tensor.BF16: "e8m7"}[o.To]; ok && x.dtype != o.To {
		x = l.convert(x, tensor.F32)
		x = l.emit(x, x.typ(), "stablehlo.reduce_precision %s, format = %s", x.name, bits)
	}
	return l.convert(x, o.To), nil
}

// matMul broadcasts the leading dimensions, which become the batch.
func (l *lowering) matMul(n *graph.Node, o graph.MatMul) value {
	r := len(n.Shape)
	lead := n.Shape[:r-2]
	operand := func(i int) value {
		x := l.factor(n, i)
		s := x.shape
		return l.fit(x, append(lead.Clone(), s[len(s)-2:]...))
	}
	c := contraction{sumA: []int{r - 1}, sumB: []int{r - 2}}
	if o.TransB {
		c.sumB = []int{r - 1}
	}
	for i := range lead {
		c.batchA, c.batchB = append(c.batchA, i), append(c.batchB, i)
	}
	return l.dot(operand(0), operand(1), c, l.result(n), l.opt.Exact)
}

// linear is gamma * act(x W^T + b) + residual. In half precision the product is
// summed in float32 and rounded, and bias and residual are added in the half
// type, where XLA's pattern for the library's epilogues looks for them.
func (l *lowering) linear(n *graph.Node, o graph.Linear) value {
	d := l.result(n)
	x := l.factor(n, 0)
	y := l.dot(x, l.factor(n, 1), contraction{sumA: []int{len(x.shape) - 1}, sumB: []int{1}}, d, l.opt.Exact)
	at := 2
	next := func(has bool) (value, bool) {
		if !has {
			return value{}, false
		}
		at++
		return l.as(n, at-1, d), true
	}
	if b, ok := next(o.Bias); ok {
		y = l.binary("add", y, l.last(b, y.shape))
	}
	y = l.activate(o.Act, y)
	if g, ok := next(o.Gamma); ok {
		y = l.binary("multiply", y, l.last(g, y.shape))
	}
	if r, ok := next(o.Residual); ok {
		y = l.binary("add", y, r)
	}
	return y
}

// linears are several with one input as one product.
func (l *lowering) linears(list []*graph.Node) error {
	d := l.half()
	x := l.factor(list[0], 0)
	var w, b Weight
	for _, n := range list {
		w.Params = append(w.Params, n.In[1].Op.(graph.Param))
		b.Params = append(b.Params, n.In[2].Op.(graph.Param))
	}
	w.DType, b.DType, w.Round = d, d, l.tf32()
	y := l.dot(x, l.weight(w), contraction{sumA: []int{len(x.shape) - 1}, sumB: []int{1}}, d, l.opt.Exact)
	y = l.binary("add", y, l.last(l.weight(b), y.shape))
	at := 0
	for _, n := range list {
		width := n.Shape[len(n.Shape)-1]
		if err := l.set(n, l.cut(y, len(y.shape)-1, at, at+width)); err != nil {
			return err
		}
		at += width
	}
	return nil
}
