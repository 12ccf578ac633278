// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"sync"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// weightStore holds the weights on the device, shared by the programs of a
// backend: the graphs of each size of picture read the same ones.
type weightStore struct {
	dev *pjrt.Device

	mu      sync.Mutex
	weights map[string]*weight
	bytes   int
}

type weight struct {
	key   string
	buf   *pjrt.Buffer
	bytes int
	refs  int
	// params keep what the key's pointers point to: an address names elements only
	// as long as they are there.
	params []graph.Param
}

func newWeightStore(dev *pjrt.Device) *weightStore {
	return &weightStore{dev: dev, weights: map[string]*weight{}}
}

func (s *weightStore) inUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// take returns a weight, uploaded on first use; every take needs a drop.
func (s *weightStore) take(w stablehlo.Weight) (*weight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := weightKey(w)
	if x, ok := s.weights[key]; ok {
		x.refs++
		return x, nil
	}
	data, err := elements(w)
	if err != nil {
		return nil, err
	}
	dims := make([]int64, len(w.Shape))
	for i, d := range w.Shape {
		dims[i] = int64(d)
	}
	buf, err := s.dev.Upload(data, types[w.DType], dims)
	if err != nil {
		return nil, fmt.Errorf("weight %s: %w", weightName(w), err)
	}
	for _, p := range w.Params {
		if p.Release != nil {
			p.Release(0, len(p.Data))
		}
	}
	x := &weight{key: key, buf: buf, bytes: len(data), refs: 1, params: w.Params}
	s.weights[key] = x
	s.bytes += x.bytes
	return x, nil
}

// weightKey is the weight's place in memory, type and arrangement; of a table
// the numbers themselves.
func weightKey(w stablehlo.Weight) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v %v", w.DType, w.Shape, w.Perm)
	for _, p := range w.Params {
		fmt.Fprintf(&b, " %p+%d", unsafe.SliceData(p.Data), len(p.Data))
	}
	for _, v := range w.Table {
		b.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
	}
	return b.String()
}

func weightName(w stablehlo.Weight) string {
	if len(w.Params) == 0 {
		return "(computed)"
	}
	return fmt.Sprintf("%q", w.Params[0].Name)
}

// drop ends one use. The weight stays for the next program until trim.
func (s *weightStore) drop(x *weight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.refs--; x.refs == 0 {
		s.free(x)
	}
}

func (s *weightStore) free(x *weight) {
	delete(s.weights, x.key)
	s.bytes -= x.bytes
	x.buf.Close()
}

// trim frees what no program uses.
func (s *weightStore) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.weights {
		if x.refs == 0 {
			s.free(x)
		}
	}
}

func (s *weightStore) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.weights {
		s.free(x)
	}
}

// elements are a weight's bytes as the program reads them.
func elements(w stablehlo.Weight) ([]byte, error) {
	out := make([]byte, 0, w.Shape.Numel()*w.DType.Size())
	if w.Params == nil {
		for _, v := range w.Table {
			out = appendFloat(out, v, w.DType)
		}
		return out, nil
	}
	if len(w.Params) > 1 && w.Perm != nil {
		return nil, fmt.Errorf("%w: joined weights with an arrangement", ErrUnsupported)
	}
	for _, p := range w.Params {
		var err error
		if out, err = appendParam(out, p, w.DType, w.Perm); err != nil {
			return nil, fmt.Errorf("weight %q: %w", p.Name, err)
		}
	}
	return out, nil
}

// appendParam appends p's elements in type d, their dimensions permuted.
func appendParam(out []byte, p graph.Param, d tensor.DType, perm []int) ([]byte, error) {
	if p.DType == d && perm == nil {
		return append(out, p.Data...), nil
	}
	if !p.DType.Float() || !d.Float() {
		return nil, fmt.Errorf("%w: %v weights as %v", ErrUnsupported, p.DType, d)
	}
	order := identity(p.Shape.Numel(), p.Shape, perm)
	for i := range p.Shape.Numel() {
		at := i
		if order != nil {
			at = order(i)
		}
		out = appendFloat(out, number(p, at), d)
	}
	return out, nil
}

// identity gives the source position of each element after a permutation; nil
// when it is the same.
func identity(n int, s tensor.Shape, perm []int) func(i int) int {
	if perm == nil || n == 0 {
		return nil
	}
	st := s.Strides()
	dims, steps := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		dims[i], steps[i] = s[p], st[p]
	}
	at, pos := make([]int, len(perm)), 0
	return func(i int) int {
		if i == 0 {
			return 0
		}
		for k := len(dims) - 1; k >= 0; k-- {
			at[k]++
			pos += steps[k]
			if at[k] < dims[k] {
				break
			}
			pos -= at[k] * steps[k]
			at[k] = 0
		}
		return pos
	}
}

func number(p graph.Param, i int) float32 {
	switch le := binary.LittleEndian; p.DType {
	case tensor.F64:
		return float32(math.Float64frombits(le.Uint64(p.Data[8*i:])))
	case tensor.F16:
		return tensor.Float32FromF16(le.Uint16(p.Data[2*i:]))
	case tensor.BF16:
		return tensor.Float32FromBF16(le.Uint16(p.Data[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(p.Data[4*i:]))
}

func appendFloat(out []byte, v float32, d tensor.DType) []byte {
	le := binary.LittleEndian
	switch d {
	case tensor.F16:
		return le.AppendUint16(out, tensor.F16FromFloat32(v))
	case tensor.BF16:
		return le.AppendUint16(out, tensor.BF16FromFloat32(v))
	case tensor.F64:
		return le.AppendUint64(out, math.Float64bits(float64(v)))
	}
	return le.AppendUint32(out, math.Float32bits(v))
}
