// SPDX-License-Identifier: Apache-2.0

package graph

import "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"

// Reshape keeps the elements and their order and changes the dimensions.
type Reshape struct{ Shape tensor.Shape }

func (Reshape) Kind() string { return "reshape" }

func (o Reshape) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if err := o.Shape.Check(in[0].DType.Size()); err != nil {
		return nil, 0, err
	}
	if o.Shape.Numel() != in[0].Numel() {
		return nil, 0, shapeErr("%v has %d elements, want %d for %v", in[0], in[0].Numel(), o.Shape.Numel(), o.Shape)
	}
	return o.Shape, in[0].DType, nil
}

// Transpose permutes the dimensions: out.Shape[i] = in.Shape[Perm[i]].
type Transpose struct{ Perm []int }

func (Transpose) Kind() string { return "transpose" }

func (o Transpose) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	if len(o.Perm) != len(x.Shape) {
		return nil, 0, shapeErr("permutation %v for %v", o.Perm, x)
	}
	seen := make([]bool, len(x.Shape))
	out := make(tensor.Shape, len(x.Shape))
	for i, p := range o.Perm {
		if p < 0 || p >= len(seen) || seen[p] {
			return nil, 0, shapeErr("%v is not a permutation of %d axes", o.Perm, len(seen))
		}
		seen[p] = true
		out[i] = x.Shape[p]
	}
	return out, x.DType, nil
}

// Slice takes Begin, Begin+Step, ... up to but without End on every axis.
// Steps are at least 1.
type Slice struct{ Begin, End, Step []int }

func (Slice) Kind() string { return "slice" }

func (o Slice) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	r := len(x.Shape)
	if len(o.Begin) != r || len(o.End) != r || len(o.Step) != r {
		return nil, 0, shapeErr("begin %v, end %v, step %v for %v", o.Begin, o.End, o.Step, x)
	}
	out := make(tensor.Shape, r)
	for i, d := range x.Shape {
		b, e, s := o.Begin[i], o.End[i], o.Step[i]
		if s < 1 || b < 0 || e < b || e > d {
			return nil, 0, shapeErr("axis %d: %d:%d:%d of %d", i, b, e, s, d)
		}
		out[i] = (e - b + s - 1) / s
	}
	return out, x.DType, nil
}

// Concat joins its operands along Axis.
type Concat struct{ Axis int }

func (Concat) Kind() string { return "concat" }

func (o Concat) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if len(in) == 0 {
		return nil, 0, shapeErr("no operand")
	}
	a, err := axisIn(o.Axis, len(in[0].Shape))
	if err != nil {
		return nil, 0, err
	}
	out := in[0].Shape.Clone()
	for i, x := range in[1:] {
		if x.DType != in[0].DType {
			return nil, 0, dtypeErr("operand %d is %v, want %v", i+1, x.DType, in[0].DType)
		}
		if len(x.Shape) != len(out) {
			return nil, 0, shapeErr("operand %d is %v, want %d dimensions", i+1, x, len(out))
		}
		for j, d := range x.Shape {
			if j != a && d != out[j] {
				return nil, 0, shapeErr("operand %d is %v: dimension %d is %d, want %d", i+1, x, j, d, out[j])
			}
		}
		out[a] += x.Shape[a]
	}
	return out, in[0].DType, nil
}

// Pad surrounds the operand with Value: Before and After elements per axis.
type Pad struct {
	Before, After []int
	Value         float32
}

func (Pad) Kind() string { return "pad" }

func (o Pad) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	if len(o.Before) != len(x.Shape) || len(o.After) != len(x.Shape) {
		return nil, 0, shapeErr("before %v, after %v for %v", o.Before, o.After, x)
	}
	out := x.Shape.Clone()
	for i := range out {
		if o.Before[i] < 0 || o.After[i] < 0 {
			return nil, 0, shapeErr("negative padding: before %v, after %v", o.Before, o.After)
		}
		out[i] += o.Before[i] + o.After[i]
	}
	return out, x.DType, isFloat(x, "x")
}

// Broadcast repeats dimensions of size 1 (and missing leading ones) to Shape.
type Broadcast struct{ Shape tensor.Shape }

func (Broadcast) Kind() string { return "broadcast" }

