// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// The two kinds of signatures that most ops share.
type (
	unarySend  = *objc.Method[func(o, x, name objc.ID) objc.ID]
	binarySend = *objc.Method[func(o, a, b, name objc.ID) objc.ID]
)

// Those that were declared, by the first word of the message.
var (
	unaries  = map[string]unarySend{}
	binaries = map[string]binarySend{}
)

// declare1 declares, once, the message WORDWithTensor:name:.
func declare1(word string, since objc.Version) unarySend {
	if unaries[word] == nil {
		unaries[word] = objc.Instance[func(o, x, name objc.ID) objc.ID]("MPSGraph", word+"WithTensor:name:", since)
	}
	return unaries[word]
}

// declare2 declares, once, the message WORDWithPrimaryTensor:secondaryTensor:name:.
func declare2(word string, since objc.Version) binarySend {
	if binaries[word] == nil {
		binaries[word] = objc.Instance[func(o, a, b, name objc.ID) objc.ID]("MPSGraph", word+"WithPrimaryTensor:secondaryTensor:name:", since)
	}
	return binaries[word]
}

// Function declares a function of one number, called op in messages and errors; word is
// Apple's. For package variables: every declaration is compared with Apple's tables.
func Function(op, word string) func(*Graph, *Tensor) *Tensor {
	m := declare1(word, objc.V(11, 0))
	return func(g *Graph, x *Tensor) *Tensor { return g.unary(op, m, x) }
}

// Function2 declares a function of two numbers.
func Function2(op, word string) func(g *Graph, a, b *Tensor) *Tensor {
	m := declare2(word, objc.V(11, 0))
	return func(g *Graph, a, b *Tensor) *Tensor { return g.binary(op, m, a, b, 0) }
}

// unary is an op on the float elements of one value.
func (g *Graph) unary(op string, m unarySend, x *Tensor) *Tensor {
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	if !x.dtype.Float() {
		return g.failf(op, in, "want a float type")
	}
	return g.done(op, in, m.Send(g.id, x.id, 0), x.shape, x.dtype)
}

// Abs is |x|.
func (g *Graph) Abs(x *Tensor) *Tensor { return g.unary("abs", absolute, x) }

// Neg is -x.
func (g *Graph) Neg(x *Tensor) *Tensor { return g.unary("neg", negative, x) }

// Exp is e^x.
func (g *Graph) Exp(x *Tensor) *Tensor { return g.unary("exp", exponent, x) }

// Log is the natural logarithm.
func (g *Graph) Log(x *Tensor) *Tensor { return g.unary("log", logarithm, x) }

// Sqrt is the square root.
func (g *Graph) Sqrt(x *Tensor) *Tensor { return g.unary("sqrt", squareRoot, x) }

// Rsqrt is 1/sqrt(x).
func (g *Graph) Rsqrt(x *Tensor) *Tensor { return g.unary("rsqrt", reciprocalSqrt, x) }

// Reciprocal is 1/x.
func (g *Graph) Reciprocal(x *Tensor) *Tensor { return g.unary("reciprocal", reciprocal, x) }

// Square is x*x.
func (g *Graph) Square(x *Tensor) *Tensor { return g.unary("square", square, x) }

// Tanh is the hyperbolic tangent.
func (g *Graph) Tanh(x *Tensor) *Tensor { return g.unary("tanh", hyperbolicTangent, x) }

// Sigmoid is 1/(1+e^-x).
func (g *Graph) Sigmoid(x *Tensor) *Tensor { return g.unary("sigmoid", sigmoid, x) }

// Erf is the error function. Apple documents no error bound, and in half
// precision it has none worth having: cast around it.
func (g *Graph) Erf(x *Tensor) *Tensor { return g.unary("erf", erf, x) }

// ReLU is max(x, 0).
func (g *Graph) ReLU(x *Tensor) *Tensor { return g.unary("relu", reLU, x) }

// Cast converts the element type; a cast to the same type is no op. What exceeds
// 65504 is infinite in half precision: scale before, not after.
func (g *Graph) Cast(x *Tensor, to tensor.DType) *Tensor {
	const op = "cast"
	if !g.ready(op, x) {
		return g.dead()
	}
	if x.dtype == to {
		return x
	}
	in := []*Tensor{x}
	if !g.mayMake(op, in, x.shape, to) {
		return g.dead()
	}
	return g.done(op, in, cast.Send(g.id, x.id, dataTypes[to], 0), x.shape, to)
}

