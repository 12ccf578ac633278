// SPDX-License-Identifier: Apache-2.0

package ref

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func elementwise(op graph.Op, in []Tensor, out Tensor) (bool, error) {
	switch o := op.(type) {
	case graph.Unary:
		f := o.Fn.Of()
		if f == nil {
			return true, fmt.Errorf("function %v is not known", o.Fn)
		}
		for i, v := range in[0].Data {
			out.Data[i] = f(v)
		}
	case graph.Binary:
		f := o.Fn.Of()
		if f == nil {
			return true, fmt.Errorf("function %v is not known", o.Fn)
		}
		index(out.Shape, func(flat int, at []int) {
			out.Data[flat] = f(in[0].Data[broadcastIndex(in[0].Shape, at)], in[1].Data[broadcastIndex(in[1].Shape, at)])
		})
	case graph.Affine:
		for i, v := range in[0].Data {
			out.Data[i] = v*float64(o.Scale) + float64(o.Shift)
		}
	default:
		return false, nil
	}
	return true, nil
}

var relu, gelu = graph.Relu.Of(), graph.Gelu.Of()

func activate(a graph.Activation, x float64) float64 {
	switch a {
	case graph.ActRelu:
		return relu(x)
	case graph.ActGelu:
		return gelu(x)
	}
	return x
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