func (o Broadcast) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	s, err := broadcastShapes(in[0].Shape, o.Shape)
	if err == nil && !s.Equal(o.Shape) {
		err = shapeErr("%v does not broadcast to %v", in[0], o.Shape)
	}
	return o.Shape, in[0].DType, err
}

// Gather takes rows of operand 0 along Axis by the indices in operand 1 (I32 or
// I64, any shape): out.Shape = in[:Axis] + index.Shape + in[Axis+1:].
type Gather struct{ Axis int }

func (Gather) Kind() string { return "gather" }

func (o Gather) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	x, idx := in[0], in[1]
	if idx.DType != tensor.I32 && idx.DType != tensor.I64 {
		return nil, 0, dtypeErr("index is %v, want i32 or i64", idx.DType)
	}
	a, err := axisIn(o.Axis, len(x.Shape))
	if err != nil {
		return nil, 0, err
	}
	out := append(tensor.Shape{}, x.Shape[:a]...)
	out = append(out, idx.Shape...)
	return append(out, x.Shape[a+1:]...), x.DType, nil
}

// ScatterAdd adds the rows of operand 0, [n,...], to Rows rows of zeros at the
// indices in operand 1 (I32 or I64 [n]); rows that meet add up. It is the
// gradient of Gather.
type ScatterAdd struct{ Rows int }

func (ScatterAdd) Kind() string { return "scatter_add" }

func (o ScatterAdd) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	if err := isIndex(in[1]); err != nil {
		return nil, 0, err
	}
	x := in[0]
	if len(x.Shape) < 1 || o.Rows < 1 || !in[1].Shape.Equal(x.Shape[:1]) {
		return nil, 0, shapeErr("index %v and %d rows for %v, want one index a row and at least 1 row", in[1].Shape, o.Rows, x)
	}
	out := x.Shape.Clone()
	out[0] = o.Rows
	return out, x.DType, isFloat(x, "x")
}

// OneHot turns indices (I32 or I64, any shape) into float32 vectors of length
// Depth; an index outside gives a vector of zeros.
type OneHot struct{ Depth int }

func (OneHot) Kind() string { return "one_hot" }

func (o OneHot) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if o.Depth < 1 {
		return nil, 0, shapeErr("depth %d, want at least 1", o.Depth)
	}
	return append(in[0].Shape.Clone(), o.Depth), tensor.F32, isIndex(in[0])
}

var shapeOps = []Operation{
	{"reshape", "x", "any", "Other dimensions, the same order of elements.", func(g *Graph) *Node { return g.Reshape(floats(g, 2, 6), 3, 4) }, nil},
	{"transpose", "x", "any", "Reorder the dimensions.", func(g *Graph) *Node { return g.Transpose(floats(g, 2, 3, 4), 2, 0, 1) }, nil},
	{"slice", "x", "any", "Begin, begin+step, ... up to end, on every axis.", func(g *Graph) *Node {
		return g.Add(Slice{Begin: []int{1, 0}, End: []int{3, 5}, Step: []int{1, 2}}, floats(g, 4, 5))
	}, nil},
	{"concat", "x...", "any", "Join along an axis.", func(g *Graph) *Node { return g.Concat(1, floats(g, 2, 3), floats(g, 2, 4)) }, nil},
	{"pad", "x", "float", "Surround with a value.", func(g *Graph) *Node {
		return g.Add(Pad{Before: []int{1, 0}, After: []int{0, 2}, Value: 7}, floats(g, 2, 3))
	}, nil},
	{"broadcast", "x", "any", "Repeat dimensions of size 1, and missing leading ones.", func(g *Graph) *Node {
		return g.Add(Broadcast{Shape: tensor.Shape{2, 3, 4}}, floats(g, 3, 1))
	}, nil},
	{"gather", "x, index", "any, index", "Entries along an axis by index.", func(g *Graph) *Node { return g.Add(Gather{Axis: 1}, floats(g, 3, 2, 4), indices(g, 5)) }, nil},
	{"scatter_add", "x, index", "float, index", "Add rows at their indices to zeros: the gradient of gather.", func(g *Graph) *Node {
		return g.Add(ScatterAdd{Rows: 3}, floats(g, 5, 4), indices(g, 5))
	}, noONNX},
	{"one_hot", "index", "index", "A vector with a one at each index.", func(g *Graph) *Node { return g.Add(OneHot{Depth: 3}, indices(g, 5)) }, noONNX},
}
