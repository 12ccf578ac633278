// SPDX-License-Identifier: Apache-2.0

package graph

import "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"

// Sources.

// Input is a value given at run time.
type Input struct {
	Name  string
	Shape tensor.Shape
	DType tensor.DType
}

// Param is a value known when the graph is built: a weight, or a constant.
type Param struct {
	Name  string
	Shape tensor.Shape
	DType tensor.DType
	// Data are the elements, row-major, little-endian, often a view of a mapped
	// file; it must stay readable for as long as the graph is used.
	Data []byte
	// Region is the mapped file that Data is a part of, for a device that can use
	// the whole mapping in place; nil when Data stands alone.
	Region []byte
	// Release tells the owner that a backend holds its own copy of the bytes
	// from <= i < to of Data now and that their pages may leave memory. It may be
	// nil; Data stays readable.
	Release func(from, to int)
	// Origin says where Data comes from, in words that mean the same in another
	// process.
	Origin Origin
}

// Origin is a place in a file. The zero value is that of bytes no file holds.
type Origin struct {
	File    string // absolute path
	Version string // another one whenever the file has changed
	Offset  int    // of the first byte
}

// Elementwise operations.

// Unary applies Fn to each element of one operand.
type Unary struct{ Fn UnaryFn }

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
)

// Binary applies Fn to pairs of elements; shapes broadcast as in numpy.
type Binary struct{ Fn BinaryFn }

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
)

// Affine is x*Scale + Shift with two numbers, computed in float32 as a product
// rounded, then a sum rounded (no fused multiply-add).
type Affine struct{ Scale, Shift float32 }

// Cast converts the element type; floats round to nearest even.
type Cast struct{ To tensor.DType }

// Shape operations.

// Reshape keeps the elements and their order and changes the dimensions.
type Reshape struct{ Shape tensor.Shape }

// Transpose permutes the dimensions: out.Shape[i] = in.Shape[Perm[i]].
type Transpose struct{ Perm []int }

// Slice takes Begin, Begin+Step, ... up to but without End on every axis.
// Steps are at least 1.
type Slice struct{ Begin, End, Step []int }

// Concat joins its operands along Axis.
type Concat struct{ Axis int }

// Pad surrounds the operand with Value: Before and After elements per axis.
type Pad struct {
	Before, After []int
	Value         float32
}

// Broadcast repeats dimensions of size 1 (and missing leading ones) to Shape.
type Broadcast struct{ Shape tensor.Shape }

// Gather takes rows of operand 0 along Axis by the indices in operand 1 (I32 or
// I64, any shape): out.Shape = in[:Axis] + index.Shape + in[Axis+1:].
type Gather struct{ Axis int }

// Linear algebra.

// MatMul is a batched matrix product a[...,M,K] x b[...,K,N]; with TransB the
// second operand is [...,N,K]. Leading dimensions broadcast.
type MatMul struct{ TransB bool }

// Activation is the function a fused operation applies to its result.
type Activation uint8

// The fused activations.
const (
	ActNone Activation = iota
	ActRelu
	ActGelu
)

// Linear is y = gamma * act(x W^T + b) + residual for x [...,in], W [out,in].
// Operands: x, W, then those that the flags name, in this order: b [out],
// gamma [out], residual (the shape of y).
//
// Networks are built with Bias only; passes.Fuse sets the rest.
type Linear struct {
	Bias, Gamma, Residual bool
	Act                   Activation
}

// Rope describes rotary position embedding in two dimensions on a grid of
// Rows x Cols tokens, row-major; a token's row turns the first half of a head,
// its column the second (network.md 4.1).
type Rope struct {
	Rows, Cols int
	Base       float32
}

// RoPE applies Rope to x [B,N,Heads*hd].
type RoPE struct {
	Heads int
	Rope
}

