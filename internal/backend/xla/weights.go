// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
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

	once sync.Once // uploads
	err  error
}

func newWeightStore(dev *pjrt.Device) *weightStore {
	return &weightStore{dev: dev, weights: map[string]*weight{}}
}

func (s *weightStore) inUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// takeAll takes weights, several at a time: converting and copying some 700
// million numbers takes longer than anything else of a start from the cache.
// After an error, those that were taken are among the result.
func (s *weightStore) takeAll(ctx context.Context, list []stablehlo.Weight) ([]*weight, error) {
	out := make([]*weight, len(list))
	errs := make([]error, len(list))
	broken := parallel(len(list), 8, func(i int) {
		if errs[i] = ctx.Err(); errs[i] == nil {
			out[i], errs[i] = s.take(list[i])
		}
	})
	taken := slices.DeleteFunc(slices.Clone(out), func(w *weight) bool { return w == nil })
	return taken, errors.Join(append(errs, broken)...)
}

// parallel calls f for 0 <= i < n on several goroutines. A panic, which a file
// that was cut short can cause, becomes an error.
func parallel(n, workers int, f func(i int)) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	failures := make(chan error, workers)
	for range min(workers, n) {
		wg.Add(1)
		par.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
			wg.Done()
		}, func(p *par.Panic) {
			failures <- p
			wg.Done()
		})
	}
	wg.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// take returns a weight, uploaded on first use; every take needs a drop.
func (s *weightStore) take(w stablehlo.Weight) (*weight, error) {
	x := s.find(w)
	x.once.Do(func() { x.err = s.upload(x, w) })
	if x.err != nil {
		s.drop(x)
		return nil, x.err
	}
	return x, nil
}

// find counts one more use of a weight, which may be new.
func (s *weightStore) find(w stablehlo.Weight) *weight {
	key := weightKey(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.weights[key]
	if !ok {
		x = &weight{key: key, params: w.Params}
		s.weights[key] = x
	}
	x.refs++
	return x
}

// upload puts the elements on the device.
func (s *weightStore) upload(x *weight, w stablehlo.Weight) error {
	data, err := elements(w)
	if err != nil {
		return err
	}
	dims := make([]int64, len(w.Shape))
	for i, d := range w.Shape {
		dims[i] = int64(d)
	}
	buf, err := s.dev.Upload(data, types[w.DType], dims)
	if err != nil {
		return fmt.Errorf("weight %s: %w", weightName(w), err)
	}
	for _, p := range w.Params {
		if release := p.Source.Release; release != nil {
			release(0, len(p.Data))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x.buf, x.bytes = buf, len(data)
	s.bytes += x.bytes
	return nil
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

// drop ends one use; the last one frees the weight.
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

func (s *weightStore) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.weights {
		s.free(x)
	}
}

// elements are a weight's bytes as the program reads them.
func elements(w stablehlo.Weight) ([]byte, error) {
	if len(w.Params) > 1 && w.Perm != nil {
		return nil, fmt.Errorf("%w: joined weights with an arrangement", ErrUnsupported)
	}
	if p := w.Params; len(p) == 1 && p[0].DType == w.DType && w.Perm == nil {
		return p[0].Data, nil
	}
	size := w.DType.Size()
	out := make([]byte, w.Shape.Numel()*size)
	if w.Params == nil {
		return out, convert(out, w.DType, len(w.Table), func(i int) float32 { return w.Table[i] })
	}
	at := 0
	for _, p := range w.Params {
		n := p.Shape.Numel()
		if err := convertParam(out[at:at+n*size], p, w.DType, w.Perm); err != nil {
			return nil, fmt.Errorf("weight %q: %w", p.Name, err)
		}
		at += n * size
	}
	return out, nil
}

// convertParam writes p's elements in type d, their dimensions permuted.
func convertParam(out []byte, p graph.Param, d tensor.DType, perm []int) error {
	if p.DType == d && perm == nil {
		copy(out, p.Data)
		return nil
	}
	if !p.DType.Float() || !d.Float() {
		return fmt.Errorf("%w: %v weights as %v", ErrUnsupported, p.DType, d)
	}
	read, err := reader(p)
	if err != nil {
		return err
	}
	n := p.Shape.Numel()
	if perm == nil {
		return convert(out, d, n, read)
	}
	// Element i of the result is at digits of i, in the result's dimensions, times
	// the source's strides.
	st := p.Shape.Strides()
	dims, steps := make([]int, len(perm)), make([]int, len(perm))
	for i, k := range perm {
		dims[i], steps[i] = p.Shape[k], st[k]
	}
	return convert(out, d, n, func(i int) float32 {
		at := 0
		for k := len(dims) - 1; k >= 0; k-- {
			at += i % dims[k] * steps[k]
			i /= dims[k]
		}
		return read(at)
	})
}

// reader gives the numbers of a weight.
func reader(p graph.Param) (func(i int) float32, error) {
	le := binary.LittleEndian
	switch p.DType {
	case tensor.F32:
		return func(i int) float32 { return math.Float32frombits(le.Uint32(p.Data[4*i:])) }, nil
	case tensor.F64:
		return func(i int) float32 { return float32(math.Float64frombits(le.Uint64(p.Data[8*i:]))) }, nil
	case tensor.F16:
		return func(i int) float32 { return tensor.Float32FromF16(le.Uint16(p.Data[2*i:])) }, nil
	case tensor.BF16:
		return func(i int) float32 { return tensor.Float32FromBF16(le.Uint16(p.Data[2*i:])) }, nil
	}
	return nil, fmt.Errorf("%w: %v weights", ErrUnsupported, p.DType)
}

// convert writes n numbers in type d, on all processors where it is worth it: a
// large model has some 700 million.
func convert(out []byte, d tensor.DType, n int, read func(i int) float32) error {
	le := binary.LittleEndian
	part := func(from, to int) {
		for i := from; i < to; i++ {
			switch v := read(i); d {
			case tensor.F16:
				le.PutUint16(out[2*i:], tensor.F16FromFloat32(v))
			case tensor.BF16:
				le.PutUint16(out[2*i:], tensor.BF16FromFloat32(v))
			case tensor.F64:
				le.PutUint64(out[8*i:], math.Float64bits(float64(v)))
			default:
				le.PutUint32(out[4*i:], math.Float32bits(v))
			}
		}
	}
	const chunk = 1 << 18
	return parallel((n+chunk-1)/chunk, runtime.GOMAXPROCS(0), func(i int) { part(i*chunk, min((i+1)*chunk, n)) })
}
