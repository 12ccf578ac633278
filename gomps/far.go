// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// apart says whether the tensor is in memory which the host must fetch.
func (t *Tensor) apart() bool {
	b := t.mem.buf.Load()
	if b == nil {
		return false
	}
	_, ok := (*b).(backend.DeviceMemory)
	return ok
}

// far are the descriptors of a map that stay on the device, of a call of Match.
type far struct {
	ctx context.Context
	e   *Engine
	t   *Tensor
}

var _ match.Far = (*far)(nil)

// farOf is nil for a map whose descriptors are on the host.
func (e *Engine) farOf(ctx context.Context, m Map) match.Far {
	if m.Source == nil {
		return nil
	}
	return &far{ctx, e, m.Source}
}

// All brings the whole map.
func (f *far) All() ([]float32, error) {
	if err := f.t.Fetch(); err != nil {
		return nil, err
	}
	v := f.t.Float32s()
	if v == nil {
		return nil, &ShapeError{"match", "descriptors that were released", "a result that is still held"}
	}
	return v, nil
}

// Rows has the device gather the descriptors of pixels. Many are worth the whole map, which
// also serves where the device fails.
func (f *far) Rows(pixels []int32) ([]float32, error) {
	shape := f.t.shape
	n, dim := shape[0]*shape[1], shape[2]
	if len(pixels) == 0 {
		return nil, nil
	}
	// Few numbers of rows are compiled for.
	rows := max(1<<bits.Len(uint(len(pixels)-1)), 1024)
	if rows < n/2 {
		out, err := f.gather(pixels, n, dim, rows)
		if err == nil || f.ctx.Err() != nil {
			return out, err
		}
		f.e.log.Warn("the device gathers no descriptors, all are read", "error", err)
	}
	all, err := f.All()
	if err != nil {
		return nil, err
	}
	out := make([]float32, 0, len(pixels)*dim)
	for _, p := range pixels {
		out = append(out, all[int(p)*dim:][:dim]...)
	}
	return out, nil
}

func (f *far) gather(pixels []int32, n, dim, rows int) (_ []float32, err error) {
	p, err := f.e.rows.get(f.ctx, part{what: "rows", h1: n, w1: dim, images: rows}, func() (*graph.Graph, error) {
		g := graph.New("rows")
		x, at := g.Input("x", tensor.F32, n, dim), g.Input("at", tensor.I32, rows)
		g.Output("rows", g.Add(graph.Gather{Axis: 0}, x, at))
		return g.Build()
	})
	if err != nil {
		return nil, err
	}
	defer f.e.rows.put(p)
	source := f.t.mem.buf.Load()
	if source == nil {
		return nil, backend.ErrReleased
	}
	var held []backend.Buffer
	defer func() {
		for _, b := range held {
			b.Release()
		}
	}()
	for _, size := range []int{4 * rows, 4 * rows * dim} {
		b, err := f.e.dev.Alloc(size)
		if err != nil {
			return nil, err
		}
		held = append(held, b)
	}
	at, out := held[0], held[1]
	index := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(at.Bytes()))), rows)
	clear(index[copy(index, pixels):])
	w, err := f.e.dev.Begin(backend.First)
	if err != nil {
		return nil, err
	}
	defer w.Discard()
	if err := w.Run(f.ctx, p.Program, []backend.Buffer{*source, at}, []backend.Buffer{out}); err != nil {
		return nil, err
	}
	pending, err := w.Submit()
	if err != nil {
		return nil, err
	}
	if _, err := pending.Wait(f.ctx); err != nil {
		_, _ = pending.Wait(context.WithoutCancel(f.ctx)) // the buffers go back now
		return nil, fmt.Errorf("gomps: match: %w", err)
	}
	if err := out.Fetch(); err != nil {
		return nil, err
	}
	return append([]float32(nil), float32s(out.Bytes(), rows*dim)[:len(pixels)*dim]...), nil
}
