// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Float32s converts the tensor to float32 and returns it in dst, which is
// grown when its capacity is too small. Wider types are rounded to the nearest
// value; booleans are 0 and 1.
func (t Tensor) Float32s(dst []float32) []float32 {
	return convert[float32](t, dst)
}

// Float64s is Float32s in double precision: the whitening of retrieval is
// stored in F64 and its factors may not fit float32 well (network.md 18).
func (t Tensor) Float64s(dst []float64) []float64 {
	return convert[float64](t, dst)
}

// View returns the elements of an F32 tensor without a copy. It is refused
// (nil) for other types and for data that is not aligned to four bytes, which
// the format allows.
func (t Tensor) View() []float32 {
	if t.DType != tensor.F32 || len(t.Data) == 0 || !littleEndian {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(t.Data))
	if uintptr(p)%4 != 0 {
		return nil
	}
	return unsafe.Slice((*float32)(p), len(t.Data)/4)
}

// littleEndian is a property of the machine; all supported ones are.
var littleEndian = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}()

func convert[F float32 | float64](t Tensor, dst []F) []F {
	n := t.Shape.Numel()
	dst = slices.Grow(dst[:0], n)[:n]
	b, le := t.Data, binary.LittleEndian
	switch t.DType {
	case tensor.F32:
		// The file's bytes are the machine's; a copy needs no alignment.
		if v, ok := any(dst).([]float32); ok && littleEndian {
			copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*n), b)
			break
		}
		each(dst, b, 4, func(p []byte) F { return F(math.Float32frombits(le.Uint32(p))) })
	case tensor.F16:
		// Written out, as this is how published models are stored: the call
		// through a function value costs as much as the conversion.
		b = b[:2*n]
		for i := range dst {
			h := le.Uint16(b[2*i:])
			if e := h & 0x7c00; e == 0 || e == 0x7c00 { // subnormal, infinity, NaN
				dst[i] = F(tensor.Float32FromF16(h))
				continue
			}
			dst[i] = F(math.Float32frombits(uint32(h&0x8000)<<16 | uint32(h&0x7fff)<<13 + 112<<23))
		}
	case tensor.BF16:
		each(dst, b, 2, func(p []byte) F { return F(tensor.Float32FromBF16(le.Uint16(p))) })
	case tensor.F64:
		each(dst, b, 8, func(p []byte) F { return F(math.Float64frombits(le.Uint64(p))) })
	case tensor.I8:
		each(dst, b, 1, func(p []byte) F { return F(int8(p[0])) })
	case tensor.U8:
		each(dst, b, 1, func(p []byte) F { return F(p[0]) })
	case tensor.I16:
		each(dst, b, 2, func(p []byte) F { return F(int16(le.Uint16(p))) })
	case tensor.U16:
		each(dst, b, 2, func(p []byte) F { return F(le.Uint16(p)) })
	case tensor.I32:
		each(dst, b, 4, func(p []byte) F { return F(int32(le.Uint32(p))) })
	case tensor.U32:
		each(dst, b, 4, func(p []byte) F { return F(le.Uint32(p)) })
	case tensor.I64:
		each(dst, b, 8, func(p []byte) F { return F(int64(le.Uint64(p))) })
	case tensor.U64:
		each(dst, b, 8, func(p []byte) F { return F(le.Uint64(p)) })
	case tensor.Bool:
		each(dst, b, 1, func(p []byte) F { return truth[F](p[0]) })
	default:
		// Readers and writers refuse such a dtype; only a literal can hold it.
		panic(fmt.Sprintf("weights: tensor %q: dtype %v has no numbers", t.Name, t.DType))
	}
	return dst
}

// each applies value to every element; for the types that models rarely hold,
// one short loop is worth more than speed.
func each[F float32 | float64](dst []F, b []byte, size int, value func([]byte) F) {
	for i := range dst {
		dst[i] = value(b[i*size : i*size+size])
	}
}

// truth treats any byte but 0 as true, as C does.
func truth[F float32 | float64](b byte) F {
	if b != 0 {
		return 1
	}
	return 0
}

// FromFloat32s makes an F32 tensor of values in memory, without a copy.
func FromFloat32s(name string, shape tensor.Shape, values []float32) Tensor {
	t := Tensor{Name: name, DType: tensor.F32, Shape: shape}
	if littleEndian {
		t.Data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
		return t
	}
	t.Data = make([]byte, 0, 4*len(values))
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}

// Cast rounds the tensor to another floating-point type, to nearest even, in
// new memory.
func (t Tensor) Cast(d tensor.DType) (Tensor, error) {
	out := Tensor{Name: t.Name, DType: d, Shape: t.Shape}
	var err error
	out.Data, err = t.castInto(nil, d)
	return out, err
}

// castInto is Cast into the memory of dst, which is grown when it is too small.
func (t Tensor) castInto(dst []byte, d tensor.DType) ([]byte, error) {
	size := t.Shape.Numel() * d.Size()
	dst = slices.Grow(dst[:0], size)[:size]
	if d == tensor.F64 {
		for i, v := range t.Float64s(nil) {
			binary.LittleEndian.PutUint64(dst[8*i:], math.Float64bits(v))
		}
		return dst, nil
	}
	values := t.View()
	if values == nil {
		values = t.Float32s(nil)
	}
	if !d.Float() {
		return nil, fmt.Errorf("weights: tensor %q: cast to %v, want f64, f32, f16 or bf16", t.Name, d)
	}
	tensor.Store(dst, d, values)
	return dst, nil
}
