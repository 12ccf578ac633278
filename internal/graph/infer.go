// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// arity checks the number of operands.
func arity(in []*Node, want int) error {
	if len(in) != want {
		return shapeErr("got %d operands, want %d", len(in), want)
	}
	return nil
}

func rank(n *Node, what string, want int) error {
	if len(n.Shape) != want {
		return shapeErr("%s has %d dimensions (%v), want %d", what, len(n.Shape), n, want)
	}
	return nil
}

// isFloat checks that a value can be computed with.
func isFloat(n *Node, what string) error {
	if !n.DType.Float() {
		return dtypeErr("%s is %v, want a float type", what, n.DType)
	}
	return nil
}

// vector checks a per-channel weight.
func vector(n *Node, what string, want int) error {
	if len(n.Shape) != 1 || n.Shape[0] != want {
		return shapeErr("%s is %v, want [%d]", what, n, want)
	}
	return isFloat(n, what)
}

func same(n *Node, what string, want tensor.Shape) error {
	if !n.Shape.Equal(want) {
		return shapeErr("%s is %v, want %v", what, n.Shape, want)
	}
	return nil
}

// axisIn resolves a possibly negative axis.
func axisIn(axis, rank int) (int, error) {
	a := axis
	if a < 0 {
		a += rank
	}
	if a < 0 || a >= rank {
		return 0, shapeErr("axis %d of a value with %d dimensions", axis, rank)
	}
	return a, nil
}

// broadcastShapes is numpy's rule.
func broadcastShapes(a, b tensor.Shape) (tensor.Shape, error) {
	n := max(len(a), len(b))
	out := make(tensor.Shape, n)
	for i := range out {
		da, db := 1, 1
		if j := i - n + len(a); j >= 0 {
			da = a[j]
		}
		if j := i - n + len(b); j >= 0 {
			db = b[j]
		}
		switch {
		case da == db, db == 1:
			out[i] = da
		case da == 1:
			out[i] = db
		default:
			return nil, shapeErr("%v and %v do not broadcast: %d against %d", a, b, da, db)
		}
	}
	return out, nil
}

func (o Input) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	return sourceShape(in, o.Shape, o.DType)
}

func (o Param) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	s, d, err := sourceShape(in, o.Shape, o.DType)
	if err == nil && len(o.Data) != s.Numel()*d.Size() {
		err = shapeErr("%q has %d bytes, want %d for %v%v", o.Name, len(o.Data), s.Numel()*d.Size(), d, s)
	}
	return s, d, err
}

func sourceShape(in []*Node, s tensor.Shape, d tensor.DType) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 0); err != nil {
		return nil, d, err
	}
	if d.Size() == 0 {
		return nil, d, dtypeErr("%v", d)
	}
	return s, d, s.Check(d.Size())
}

func (o Unary) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if int(o.Fn) >= len(unaryNames) {
		return nil, 0, dtypeErr("unknown function %d", o.Fn)
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}

func (o Binary) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	if int(o.Fn) >= len(binaryNames) {
		return nil, 0, dtypeErr("unknown function %d", o.Fn)
	}
	d, err := computeType(in[0], in[1])
	if err != nil {
		return nil, 0, err
	}
	s, err := broadcastShapes(in[0].Shape, in[1].Shape)
	return s, d, err
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

func isParam(n *Node) bool { _, ok := n.Op.(Param); return ok }

func (o Affine) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}

func (o Cast) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if o.To.Size() == 0 {
		return nil, 0, dtypeErr("cast to %v", o.To)
	}
	return in[0].Shape, o.To, nil
}

func (o Reduce) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if int(o.Fn) >= len(reduceNames) {
		return nil, 0, dtypeErr("unknown reduction %d", o.Fn)
	}
	x := in[0]
	gone := make([]bool, len(x.Shape))
	for _, a := range o.Axes {
		i, err := axisIn(a, len(x.Shape))
		if err != nil {
			return nil, 0, err
		}
		if gone[i] {
			return nil, 0, shapeErr("axis %d twice", a)
		}
		if x.Shape[i] == 0 {
			return nil, 0, shapeErr("axis %d of %v is empty", a, x)
		}
		gone[i] = true
	}
	out := tensor.Shape{}
	for i, d := range x.Shape {
		switch {
		case !gone[i]:
			out = append(out, d)
		case o.Keep:
			out = append(out, 1)
		}
	}
	return out, x.DType, isFloat(x, "x")
}

func (o ArgReduce) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	a, err := axisIn(o.Axis, len(in[0].Shape))
	if err != nil {
		return nil, 0, err
	}
	if in[0].Shape[a] == 0 {
		return nil, 0, shapeErr("axis %d of %v is empty", o.Axis, in[0])
	}
	out := append(in[0].Shape[:a:a], in[0].Shape[a+1:]...)
	return out, tensor.I32, isFloat(in[0], "x")
}

func (o TopK) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	r := len(x.Shape)
	if r == 0 || o.K < 1 || o.K > x.Shape[r-1] {
		return nil, 0, shapeErr("k = %d of the last dimension of %v", o.K, x)
	}
	out := x.Shape.Clone()
	out[r-1] = o.K
	if o.Index {
		return out, tensor.I32, isFloat(x, "x")
	}
	return out, x.DType, isFloat(x, "x")
}
