// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// The functions that MPSGraph has, by their names in the table of operations.
var (
	unaryFns  = declared(graph.UnaryFns(), mpsgraph.Function)
	binaryFns = declared(graph.BinaryFns(), mpsgraph.Function2)
)

func declared[F interface {
	comparable
	String() string
	Names() graph.Names
}, M any](all []F, declare func(op, word string) M) map[F]M {
	out := map[F]M{}
	for _, f := range all {
		if word := f.Names().MPSGraph; word != "" {
			out[f] = declare(f.String(), word)
		}
	}
	return out
}

// unary lowers a function of one number. Sign changes and ReLU are exact in any
// type and keep the one they are given; activations compute in float32 and go
// back to it, since they stand between products; the rest is float32.
func (l *lowering) unary(n *graph.Node, o graph.Unary) (*mpsgraph.Tensor, error) {
	g := l.out
	switch o.Fn {
	case graph.Neg:
		return g.Neg(l.in(n, 0, carried)), nil
	case graph.Abs:
		return g.Abs(l.in(n, 0, carried)), nil
	case graph.Relu:
		return g.ReLU(l.in(n, 0, carried)), nil
	case graph.Gelu, graph.GeluTanh, graph.Tanh, graph.Sigmoid:
		// The two casts cost nothing: they are in one chain with what is between.
		x := l.in(n, 0, carried)
		return g.Cast(l.activation(o.Fn, l.cast(x, tensor.F32)), x.DType()), nil
	}
	if o.Fn == graph.Step {
		x := l.in(n, 0, carried)
		return g.Cast(g.Greater(x, g.Scalar(0, x.DType())), x.DType()), nil
	}
	x := l.in(n, 0, tensor.F32)
	if o.Fn == graph.Expm1 {
		return l.expm1(x), nil
	}
	if f, ok := unaryFns[o.Fn]; ok {
		return f(g, x), nil
	}
	return nil, fmt.Errorf("%w: function %v", ErrUnsupported, o.Fn)
}

// activation computes in float32: half precision has no erf worth having, and
// MPSGraph documents no error bound for its own.
func (l *lowering) activation(fn graph.UnaryFn, x *mpsgraph.Tensor) *mpsgraph.Tensor {
	g := l.out
	switch fn {
	case graph.Tanh:
		return g.Tanh(x)
	case graph.Sigmoid:
		return g.Sigmoid(x)
	case graph.GeluTanh:
		// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
		cubic := l.scale(g.Mul(g.Square(x), x), 0.044715)
		return l.halfPlus(x, g.Tanh(l.scale(g.Add(x, cubic), math.Sqrt(2/math.Pi))))
	}
	// 0.5 x (1 + erf(x / sqrt 2)). Far left the sum cancels to an absolute error of
	// 1e-7 |x|, which is nothing beside the other channels.
	return l.halfPlus(x, g.Erf(l.scale(x, math.Sqrt2/2)))
}

// halfPlus is 0.5 x (1 + y). Halving is exact, so its place among the factors does
// not matter.
func (l *lowering) halfPlus(x, y *mpsgraph.Tensor) *mpsgraph.Tensor {
	return l.out.Mul(l.scale(x, 0.5), l.shift(y, 1))
}

func (l *lowering) scale(x *mpsgraph.Tensor, v float64) *mpsgraph.Tensor {
	return l.out.Mul(x, l.out.Scalar(v, x.DType()))
}

func (l *lowering) shift(x *mpsgraph.Tensor, v float64) *mpsgraph.Tensor {
	return l.out.Add(x, l.out.Scalar(v, x.DType()))
}

// expm1 is e^x - 1 without the cancellation at small x, for which MPSGraph has
// no op: below 0.5 the Taylor series to x^9/9!, whose remainder is under 1e-9
// of the value, above it the difference, which loses less than two bits.
func (l *lowering) expm1(x *mpsgraph.Tensor) *mpsgraph.Tensor {
	g := l.out
	// Horner: x (1 + x/2 (1 + x/3 (... (1 + x/9)))).
	series := l.shift(l.scale(x, 1.0/9), 1)
	for k := 8; k >= 2; k-- {
		series = l.shift(g.Mul(l.scale(x, 1/float64(k)), series), 1)
	}
	small := g.Less(g.Abs(x), g.Scalar(0.5, x.DType()))
	return g.Select(small, g.Mul(x, series), l.shift(g.Exp(x), -1))
}