// broadcastShape is the shape of a op b; MPSGraph follows numpy's rule.
func broadcastShape(a, b tensor.Shape) (tensor.Shape, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := a.Clone()
	for i, d := range b {
		j := len(a) - len(b) + i
		switch {
		case out[j] == d, d == 1:
		case out[j] == 1:
			out[j] = d
		default:
			return nil, false
		}
	}
	return out, true
}

// binary is an op on pairs of elements; to is the result's type, Invalid for the
// operands'. MPSGraph promotes nothing: the types must be equal.
func (g *Graph) binary(op string, m binarySend, a, b *Tensor, to tensor.DType) *Tensor {
	if !g.ready(op, a, b) {
		return g.dead()
	}
	in := []*Tensor{a, b}
	if a.dtype != b.dtype {
		return g.failf(op, in, "different types")
	}
	if to == tensor.Invalid {
		to = a.dtype
	}
	shape, ok := broadcastShape(a.shape, b.shape)
	if !ok {
		return g.failf(op, in, "shapes do not broadcast")
	}
	if !g.mayMake(op, in, shape, to) {
		return g.dead()
	}
	return g.done(op, in, m.Send(g.id, a.id, b.id, 0), shape, to)
}

// Add is a + b.
func (g *Graph) Add(a, b *Tensor) *Tensor { return g.binary("add", addition, a, b, 0) }

// Sub is a - b.
func (g *Graph) Sub(a, b *Tensor) *Tensor { return g.binary("sub", subtraction, a, b, 0) }

// Mul is a * b.
func (g *Graph) Mul(a, b *Tensor) *Tensor { return g.binary("mul", multiplication, a, b, 0) }

// Div is a / b.
func (g *Graph) Div(a, b *Tensor) *Tensor { return g.binary("div", division, a, b, 0) }

// Pow is a^b.
func (g *Graph) Pow(a, b *Tensor) *Tensor { return g.binary("pow", power, a, b, 0) }

// Maximum is the larger one; NaN when either is. The plain op promises nothing
// about NaN, and a network that has gone wrong must not look right.
func (g *Graph) Maximum(a, b *Tensor) *Tensor { return g.binary("maximum", maximumNaN, a, b, 0) }

// Minimum is the smaller one; NaN when either is.
func (g *Graph) Minimum(a, b *Tensor) *Tensor { return g.binary("minimum", minimumNaN, a, b, 0) }

// Equal is a == b, a Bool.
func (g *Graph) Equal(a, b *Tensor) *Tensor { return g.binary("equal", equal, a, b, tensor.Bool) }

// Less is a < b, a Bool.
func (g *Graph) Less(a, b *Tensor) *Tensor { return g.binary("less", lessThan, a, b, tensor.Bool) }

// Greater is a > b, a Bool.
func (g *Graph) Greater(a, b *Tensor) *Tensor {
	return g.binary("greater", greaterThan, a, b, tensor.Bool)
}

// Select is yes where cond, no elsewhere; all three broadcast. It takes elements
// and does not multiply by 0 and 1: infinities of the other side do not leak.
func (g *Graph) Select(cond, yes, no *Tensor) *Tensor {
	const op = "select"
	if !g.ready(op, cond, yes, no) {
		return g.dead()
	}
	in := []*Tensor{cond, yes, no}
	if cond.dtype != tensor.Bool || yes.dtype != no.dtype {
		return g.failf(op, in, "want a bool and two equal types")
	}
	shape, ok := broadcastShape(yes.shape, no.shape)
	if ok {
		shape, ok = broadcastShape(shape, cond.shape)
	}
	if !ok {
		return g.failf(op, in, "shapes do not broadcast")
	}
	if !g.mayMake(op, in, shape, yes.dtype) {
		return g.dead()
	}
	return g.done(op, in, selectOp.Send(g.id, cond.id, yes.id, no.id, 0), shape, yes.dtype)
}
