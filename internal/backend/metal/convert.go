// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// piece is the number of elements that are converted at a time: float32, they stay
// in a core's cache.
const piece = 1 << 16

// convert writes the elements of p to dst in another form, through float32: every
// type here but float64 fits in it, so nothing but bfloat16's rounding comes before
// the last one. dst is memory of a buffer, and so aligned.
func convert(dst []byte, p graph.Param, f form) error {
	if f.dtype == p.DType && !f.rounded {
		copy(dst, p.Data)
		return nil
	}
	if !p.DType.Float() || !f.dtype.Float() || f.dtype == tensor.F64 {
		return fmt.Errorf("%w: %v weights as %v", ErrUnsupported, p.DType, f.dtype)
	}
	n := p.Shape.Numel()
	pieces := (n + piece - 1) / piece
	threads := max(1, min(pieces, runtime.GOMAXPROCS(0)))
	pool := par.New(threads)
	defer pool.Close()
	errs := make([]error, pieces)
	pool.Run(pieces, func(_, i int) {
		s := scratches.Get().(*scratch)
		defer scratches.Put(s)
		lo, hi := i*piece, min((i+1)*piece, n)
		from, to := p.DType.Size(), f.dtype.Size()
		errs[i] = s.convert(dst[lo*to:hi*to], p.Data[lo*from:hi*from], p, f)
		if e := (*tensor.RangeError)(nil); errors.As(errs[i], &e) {
			e.Name, e.Element = p.Name, e.Element+lo
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// scratches outlive a tensor: a model has a thousand.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

type scratch struct {
	wide   []float32
	narrow []uint16
}

func (s *scratch) convert(dst, src []byte, p graph.Param, f form) error {
	if p.Source.Release != nil { // of a file; what was computed may be anything
		to := f.dtype
		if f.rounded {
			to = tensor.BF16
		}
		if err := tensor.CheckRange(src, p.DType, to); err != nil {
			return err
		}
	}
	s.load(src, p.DType)
	if f.rounded {
		s.narrow = sized(s.narrow, len(s.wide))
		vec.BF16FromF32(s.narrow, s.wide)
		vec.F32FromBF16(s.wide, s.narrow)
	}
	switch f.dtype {
	case tensor.F32:
		copy(as[float32](dst), s.wide)
	case tensor.F16:
		vec.F16FromF32(as[uint16](dst), s.wide)
	case tensor.BF16:
		vec.BF16FromF32(as[uint16](dst), s.wide)
	}
	return nil
}

// load makes float32 of elements that may begin at any byte of a file.
func (s *scratch) load(src []byte, d tensor.DType) {
	s.wide = sized(s.wide, len(src)/d.Size())
	switch d {
	case tensor.F64:
		for i := range s.wide {
			s.wide[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
		}
	case tensor.F32:
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s.wide))), len(src)), src)
	case tensor.F16, tensor.BF16:
		s.narrow = sized(s.narrow, len(s.wide))
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s.narrow))), len(src)), src)
		if d == tensor.F16 {
			vec.F32FromF16(s.wide, s.narrow)
		} else {
			vec.F32FromBF16(s.wide, s.narrow)
		}
	}
}

// sized is s with n elements of any value.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// as is memory of a buffer as numbers.
func as[T float32 | uint16](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}