// binary lowers a function of two numbers. The type follows the operands, and
// is float32 when either is; a sum of two half-precision activations of at most
// three dimensions is a transformer's residual stream, whose outlier channels
// want float32. In the feature maps of the heads half precision stays.
func (l *lowering) binary(n *graph.Node, o graph.Binary) (*mpsgraph.Tensor, error) {
	f, ok := binaryFns[o.Fn]
	if !ok {
		return nil, fmt.Errorf("%w: function %v", ErrUnsupported, o.Fn)
	}
	d := tensor.F16
	for _, x := range n.In {
		if _, ok := x.Op.(graph.Param); ok {
			continue // takes the other side's type
		}
		if l.values[x.ID].DType() != tensor.F16 || len(n.Shape) <= 3 {
			d = tensor.F32
		}
	}
	if o.Fn == graph.Div || o.Fn == graph.Pow || isParam(n.In[0]) && isParam(n.In[1]) {
		d = tensor.F32 // a quotient or a power may leave half precision's range
	}
	return f(l.out, l.in(n, 0, d), l.in(n, 1, d)), nil
}

func isParam(n *graph.Node) bool { _, ok := n.Op.(graph.Param); return ok }

// affine is x*scale + shift in float32, the same two roundings as the reference
// has: MPSGraph has no fused form that would promise fewer.
func (l *lowering) affine(n *graph.Node, o graph.Affine) *mpsgraph.Tensor {
	x := l.in(n, 0, tensor.F32)
	if o.Scale != 1 {
		x = l.scale(x, float64(o.Scale))
	}
	if o.Shift != 0 {
		x = l.shift(x, float64(o.Shift))
	}
	return x
}

// move lowers the operations that rearrange elements; they keep the type. Those
// without an effect, common where a picture fits a grid exactly, are no node:
// MPSGraph is not known to drop them.
func (l *lowering) move(n *graph.Node) (*mpsgraph.Tensor, bool) {
	g := l.out
	switch o := n.Op.(type) {
	case graph.Reshape:
		return g.Reshape(l.in(n, 0, carried), shapeOf(o.Shape)...), true
	case graph.Transpose:
		if len(o.Perm) == 0 {
			return l.in(n, 0, carried), true
		}
		return g.Transpose(l.in(n, 0, carried), o.Perm...), true
	case graph.Slice:
		if n.Shape.Equal(n.In[0].Shape) { // as the crop of an even grid
			return l.in(n, 0, carried), true
		}
		return g.Slice(l.in(n, 0, carried), o.Begin, o.End, o.Step), true
	case graph.Concat:
		return l.concat(n, o), true
	case graph.Pad:
		if len(o.Before) == 0 {
			return l.in(n, 0, carried), true
		}
		return g.Pad(l.in(n, 0, carried), o.Before, o.After, float64(o.Value)), true
	case graph.Broadcast:
		return g.Broadcast(l.in(n, 0, carried), shapeOf(o.Shape)...), true
	case graph.Gather:
		axis := o.Axis
		if axis < 0 {
			axis += len(n.In[0].Shape)
		}
		// 64-bit indices are narrowed: no axis here has 2^31 elements.
		return g.Gather(l.in(n, 0, carried), l.in(n, 1, tensor.I32), axis), true
	}
	return nil, false
}

// concat joins in float32 when any operand is: rounding the others' side would
// touch values that a later normalisation still wants whole.
func (l *lowering) concat(n *graph.Node, o graph.Concat) *mpsgraph.Tensor {
	d := carried
	if n.DType.Float() {
		d = tensor.F16
		for i := range n.In {
			if l.in(n, i, carried).DType() != tensor.F16 {
				d = tensor.F32
			}
		}
	}
	list := make([]*mpsgraph.Tensor, len(n.In))
	for i := range list {
		list[i] = l.in(n, i, d)
	}
	return l.out.Concat(o.Axis, list...)
}
