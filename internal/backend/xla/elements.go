// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// elements are a weight's bytes as the program reads them.
func elements(w stablehlo.Weight) ([]byte, error) {
	if len(w.Params) > 1 && w.Perm != nil {
		return nil, fmt.Errorf("%w: joined weights with an arrangement", ErrUnsupported)
	}
	if p := w.Params; len(p) == 1 && p[0].DType == w.DType && w.Perm == nil && !w.Round {
		return p[0].Data, nil
	}
	size := w.DType.Size()
	out := make([]byte, w.Shape.Numel()*size)
	if w.Params == nil {
		return out, convert(out, w.DType, w.Round, len(w.Table), func(to []float32, at int) { copy(to, w.Table[at:]) })
	}
	at := 0
	for _, p := range w.Params {
		n := p.Shape.Numel()
		if err := convertParam(out[at:at+n*size], p, w); err != nil {
			return nil, fmt.Errorf("weight %q: %w", p.Name, err)
		}
		at += n * size
	}
	return out, nil
}

// convertParam writes p's elements as w wants them.
func convertParam(out []byte, p graph.Param, w stablehlo.Weight) error {
	if p.DType == w.DType && w.Perm == nil && !w.Round {
		copy(out, p.Data)
		return nil
	}
	if !p.DType.Float() || !w.DType.Float() {
		return fmt.Errorf("%w: %v weights as %v", ErrUnsupported, p.DType, w.DType)
	}
	read := func(to []float32, at int) { runOf(to, p, at, 1) }
	if w.Perm != nil {
		read = permuted(p, w.Perm)
	}
	return convert(out, w.DType, w.Round, p.Shape.Numel(), read)
}

// permuted reads p with its dimensions permuted: element i of the result is at the
// digits of i, in the result's dimensions, times the source's strides.
func permuted(p graph.Param, perm []int) func(to []float32, at int) {
	st := p.Shape.Strides()
	dims, steps := make([]int, len(perm)), make([]int, len(perm))
	for i, k := range perm {
		dims[i], steps[i] = p.Shape[k], st[k]
	}
	last := len(dims) - 1
	return func(to []float32, at int) {
		for len(to) > 0 {
			// A run along the last dimension.
			from, rest := 0, at
			for k := last; k >= 0; k-- {
				from += rest % dims[k] * steps[k]
				rest /= dims[k]
			}
			n := min(len(to), dims[last]-at%dims[last])
			runOf(to[:n], p, from, steps[last])
			to, at = to[n:], at+n
		}
	}
}

// runOf reads numbers from one on, step apart.
func runOf(to []float32, p graph.Param, from, step int) {
	le := binary.LittleEndian
	switch p.DType {
	case tensor.F32:
		if step == 1 { // most of all weights
			copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(to))), 4*len(to)), p.Data[4*from:])
			return
		}
		for i := range to {
			to[i] = math.Float32frombits(le.Uint32(p.Data[4*(from+i*step):]))
		}
	case tensor.F64:
		for i := range to {
			to[i] = float32(math.Float64frombits(le.Uint64(p.Data[8*(from+i*step):])))
		}
	case tensor.F16:
		for i := range to {
			to[i] = tensor.Float32FromF16(le.Uint16(p.Data[2*(from+i*step):]))
		}
	case tensor.BF16:
		for i := range to {
			to[i] = tensor.Float32FromBF16(le.Uint16(p.Data[2*(from+i*step):]))
		}
	}
}

// roundTF32 leaves ten bits of the mantissas, to the nearest, of two the even one.
func roundTF32(v []float32) {
	for i, x := range v {
		if u := math.Float32bits(x); u&0x7f800000 != 0x7f800000 {
			v[i] = math.Float32frombits((u + 0xfff + u>>13&1) &^ 0x1fff)
		}
	}
}

// convert writes n numbers, which read gives from one on, in type d, on all
// processors where it is worth it: a large model has some 700 million.
func convert(out []byte, d tensor.DType, round bool, n int, read func(to []float32, at int)) error {
	const chunk, run = 1 << 18, 2048 // run: in the first-level cache
	size := d.Size()
	return parallel((n+chunk-1)/chunk, runtime.GOMAXPROCS(0), func(i int) {
		var buf [run]float32
		for at := i * chunk; at < min(n, (i+1)*chunk); at += run {
			v := buf[:min(run, n-at)]
			read(v, at)
			if round {
				roundTF32(v)
			}
			store(slices.Clip(out[at*size:(at+len(v))*size]), d, v)
		}
	})
}

// store is tensor.Store with vector instructions for the two that most weights become.
func store(out []byte, d tensor.DType, v []float32) {
	halves := func() []uint16 { return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(out))), len(v)) }
	switch d {
	case tensor.BF16:
		vec.BF16FromF32(halves(), v)
	case tensor.F16:
		vec.F16FromF32(halves(), v)
	default:
		tensor.Store(out, d, v)
	}
}
