// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
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
	fmt.Fprintf(&b, "%v %v %v %v", w.DType, w.Shape, w.Perm, w.Round)
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
