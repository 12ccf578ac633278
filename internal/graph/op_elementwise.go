// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Unary applies Fn to each element of one operand.
type Unary struct{ Fn UnaryFn }

func (o Unary) Kind() string { return o.Fn.String() }

func (o Unary) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if int(o.Fn) >= len(unaryFns) {
		return nil, 0, dtypeErr("unknown function %d", o.Fn)
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}

// UnaryFn names a function of one number.
type UnaryFn uint8

// The functions of Unary. Gelu is the exact form x*(1+erf(x/sqrt2))/2.
const (
	Neg UnaryFn = iota
	Abs
	Exp
	Expm1
	Log
	Sqrt
	Rsqrt
	Reciprocal
	Square
	Sin
	Cos
	Tan
	Tanh
	Sigmoid
	Erf
	Relu
	Gelu
	GeluTanh
	// Step is 1 for x > 0, else 0: the derivative of Relu.
	Step
	Floor
	Ceil
)

// Binary applies Fn to pairs of elements; shapes broadcast as in numpy.
type Binary struct{ Fn BinaryFn }

func (o Binary) Kind() string { return o.Fn.String() }

func (o Binary) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	if int(o.Fn) >= len(binaryFns) {
		return nil, 0, dtypeErr("unknown function %d", o.Fn)
	}
	d, err := computeType(in[0], in[1])
	if err != nil {
		return nil, 0, err
	}
	s, err := broadcastShapes(in[0].Shape, in[1].Shape)
	return s, d, err
}

// BinaryFn names a function of two numbers.
type BinaryFn uint8

// The functions of Binary.
const (
	Add BinaryFn = iota
	Sub
	Mul
	Div
	Pow
	Maximum
	Minimum
	// Atan2 is the angle of the point (b, a), in the quadrant of their signs.
	Atan2
)

// Affine is x*Scale + Shift with two numbers, computed in float32 as a product
// rounded, then a sum rounded (no fused multiply-add).
type Affine struct{ Scale, Shift float32 }

func (Affine) Kind() string { return "affine" }

func (o Affine) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}

// Cast converts the element type; floats round to nearest even.
type Cast struct{ To tensor.DType }

func (Cast) Kind() string { return "cast" }

func (o Cast) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if o.To.Size() == 0 {
		return nil, 0, dtypeErr("cast to %v", o.To)
	}
	return in[0].Shape, o.To, nil
}

// computeType is the type of a result made of a and b. Two activations must
// agree; a Param takes the other side's type, since a checkpoint's storage
// format says nothing about the arithmetic.
func computeType(a, b *Node) (tensor.DType, error) {
	if err := isFloat(a, "the first operand"); err != nil {
		return 0, err
	}
	if err := isFloat(b, "the second operand"); err != nil {
		return 0, err
	}
	if a.DType == b.DType || isParam(b) {
		return a.DType, nil
	}
	if isParam(a) {
		return b.DType, nil
	}
	return 0, dtypeErr("%v and %v", a.DType, b.DType)
}

// Names are what a function is called elsewhere. An empty name means that there it
// takes more than one operation, which the translation spells out, or that it is
// missing, which Lacks then says.
type Names struct {
	// MPSGraph is the message up to "WithTensor:" or "WithPrimaryTensor:".
	MPSGraph string
	// StableHLO is the name without its dialect, or "chlo." and the name.
	StableHLO string
	ONNX      string
}

// unaryFns say what the functions of Unary are, in float64. positive marks those
// that are not real numbers for every operand.
var unaryFns = [...]struct {
	name, doc string
	names     Names
	f         func(x float64) float64
	positive  bool
	lacks     []string
}{
	Neg:        {"neg", "-x.", Names{"negative", "negate", "Neg"}, func(x float64) float64 { return -x }, false, nil},
	Abs:        {"abs", "Absolute values.", Names{"absolute", "abs", "Abs"}, math.Abs, false, nil},
	Exp:        {"exp", "Exponentials.", Names{"exponent", "exponential", "Exp"}, math.Exp, false, nil},
	Expm1:      {"expm1", "exp(x) - 1, exact near 0.", Names{"", "exponential_minus_one", ""}, math.Expm1, false, nil},
	Log:        {"log", "Natural logarithms.", Names{"logarithm", "log", "Log"}, math.Log, true, nil},
	Sqrt:       {"sqrt", "Square roots.", Names{"squareRoot", "sqrt", "Sqrt"}, math.Sqrt, true, nil},
	Rsqrt:      {"rsqrt", "1 / sqrt(x).", Names{"reciprocalSquareRoot", "rsqrt", ""}, func(x float64) float64 { return 1 / math.Sqrt(x) }, true, nil},
	Reciprocal: {"reciprocal", "1 / x.", Names{"reciprocal", "", "Reciprocal"}, func(x float64) float64 { return 1 / x }, true, nil},
	Square:     {"square", "x * x.", Names{"square", "", ""}, func(x float64) float64 { return x * x }, false, nil},
	Sin:        {"sin", "Sines.", Names{"sin", "sine", "Sin"}, math.Sin, false, nil},
	Cos:        {"cos", "Cosines.", Names{"cos", "cosine", "Cos"}, math.Cos, false, nil},
	Tan:        {"tan", "Tangents.", Names{"tan", "tan", "Tan"}, math.Tan, false, nil},
	Tanh:       {"tanh", "Hyperbolic tangents.", Names{"tanh", "tanh", "Tanh"}, math.Tanh, false, nil},
	Sigmoid:    {"sigmoid", "1 / (1 + exp(-x)).", Names{"sigmoid", "logistic", "Sigmoid"}, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, false, nil},
	Erf:        {"erf", "The error function.", Names{"erf", "chlo.erf", "Erf"}, math.Erf, false, nil},
	Relu:       {"relu", "max(x, 0).", Names{"reLU", "", "Relu"}, func(x float64) float64 { return max(x, 0) }, false, nil},
	Gelu:       {"gelu", "x Phi(x), the erf form.", Names{"", "", "Gelu"}, func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }, false, nil},
	GeluTanh:   {"gelu_tanh", "The tanh approximation of gelu.", Names{"", "", ""}, geluTanh, false, nil},
	Step:       {"step", "1 where x > 0, else 0.", Names{"", "", ""}, step, false, noONNX},
	Floor:      {"floor", "The largest whole number up to x.", Names{"floor", "floor", "Floor"}, math.Floor, false, nil},
	Ceil:       {"ceil", "The smallest whole number from x on.", Names{"ceil", "ceil", "Ceil"}, math.Ceil, false, nil},
}