// Attention is softmax(Scale * q k^T + mask) v per head, for q [B,Nq,H*hd],
// k [B,Nk,H*hd], v [B,Nk,H*hd], heads side by side in the last dimension.
// Operands: q, k, v and, with Mask, an additive mask that broadcasts to
// [B,H,Nq,Nk]. QRope and KRope are set by passes.Fuse.
type Attention struct {
	Heads        int
	Scale        float32
	Mask         bool
	QRope, KRope *Rope
}

// Normalisation.

// LayerNorm is (x-mean)/sqrt(var+Eps)*gamma+beta over the last dimension with
// the biased variance. Operands: x, gamma, beta.
type LayerNorm struct{ Eps float32 }

// RMSNorm is x/sqrt(mean(x^2)+Eps)*gamma over the last dimension.
// Operands: x, gamma.
type RMSNorm struct{ Eps float32 }

// Softmax is exp(x-max)/sum along Axis.
type Softmax struct{ Axis int }

// L2Normalize divides by the Euclidean norm of the last dimension, without an
// epsilon: a zero vector becomes NaN, as in the reference.
type L2Normalize struct{}

// Feature maps, NHWC.

// Conv2D is a convolution with zero padding, x [B,H,W,C], w [O,C/Groups,kh,kw].
// Operands: x, w, then those that the flags name: b [O], residual (the shape of
// the result). With PreRelu the input goes through ReLU first; Act applies
// before the residual is added. PreRelu, Act and Residual are set by passes.Fuse.
type Conv2D struct {
	Stride, Pad, Dilation, Groups int
	Bias, Residual, PreRelu       bool
	Act                           Activation
}

// ConvTranspose2D is the transposed convolution, x [B,H,W,C], w [C,O,kh,kw];
// result (H-1)*Stride - 2*Pad + kh + OutputPad rows. Operands: x, w and, with
// Bias, b [O].
type ConvTranspose2D struct {
	Stride, Pad, OutputPad int
	Bias                   bool
}

// Pool2D is max or average pooling, kernel x kernel, no padding.
type Pool2D struct {
	Kernel, Stride int
	Average        bool
}

// ResizeMode is the interpolation of Resize2D.
type ResizeMode uint8

// The interpolations. Nearest takes floor(i*in/out). Bicubic has a = -0.75.
const (
	Nearest ResizeMode = iota
	Bilinear
	Bicubic
)

// Resize2D resamples x [B,h,w,C] to [B,H,W,C]. Source coordinate of output i on
// an axis of n -> m: AlignCorners i*(n-1)/(m-1) (0 when m is 1), otherwise
// (i+0.5)*s-0.5 with s = n/m, or s = ScaleH / ScaleW where those are not 0 (the
// DUNE position table needs a scale that is not the ratio of the sizes).
// Taps outside are clamped to the edge.
type Resize2D struct {
	H, W           int
	Mode           ResizeMode
	AlignCorners   bool
	ScaleH, ScaleW float64
}

// PixelShuffle turns [B,h,w,C*R*R] into [B,h*R,w*R,C]; the input channel of
// (c, i, j) is c*R*R + i*R + j (network.md 4.2).
type PixelShuffle struct{ R int }

// ExpPoints is the output function of the points (network.md 8): for vectors p of
// the last dimension, p/max(d,1e-8)*expm1(d) with d = |p|.
type ExpPoints struct{}

// Reductions.

// Reduce folds the given axes; they stay with size 1 when Keep is set.
type Reduce struct {
	Fn   ReduceFn
	Axes []int
	Keep bool
}

// ReduceFn names a reduction.
type ReduceFn uint8

// The reductions.
const (
	ReduceSum ReduceFn = iota
	ReduceMean
	ReduceMax
	ReduceMin
)

// ArgReduce is the index (I32) of the largest, or with Min smallest, element
// along Axis, the lowest index on ties; the axis goes away.
type ArgReduce struct {
	Axis int
	Min  bool
}

// TopK are the K largest elements along the last axis, descending, the lowest
// index first on ties; with Index their indices (I32) in place of the values.
type TopK struct {
	K     int
	Index bool
}
