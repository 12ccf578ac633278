// SPDX-License-Identifier: Apache-2.0

package graph

import "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"

// PoolIndex is where Pool2D found each maximum: the flat index y*W+x in the
// input plane (I32), the lowest on ties.
type PoolIndex struct{ Kernel, Stride [2]int }

func (PoolIndex) Kind() string { return "pool_index" }

func (o PoolIndex) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	s, _, err := Pool2D{Kernel: o.Kernel, Stride: o.Stride}.infer(in)
	return s, tensor.I32, err
}

// PoolGrad is the gradient of max pooling. Operands: x, gradient of the result.
// A pixel that is the maximum of several windows gets the sum.
type PoolGrad struct{ Kernel, Stride [2]int }

func (PoolGrad) Kind() string { return "pool_grad" }

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

// ConvGradInput is the gradient of Conv2D with respect to its input [B,H,W,C].
// Operands: gradient of the result, w.
type ConvGradInput struct {
	Stride, Pad, Dilation, Groups int
	H, W                          int
}

func (ConvGradInput) Kind() string { return "conv_grad_input" }

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

// ConvGradWeight is the gradient of Conv2D with respect to its weight
// [O,C/Groups,KH,KW]. Operands: x, gradient of the result.
type ConvGradWeight struct {
	Stride, Pad, Dilation, Groups int
	KH, KW                        int
}

func (ConvGradWeight) Kind() string { return "conv_grad_weight" }

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