// geluTanh is the approximation some networks were trained with. It is up to
// 4.7e-4 away from the exact form and never stands in for it (network.md 4).
func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func step(x float64) float64 {
	if x > 0 {
		return 1
	}
	return 0
}

// UnaryFns lists the functions of Unary.
func UnaryFns() []UnaryFn { return enumAll[UnaryFn](len(unaryFns)) }

func (f UnaryFn) String() string {
	if int(f) >= len(unaryFns) {
		return fmt.Sprintf("unknown(%d)", uint8(f))
	}
	return unaryFns[f].name
}

// Doc says in a sentence what f is.
func (f UnaryFn) Doc() string { return unaryFns[f].doc }

// Names says what f is called elsewhere.
func (f UnaryFn) Names() Names {
	if int(f) >= len(unaryFns) {
		return Names{}
	}
	return unaryFns[f].names
}

// Of is f as a function of one number, nil for a value that names none.
func (f UnaryFn) Of() func(x float64) float64 {
	if int(f) >= len(unaryFns) {
		return nil
	}
	return unaryFns[f].f
}

func unaryOps() (rows []Operation) {
	for _, f := range UnaryFns() {
		fn := unaryFns[f]
		example := func(g *Graph) *Node { return g.Unary(f, floats(g, 3, 5)) }
		if fn.positive {
			example = func(g *Graph) *Node { return g.Unary(f, positive(g, 3, 5)) }
		}
		rows = append(rows, Operation{fn.name, "x", "float", fn.doc, example, fn.lacks})
	}
	return rows
}

// binaryFns say what the functions of Binary are, in float64.
var binaryFns = [...]struct {
	name, doc string
	names     Names
	f         func(a, b float64) float64
	lacks     []string
}{
	Add:     {"add", "a + b.", Names{"addition", "add", "Add"}, func(a, b float64) float64 { return a + b }, nil},
	Sub:     {"sub", "a - b.", Names{"subtraction", "subtract", "Sub"}, func(a, b float64) float64 { return a - b }, nil},
	Mul:     {"mul", "a * b.", Names{"multiplication", "multiply", "Mul"}, func(a, b float64) float64 { return a * b }, nil},
	Div:     {"div", "a / b.", Names{"division", "divide", "Div"}, func(a, b float64) float64 { return a / b }, nil},
	Pow:     {"pow", "a to the power of b.", Names{"power", "power", "Pow"}, math.Pow, nil},
	Maximum: {"maximum", "The larger of two elements.", Names{"maximumWithNaNPropagation", "maximum", "Max"}, math.Max, nil},
	Minimum: {"minimum", "The smaller of two elements.", Names{"minimumWithNaNPropagation", "minimum", "Min"}, math.Min, nil},
	Atan2:   {"atan2", "The angle of the point (b, a) in radians, -pi to pi.", Names{"atan2", "atan2", ""}, math.Atan2, noONNX},
}

// BinaryFns lists the functions of Binary.
func BinaryFns() []BinaryFn { return enumAll[BinaryFn](len(binaryFns)) }

func (f BinaryFn) String() string {
	if int(f) >= len(binaryFns) {
		return fmt.Sprintf("unknown(%d)", uint8(f))
	}
	return binaryFns[f].name
}

// Doc says in a sentence what f is.
func (f BinaryFn) Doc() string { return binaryFns[f].doc }

// Names says what f is called elsewhere.
func (f BinaryFn) Names() Names {
	if int(f) >= len(binaryFns) {
		return Names{}
	}
	return binaryFns[f].names
}

// Of is f as a function of two numbers, nil for a value that names none.
func (f BinaryFn) Of() func(a, b float64) float64 {
	if int(f) >= len(binaryFns) {
		return nil
	}
	return binaryFns[f].f
}

func binaryOps() (rows []Operation) {
	for _, f := range BinaryFns() {
		rows = append(rows, Operation{f.String(), "a, b", "float; a weight takes the other's type", f.Doc(), func(g *Graph) *Node {
			return g.Binary(f, positive(g, 2, 1, 4), positive(g, 3, 4))
		}, binaryFns[f].lacks})
	}
	return rows
}

var elementwiseOps = []Operation{
	{"affine", "x", "float", "x * scale + shift with two numbers, rounded after each.", func(g *Graph) *Node { return g.Affine(floats(g, 3, 5), 2, -1) }, nil},
	{"cast", "x", "any", "Convert the element type; floats round to nearest even.", func(g *Graph) *Node { return g.Cast(g.Cast(floats(g, 3, 5), tensor.F16), tensor.F32) }, nil},
}
