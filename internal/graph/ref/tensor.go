// SPDX-License-Identifier: Apache-2.0

package ref

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Tensor is a value: row-major elements. Integers are exact up to 2^53.
type Tensor struct {
	Shape tensor.Shape
	Data  []float64
}

// New makes a tensor of zeros.
func New(shape ...int) Tensor {
	return Tensor{Shape: shape, Data: make([]float64, tensor.Shape(shape).Numel())}
}

// Decode reads little-endian elements of type d.
func Decode(d tensor.DType, shape tensor.Shape, b []byte) (Tensor, error) {
	n := shape.Numel()
	if len(b) != n*d.Size() {
		return Tensor{}, fmt.Errorf("ref: %d bytes, want %d for %v%v", len(b), n*d.Size(), d, shape)
	}
	get, err := decoder(d)
	if err != nil {
		return Tensor{}, err
	}
	t := Tensor{Shape: shape, Data: make([]float64, n)}
	for i := range t.Data {
		t.Data[i] = get(b[i*d.Size():])
	}
	return t, nil
}

func decoder(d tensor.DType) (func(b []byte) float64, error) {
	le := binary.LittleEndian
	switch d {
	case tensor.F32:
		return func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) }, nil
	case tensor.F64:
		return func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }, nil
	case tensor.F16:
		return func(b []byte) float64 { return float64(tensor.Float32FromF16(le.Uint16(b))) }, nil
	case tensor.BF16:
		return func(b []byte) float64 { return float64(tensor.Float32FromBF16(le.Uint16(b))) }, nil
	case tensor.U8, tensor.Bool:
		return func(b []byte) float64 { return float64(b[0]) }, nil
	case tensor.I32:
		return func(b []byte) float64 { return float64(int32(le.Uint32(b))) }, nil
	case tensor.I64:
		return func(b []byte) float64 { return float64(int64(le.Uint64(b))) }, nil
	}
	return nil, fmt.Errorf("ref: cannot read %v", d)
}

// Encode writes the elements as type d, rounding to nearest even.
func (t Tensor) Encode(d tensor.DType) ([]byte, error) {
	le := binary.LittleEndian
	b := make([]byte, 0, len(t.Data)*d.Size())
	for _, v := range t.Data {
		switch d {
		case tensor.F32:
			b = le.AppendUint32(b, math.Float32bits(float32(v)))
		case tensor.F64:
			b = le.AppendUint64(b, math.Float64bits(v))
		case tensor.F16:
			b = le.AppendUint16(b, tensor.F16FromFloat32(float32(v)))
		case tensor.BF16:
			b = le.AppendUint16(b, tensor.BF16FromFloat32(float32(v)))
		case tensor.U8, tensor.Bool:
			b = append(b, uint8(v))
		case tensor.I32:
			b = le.AppendUint32(b, uint32(int32(v)))
		case tensor.I64:
			b = le.AppendUint64(b, uint64(int64(v)))
		default:
			return nil, fmt.Errorf("ref: cannot write %v", d)
		}
	}
	return b, nil
}

// index walks all positions of a shape in row-major order.
func index(shape tensor.Shape, visit func(flat int, at []int)) {
	n := shape.Numel()
	at := make([]int, len(shape))
	for flat := range n {
		visit(flat, at)
		for i := len(at) - 1; i >= 0; i-- {
			at[i]++
			if at[i] < shape[i] {
				break
			}
			at[i] = 0
		}
	}
}

// broadcastIndex is the flat position in a tensor of shape s of position at of
// the broadcast result.

func broadcastIndex(s tensor.Shape, at []int) int {
	flat := 0
	skip := len(at) - len(s)
	for i, d := range s {
		flat *= d
		if d != 1 {
			flat += at[skip+i]
		}
	}
	return flat
}
