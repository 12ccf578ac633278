// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/ref"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// referenceStep runs the plain-loop interpreter: for element types that no
// kernel computes with, and broadcasts that no network uses. It is the one step
// that allocates.
type referenceStep struct {
	n   *graph.Node
	in  []view
	dst view
}

func (l *lowering) reference(n *graph.Node) (step, error) {
	s := &referenceStep{n: n}
	for _, x := range n.In {
		if isParam(x) {
			s.in = append(s.in, l.rawParam(x))
			continue
		}
		s.in = append(s.in, l.operand(x))
	}
	s.dst = l.result(n)
	return s, nil
}

func (s *referenceStep) run(e *exec) error {
	in := make([]ref.Tensor, len(s.in))
	for i, v := range s.in {
		t, err := ref.Decode(v.dtype, v.shape, packed(e.raw(v), v))
		if err != nil {
			return err
		}
		in[i] = t
	}
	out, err := ref.Eval(s.n, in)
	if err != nil {
		return err
	}
	data, err := out.Encode(s.n.DType)
	if err != nil {
		return err
	}
	size := s.n.DType.Size()
	dst := e.raw(s.dst)
	for r := range s.dst.rows {
		copy(dst[r*s.dst.ld*size:], data[r*s.dst.c*size:(r+1)*s.dst.c*size])
	}
	return nil
}

// packed is the rows of a view without their gaps, which the interpreter does
// not know.
func packed(raw []byte, v view) []byte {
	if v.dense() {
		return raw
	}
	size := v.dtype.Size()
	out := make([]byte, 0, v.numel()*size)
	for r := range v.rows {
		out = append(out, raw[r*v.ld*size:][:v.c*size]...)
	}
	return out
}

// decodeF32 reads little-endian numbers of a float type, at any alignment.
func decodeF32(d tensor.DType, data []byte) []float32 {
	x := make([]float32, len(data)/d.Size())
	switch d {
	case tensor.F32:
		copy(bytesOf(x), data)
	case tensor.F64:
		for i := range x {
			x[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(data[i*8:])))
		}
	case tensor.F16:
		vec.F32FromF16(x, viewAs[uint16](alignedCopy(data)))
	case tensor.BF16:
		vec.F32FromBF16(x, viewAs[uint16](alignedCopy(data)))
	}
	return x
}

// bytesOf views numbers as bytes.
func bytesOf[T element](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
}
