// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// value is a result of an operation in the text.
type value struct {
	name  string
	shape tensor.Shape
	dtype tensor.DType
}

// pred is the type of comparisons, which the graph does not have.
const pred = tensor.Invalid

// typeNames are the element types of the text.
var typeNames = map[tensor.DType]string{
	pred: "i1", tensor.F32: "f32", tensor.F16: "f16", tensor.BF16: "bf16", tensor.F64: "f64",
	tensor.I32: "i32", tensor.I64: "i64", tensor.U8: "ui8",
}

func typeOf(d tensor.DType, s tensor.Shape) string {
	var b strings.Builder
	b.WriteString("tensor<")
	for _, n := range s {
		b.WriteString(strconv.Itoa(n))
		b.WriteByte('x')
	}
	b.WriteString(typeNames[d])
	b.WriteByte('>')
	return b.String()
}

func (v value) typ() string { return typeOf(v.dtype, v.shape) }

// writer collects the body of the function.
type writer struct {
	body  strings.Builder
	fresh int
	// consts are the constants by type and text: each is written once.
	consts map[string]value
}

// emit appends an operation with one result. format and args make the text
// between "=" and ":"; sig is what stands behind.
func (w *writer) emit(out value, sig, format string, args ...any) value {
	out.name = fmt.Sprintf("%%%d", w.fresh)
	w.fresh++
	fmt.Fprintf(&w.body, "    %s = ", out.name)
	fmt.Fprintf(&w.body, format, args...)
	fmt.Fprintf(&w.body, " : %s\n", sig)
	return out
}

// signature is (operands) -> result.
func signature(out value, in ...value) string {
	types := make([]string, len(in))
	for i, x := range in {
		types[i] = x.typ()
	}
	return "(" + strings.Join(types, ", ") + ") -> " + out.typ()
}

// number writes a constant's number.
func number(v float64, d tensor.DType) string {
	if d == pred {
		return strconv.FormatBool(v != 0)
	}
	if !d.Float() {
		return strconv.FormatInt(int64(v), 10)
	}
	hex := func() string {
		switch d {
		case tensor.F64:
			return fmt.Sprintf("0x%016X", math.Float64bits(v))
		case tensor.F16:
			return fmt.Sprintf("0x%04X", tensor.F16FromFloat32(float32(v)))
		case tensor.BF16:
			return fmt.Sprintf("0x%04X", tensor.BF16FromFloat32(float32(v)))
		}
		return fmt.Sprintf("0x%08X", math.Float32bits(float32(v)))
	}
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return hex()
	}
	bits := 32
	if d == tensor.F64 {
		bits = 64
	}
	// MLIR wants a point: 1.0e-06.
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, bits), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	return mantissa + "e" + exponent
}

// splat is a constant with one number everywhere.
func (w *writer) splat(v float64, d tensor.DType, s tensor.Shape) value {
	out := value{shape: s, dtype: d}
	text := fmt.Sprintf("stablehlo.constant dense<%s> : %s", number(v, d), out.typ())
	if c, ok := w.consts[text]; ok {
		return c
	}
	out = w.emit(out, out.typ(), "stablehlo.constant dense<%s>", number(v, d))
	w.consts[text] = out
	return out
}

// like is a splat of x's shape and type.
func (w *writer) like(v float64, x value) value { return w.splat(v, x.dtype, x.shape) }

func (w *writer) unary(op string, x value) value {
	if strings.HasPrefix(op, "chlo.") {
		return w.emit(x, x.typ()+" -> "+x.typ(), "%s %s", op, x.name)
	}
	return w.emit(x, x.typ(), "stablehlo.%s %s", op, x.name)
}

func (w *writer) binary(op string, a, b value) value {
	return w.emit(a, a.typ(), "stablehlo.%s %s, %s", op, a.name, b.name)
}

// compare gives a predicate; direction is EQ, GT, ...
func (w *writer) compare(direction string, a, b value) value {
	out := value{shape: a.shape, dtype: pred}
	kind := "SIGNED"
	if a.dtype.Float() {
		kind = "FLOAT"
	}
	return w.emit(out, signature(out, a, b), "stablehlo.compare %s, %s, %s, %s", direction, a.name, b.name, kind)
}

func (w *writer) choose(p, a, b value) value {
	return w.emit(a, p.typ()+", "+a.typ(), "stablehlo.select %s, %s, %s", p.name, a.name, b.name)
}

func (w *writer) convert(x value, d tensor.DType) value {
	if x.dtype == d {
		return x
	}
	out := value{shape: x.shape, dtype: d}
	return w.emit(out, signature(out, x), "stablehlo.convert %s", x.name)
}

func (w *writer) reshape(x value, s tensor.Shape) value {
	if x.shape.Equal(s) {
		return x
	}
	out := value{shape: s, dtype: x.dtype}
	return w.emit(out, signature(out, x), "stablehlo.reshape %s", x.name)
}

func (w *writer) transpose(x value, perm ...int) value {
	identity := true
	s := make(tensor.Shape, len(perm))
	for i, p := range perm {
		s[i] = x.shape[p]
		identity = identity && i == p
	}
	if identity {
		return x
	}
	out := value{shape: s, dtype: x.dtype}
	return w.emit(out, signature(out, x), "stablehlo.transpose %s, dims = %s", x.name, ints(perm))
}

