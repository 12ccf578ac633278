// SPDX-License-Identifier: Apache-2.0

package graph

import "fmt"

var unaryNames = [...]string{
	Neg: "neg", Abs: "abs", Exp: "exp", Expm1: "expm1", Log: "log", Sqrt: "sqrt", Rsqrt: "rsqrt",
	Reciprocal: "reciprocal", Square: "square", Sin: "sin", Cos: "cos", Tan: "tan", Tanh: "tanh",
	Sigmoid: "sigmoid", Erf: "erf", Relu: "relu", Gelu: "gelu", GeluTanh: "gelu_tanh", Step: "step",
}

var binaryNames = [...]string{
	Add: "add", Sub: "sub", Mul: "mul", Div: "div", Pow: "pow", Maximum: "maximum", Minimum: "minimum",
}

var actNames = [...]string{ActNone: "none", ActRelu: "relu", ActGelu: "gelu"}

var resizeNames = [...]string{Nearest: "nearest", Bilinear: "bilinear", Bicubic: "bicubic"}

var reduceNames = [...]string{ReduceSum: "sum", ReduceMean: "mean", ReduceMax: "max", ReduceMin: "min"}

func enumName[T ~uint8](names []string, v T) string {
	if int(v) >= len(names) {
		return fmt.Sprintf("unknown(%d)", v)
	}
	return names[v]
}

func (f UnaryFn) String() string    { return enumName(unaryNames[:], f) }
func (f BinaryFn) String() string   { return enumName(binaryNames[:], f) }
func (a Activation) String() string { return enumName(actNames[:], a) }
func (m ResizeMode) String() string { return enumName(resizeNames[:], m) }
func (f ReduceFn) String() string   { return enumName(reduceNames[:], f) }

func (Input) Kind() string           { return "input" }
func (Param) Kind() string           { return "param" }
func (o Unary) Kind() string         { return o.Fn.String() }
func (o Binary) Kind() string        { return o.Fn.String() }
func (Affine) Kind() string          { return "affine" }
func (Cast) Kind() string            { return "cast" }
func (Reshape) Kind() string         { return "reshape" }
func (Transpose) Kind() string       { return "transpose" }
func (Slice) Kind() string           { return "slice" }
func (Concat) Kind() string          { return "concat" }
func (Pad) Kind() string             { return "pad" }
func (Broadcast) Kind() string       { return "broadcast" }
func (Gather) Kind() string          { return "gather" }
func (MatMul) Kind() string          { return "matmul" }
func (Linear) Kind() string          { return "linear" }
func (RoPE) Kind() string            { return "rope" }
func (Attention) Kind() string       { return "attention" }
func (LayerNorm) Kind() string       { return "layer_norm" }
func (RMSNorm) Kind() string         { return "rms_norm" }
func (Softmax) Kind() string         { return "softmax" }
func (L2Normalize) Kind() string     { return "l2_normalize" }
func (Conv2D) Kind() string          { return "conv2d" }
func (ConvTranspose2D) Kind() string { return "conv_transpose2d" }
func (Pool2D) Kind() string          { return "pool2d" }
func (Resize2D) Kind() string        { return "resize2d" }
func (PixelShuffle) Kind() string    { return "pixel_shuffle" }
func (ExpPoints) Kind() string       { return "exp_points" }
func (o Reduce) Kind() string        { return "reduce_" + o.Fn.String() }
func (o ArgReduce) Kind() string {
	if o.Min {
		return "argmin"
	}
	return "argmax"
}
func (TopK) Kind() string { return "topk" }
