// SPDX-License-Identifier: Apache-2.0

package ref

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Run evaluates g on inputs given in the order of g.Inputs and returns the
// outputs in the order of g.Outputs.
func Run(g *graph.Graph, inputs []Tensor) ([]Tensor, error) {
	if len(inputs) != len(g.Inputs) {
		return nil, fmt.Errorf("ref: graph %q: got %d inputs, want %d", g.Name, len(inputs), len(g.Inputs))
	}
	values := make([]Tensor, len(g.Nodes))
	for i, n := range g.Inputs {
		if !inputs[i].Shape.Equal(n.Shape) {
			return nil, fmt.Errorf("ref: graph %q: input %d is %v, want %v", g.Name, i, inputs[i].Shape, n.Shape)
		}
		values[n.ID] = inputs[i]
	}
	last := g.LastUse()
	for _, n := range g.Nodes {
		if _, ok := n.Op.(graph.Input); ok {
			continue
		}
		in := make([]Tensor, len(n.In))
		for i, x := range n.In {
			in[i] = values[x.ID]
		}
		v, err := Eval(n, in)
		if err != nil {
			return nil, fmt.Errorf("ref: graph %q: %%%d: %w", g.Name, n.ID, err)
		}
		values[n.ID] = v
		for _, x := range n.In {
			if last[x.ID] == n.ID {
				values[x.ID].Data = nil
			}
		}
	}
	out := make([]Tensor, len(g.Outputs))
	for i, o := range g.Outputs {
		out[i] = values[o.Node.ID]
	}
	return out, nil
}

// Eval applies one operation.
func Eval(n *graph.Node, in []Tensor) (Tensor, error) {
	out := Tensor{Shape: n.Shape}
	switch o := n.Op.(type) {
	case graph.Param:
		return Decode(o.DType, o.Shape, o.Data)
	case graph.Reshape:
		out.Data = in[0].Data
		return out, nil
	case graph.Cast:
		return cast(in[0], o.To)
	}
	out.Data = make([]float64, n.Numel())
	switch o := n.Op.(type) {
	case graph.Unary:
		f, err := unary(o.Fn)
		if err != nil {
			return out, err
		}
		for i, v := range in[0].Data {
			out.Data[i] = f(v)
		}
	case graph.Binary:
		f, err := binaryFn(o.Fn)
		if err != nil {
			return out, err
		}
		index(out.Shape, func(flat int, at []int) {
			out.Data[flat] = f(in[0].Data[broadcastIndex(in[0].Shape, at)], in[1].Data[broadcastIndex(in[1].Shape, at)])
		})
	case graph.Affine:
		for i, v := range in[0].Data {
			out.Data[i] = v*float64(o.Scale) + float64(o.Shift)
		}
	case graph.Transpose, graph.Slice, graph.Concat, graph.Pad, graph.Broadcast, graph.Gather:
		return out, move(o, in, out)
	case graph.MatMul:
		matMul(o, in[0], in[1], out)
	case graph.Linear:
		linear(o, in, out)
	case graph.RoPE:
		copy(out.Data, in[0].Data)
		rope(o.Rope, o.Heads, out)
	case graph.Attention:
		attention(o, in, out)
	case graph.LayerNorm:
		layerNorm(in, float64(o.Eps), out)
	case graph.RMSNorm:
		rmsNorm(in, float64(o.Eps), out)
	case graph.Softmax:
		softmax(in[0], o.Axis, out)
	case graph.L2Normalize:
		eachVector(in[0], out, func(x, y []float64) {
			d := norm(x)
			for i, v := range x {
				y[i] = v / d
			}
		})
	case graph.ExpPoints:
		eachVector(in[0], out, func(x, y []float64) {
			d := norm(x)
			for i, v := range x {
				y[i] = v / max(d, 1e-8) * math.Expm1(d)
			}
		})
	case graph.Conv2D:
		conv2d(o, in, out)
	case graph.ConvTranspose2D:
		convTranspose2d(o, in, out)
	case graph.Pool2D:
		pool2d(o, in[0], out)
	case graph.Resize2D:
		resize2d(o, in[0], out)
	case graph.PixelShuffle:
		pixelShuffle(o.R, in[0], out)
	case graph.Reduce:
		reduce(o, in[0], out)
	case graph.ArgReduce:
		argReduce(o, in[0], out)
	case graph.TopK:
		topK(o, in[0], out)
	default:
		return out, train(n, in, out)
	}
	return out, nil
}

func cast(x Tensor, to tensor.DType) (Tensor, error) {
	y := Tensor{Shape: x.Shape, Data: make([]float64, len(x.Data))}
	for i, v := range x.Data {
		switch to {
		case tensor.F64:
			y.Data[i] = v
		case tensor.F32:
			y.Data[i] = float64(float32(v))
		case tensor.F16:
			y.Data[i] = float64(tensor.Float32FromF16(tensor.F16FromFloat32(float32(v))))
		case tensor.BF16:
			y.Data[i] = float64(tensor.Float32FromBF16(tensor.BF16FromFloat32(float32(v))))
		case tensor.I32, tensor.I64:
			y.Data[i] = math.Trunc(v)
		default:
			return y, fmt.Errorf("cast to %v is not defined", to)
		}
	}
	return y, nil
}

func unary(f graph.UnaryFn) (func(float64) float64, error) {
	switch f {
	case graph.Neg:
		return func(x float64) float64 { return -x }, nil
	case graph.Abs:
		return math.Abs, nil
	case graph.Exp:
		return math.Exp, nil
	case graph.Expm1:
		return math.Expm1, nil
	case graph.Log:
		return math.Log, nil
	case graph.Sqrt:
		return math.Sqrt, nil
	case graph.Rsqrt:
		return func(x float64) float64 { return 1 / math.Sqrt(x) }, nil
	case graph.Reciprocal:
		return func(x float64) float64 { return 1 / x }, nil
	case graph.Square:
		return func(x float64) float64 { return x * x }, nil
	case graph.Sin:
		return math.Sin, nil
	case graph.Cos:
		return math.Cos, nil
	case graph.Tan:
		return math.Tan, nil
	case graph.Tanh:
		return math.Tanh, nil
	case graph.Sigmoid:
		return func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, nil
	case graph.Erf:
		return math.Erf, nil
	case graph.Relu:
		return relu, nil
	case graph.Gelu:
		return gelu, nil
	case graph.Step:
		return func(x float64) float64 {
			if x > 0 {
				return 1
			}
			return 0
		}, nil
	case graph.GeluTanh:
		return func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}, nil
	}
	return nil, fmt.Errorf("unknown function %v", f)
}

func relu(x float64) float64 { return max(x, 0) }

func gelu(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }

func activate(a graph.Activation, x float64) float64 {
	switch a {
	case graph.ActRelu:
		return relu(x)
	case graph.ActGelu:
		return gelu(x)
	}
	return x
}

func binaryFn(f graph.BinaryFn) (func(a, b float64) float64, error) {
	switch f {
	case graph.Add:
		return func(a, b float64) float64 { return a + b }, nil
	case graph.Sub:
		return func(a, b float64) float64 { return a - b }, nil
	case graph.Mul:
		return func(a, b float64) float64 { return a * b }, nil
	case graph.Div:
		return func(a, b float64) float64 { return a / b }, nil
	case graph.Pow:
		return math.Pow, nil
	case graph.Maximum:
		return math.Max, nil
	case graph.Minimum:
		return math.Min, nil
	}
	return nil, fmt.Errorf("unknown function %v", f)
}
