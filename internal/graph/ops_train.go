// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Operations that training needs and inference does not. Gradients that are
// sums of the operations in ops.go have none of their own.

// ScatterAdd adds the rows of operand 0, [n,...], to Rows rows of zeros at the
// indices in operand 1 (I32 or I64 [n]); rows that meet add up. It is the
// gradient of Gather.
type ScatterAdd struct{ Rows int }

// OneHot turns indices (I32 or I64, any shape) into float32 vectors of length
// Depth; an index outside gives a vector of zeros.
type OneHot struct{ Depth int }

// PoolIndex is where Pool2D found each maximum: the flat index y*W+x in the
// input plane (I32), the lowest on ties.
type PoolIndex struct{ Kernel, Stride int }

// PoolGrad is the gradient of max pooling. Operands: x, gradient of the result.
// A pixel that is the maximum of several windows gets the sum.
type PoolGrad struct{ Kernel, Stride int }

// ConvGradInput is the gradient of Conv2D with respect to its input [B,H,W,C].
// Operands: gradient of the result, w.
type ConvGradInput struct {
	Stride, Pad, Dilation, Groups int
	H, W                          int
}

// ConvGradWeight is the gradient of Conv2D with respect to its weight
// [O,C/Groups,KH,KW]. Operands: x, gradient of the result.
type ConvGradWeight struct {
	Stride, Pad, Dilation, Groups int
	KH, KW                        int
}

func (ScatterAdd) Kind() string     { return "scatter_add" }
func (OneHot) Kind() string         { return "one_hot" }
func (PoolIndex) Kind() string      { return "pool_index" }
func (PoolGrad) Kind() string       { return "pool_grad" }
func (ConvGradInput) Kind() string  { return "conv_grad_input" }
func (ConvGradWeight) Kind() string { return "conv_grad_weight" }

func isIndex(n *Node) error {
	if n.DType != tensor.I32 && n.DType != tensor.I64 {
		return dtypeErr("index is %v, want i32 or i64", n.DType)
	}
	return nil
}

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

func (o OneHot) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if o.Depth < 1 {
		return nil, 0, shapeErr("depth %d, want at least 1", o.Depth)
	}
	return append(in[0].Shape.Clone(), o.Depth), tensor.F32, isIndex(in[0])
}

func (o PoolIndex) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	s, _, err := Pool2D{Kernel: o.Kernel, Stride: o.Stride}.infer(in)
	return s, tensor.I32, err
}

func (o PoolGrad) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	s, d, err := Pool2D{Kernel: o.Kernel, Stride: o.Stride}.infer(in[:1])
	if err == nil {
		err = same(in[1], "gradient", s)
	}
	return in[0].Shape, d, err
}

func (o ConvGradInput) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	gy, w := in[0], in[1]
	if err := featureMap(gy); err != nil {
		return nil, 0, err
	}
	if err := kernel4(w); err != nil {
		return nil, 0, err
	}
	x := &Node{Shape: tensor.Shape{gy.Shape[0], o.H, o.W, w.Shape[1] * max(o.Groups, 1)}, DType: gy.DType}
	s, d, err := Conv2D{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups}.infer([]*Node{x, w})
	if err == nil {
		err = same(gy, "gradient", s)
	}
	return x.Shape, d, err
}

func (o ConvGradWeight) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	x, gy := in[0], in[1]
	if err := featureMap(x); err != nil {
		return nil, 0, err
	}
	if err := featureMap(gy); err != nil {
		return nil, 0, err
	}
	if o.Groups < 1 || x.Shape[3]%o.Groups != 0 {
		return nil, 0, shapeErr("x %v in %d groups", x.Shape, o.Groups)
	}
	w := &Node{Shape: tensor.Shape{gy.Shape[3], x.Shape[3] / o.Groups, o.KH, o.KW}, DType: x.DType}
	if err := kernel4(w); err != nil {
		return nil, 0, err
	}
	s, d, err := Conv2D{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups}.infer([]*Node{x, w})
	if err == nil {
		err = same(gy, "gradient", s)
	}
	return w.Shape, d, err
}