// broadcast repeats x: dimension i of x is dimension dims[i] of s.
func (w *writer) broadcast(x value, s tensor.Shape, dims ...int) value {
	if x.shape.Equal(s) {
		return x
	}
	out := value{shape: s, dtype: x.dtype}
	return w.emit(out, signature(out, x), "stablehlo.broadcast_in_dim %s, dims = %s", x.name, ints(dims))
}

// fit broadcasts as numpy does.
func (w *writer) fit(x value, s tensor.Shape) value {
	dims := make([]int, len(x.shape))
	for i := range dims {
		dims[i] = len(s) - len(dims) + i
	}
	return w.broadcast(x, s, dims...)
}

// last broadcasts a vector over the last dimension.
func (w *writer) last(x value, s tensor.Shape) value { return w.broadcast(x, s, len(s)-1) }

func (w *writer) slice(x value, begin, end, step []int) value {
	out := value{shape: make(tensor.Shape, len(begin)), dtype: x.dtype}
	parts := make([]string, len(begin))
	whole := true
	for i := range begin {
		out.shape[i] = (end[i] - begin[i] + step[i] - 1) / step[i]
		parts[i] = fmt.Sprintf("%d:%d", begin[i], end[i])
		if step[i] != 1 {
			parts[i] += fmt.Sprintf(":%d", step[i])
		}
		whole = whole && out.shape[i] == x.shape[i]
	}
	if whole {
		return x
	}
	return w.emit(out, signature(out, x), "stablehlo.slice %s [%s]", x.name, strings.Join(parts, ", "))
}

// cut takes begin <= i < end of one axis.
func (w *writer) cut(x value, axis, begin, end int) value {
	r := len(x.shape)
	b, e, s := make([]int, r), []int(x.shape.Clone()), make([]int, r)
	for i := range s {
		s[i] = 1
	}
	b[axis], e[axis] = begin, end
	return w.slice(x, b, e, s)
}

func (w *writer) concat(axis int, in ...value) value {
	if len(in) == 1 {
		return in[0]
	}
	out := value{shape: in[0].shape.Clone(), dtype: in[0].dtype}
	names := make([]string, len(in))
	out.shape[axis] = 0
	for i, x := range in {
		names[i] = x.name
		out.shape[axis] += x.shape[axis]
	}
	return w.emit(out, signature(out, in...), "stablehlo.concatenate %s, dim = %d", strings.Join(names, ", "), axis)
}

// pad surrounds x with v; between are the elements put between two of x.
func (w *writer) pad(x value, v float64, before, after, between []int) value {
	out := value{shape: make(tensor.Shape, len(before)), dtype: x.dtype}
	for i, n := range x.shape {
		out.shape[i] = before[i] + after[i] + n + between[i]*max(n-1, 0)
	}
	c := w.splat(v, x.dtype, nil)
	return w.emit(out, signature(out, x, c), "stablehlo.pad %s, %s, low = %s, high = %s, interior = %s",
		x.name, c.name, ints(before), ints(after), ints(between))
}

// reduce folds axes with a binary operation.
func (w *writer) reduce(op string, init float64, x value, axes ...int) value {
	gone := map[int]bool{}
	for _, a := range axes {
		gone[a] = true
	}
	out := value{dtype: x.dtype, shape: tensor.Shape{}}
	for i, n := range x.shape {
		if !gone[i] {
			out.shape = append(out.shape, n)
		}
	}
	c := w.splat(init, x.dtype, nil)
	return w.emit(out, signature(out, x, c), "stablehlo.reduce(%s init: %s) applies stablehlo.%s across dimensions = %s",
		x.name, c.name, op, ints(axes))
}

// iota counts along an axis.
func (w *writer) iota(d tensor.DType, s tensor.Shape, axis int) value {
	out := value{shape: s, dtype: d}
	return w.emit(out, out.typ(), "stablehlo.iota dim = %d", axis)
}

// contraction says how dot multiplies: which dimensions of both are batches,
// which are summed.
type contraction struct{ batchA, batchB, sumA, sumB []int }

// dot is a product with a result of type d; exact asks for all digits of
// float32 where the device has a faster way with fewer.
func (w *writer) dot(a, b value, c contraction, d tensor.DType, exact bool) value {
	out := value{dtype: d, shape: tensor.Shape{}}
	in := func(list []int, i int) bool {
		for _, x := range list {
			if x == i {
				return true
			}
		}
		return false
	}
	for _, i := range c.batchA {
		out.shape = append(out.shape, a.shape[i])
	}
	for i, n := range a.shape {
		if !in(c.batchA, i) && !in(c.sumA, i) {
			out.shape = append(out.shape, n)
		}
	}
	for i, n := range b.shape {
		if !in(c.batchB, i) && !in(c.sumB, i) {
			out.shape = append(out.shape, n)
		}
	}
	batch := ""
	if len(c.batchA) > 0 {
		batch = fmt.Sprintf("batching_dims = %s x %s, ", ints(c.batchA), ints(c.batchB))
	}
	return w.emit(out, signature(out, a, b), "stablehlo.dot_general %s, %s, %scontracting_dims = %s x %s, precision = %s",
		a.name, b.name, batch, ints(c.sumA), ints(c.sumB), precision(exact))
}

func precision(exact bool) string {
	if exact {
		return "[HIGHEST, HIGHEST]"
	}
	return "[DEFAULT, DEFAULT]"
}

// ints writes a list of numbers.
func ints(list []int) string {
	parts := make([]string, len(list))
	for i, x := range list {
		parts[i] = strconv.Itoa(x)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
