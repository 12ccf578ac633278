// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// gradients makes the steps of the operations that only training needs. Values
// that are not float32, which no gradient of the eager tensors has, go to the
// reference.
func (l *lowering) gradients(n *graph.Node) (step, error) {
	switch n.Op.(type) {
	case graph.ScatterAdd, graph.OneHot, graph.PoolIndex, graph.PoolGrad, graph.ConvGradInput, graph.ConvGradWeight:
	default:
		return nil, nil
	}
	for _, x := range n.In {
		if x.DType.Float() && x.DType != tensor.F32 && !isParam(x) {
			return l.reference(n)
		}
	}
	if n.DType.Float() && n.DType != tensor.F32 {
		return l.reference(n)
	}
	switch o := n.Op.(type) {
	case graph.ScatterAdd:
		return l.scatterAdd(n, o)
	case graph.OneHot:
		return l.oneHot(n, o)
	case graph.PoolIndex:
		return l.poolIndex(n, o)
	case graph.PoolGrad:
		return l.poolGrad(n, o)
	case graph.ConvGradInput:
		return l.convGradInput(n, o)
	case graph.ConvGradWeight:
		return l.convGradWeight(n, o)
	}
	return nil, nil
}

// readIndices decodes indices of an axis with n entries. They are data, perhaps
// a user's, and one outside is an error before anything is read or written by it.
func readIndices(at []int, raw []byte, d tensor.DType, n int) error {
	for i := range at {
		if d == tensor.I32 {
			at[i] = int(viewAs[int32](raw)[i])
		} else {
			at[i] = int(viewAs[int64](raw)[i])
		}
		if at[i] < 0 || at[i] >= n {
			return fmt.Errorf("index %d of an axis of %d: %w", at[i], n, backend.ErrIndex)
		}
	}
	return nil
}

// columnChunk columns are a tile of a sum over rows: all rows of a tile's columns
// are added by one worker, in their order, so that the sum does not depend on the
// number of threads.
const columnChunk = 256

// scatterStep adds rows by index. A row of the operand is pieces of c elements,
// ld apart.
type scatterStep struct {
	overTiles
	idx           view
	at            []int
	rows          int // of the result
	pieces, c, ld int
	chunks        int // of a piece
}

func (l *lowering) scatterAdd(n *graph.Node, o graph.ScatterAdd) (step, error) {
	x := l.operand(n.In[0])
	s := &scatterStep{rows: o.Rows, idx: l.operand(n.In[1]), at: make([]int, x.shape[0]), pieces: 1, c: 1, ld: 1}
	if len(x.shape) > 1 {
		s.pieces, s.c, s.ld = x.rows/max(x.shape[0], 1), x.c, x.ld
	}
	s.src, s.dst = x, l.denseResult(n)
	if x.numel() == 0 { // a sum of nothing
		s.pieces, s.c = 1, s.dst.numel()/o.Rows
	}
	s.chunks = (s.c + columnChunk - 1) / columnChunk
	s.tiles, s.fn = s.pieces*s.chunks, s.columns
	return s, nil
}

func (s *scatterStep) run(e *exec) error {
	if err := readIndices(s.at, e.raw(s.idx), s.idx.dtype, s.rows); err != nil {
		return err
	}
	return s.overTiles.run(e)
}

func (s *scatterStep) columns(_, t int) {
	piece, first := t/s.chunks, t%s.chunks*columnChunk
	n, width := min(columnChunk, s.c-first), s.pieces*s.c
	at := piece*s.c + first
	for r := range s.rows {
		clear(s.y[r*width+at:][:n])
	}
	for i, r := range s.at {
		to := s.y[r*width+at:][:n]
		vec.Add(to, to, s.x[(i*s.pieces+piece)*s.ld+first:][:n])
	}
}

// oneHotStep writes a row of zeros with a one for each index.
type oneHotStep struct {
	idx, dst view
	raw      []byte
	y        []float32
	t        tiling
	fn       func(w, t int)
}

func (l *lowering) oneHot(n *graph.Node, o graph.OneHot) (step, error) {
	s := &oneHotStep{idx: l.operand(n.In[0])}
	s.dst = l.result(n)
	s.t = newTiling(s.dst.rows, o.Depth)
	s.fn = s.tile
	return s, nil
}

func (s *oneHotStep) run(e *exec) error {
	s.raw, s.y = e.raw(s.idx), e.f32(s.dst)
	e.pool.Run(s.t.tiles, s.fn)
	return nil
}

func (s *oneHotStep) tile(_, t int) {
	from, to := s.t.span(t)
	for r := from; r < to; r++ {
		var hot int64
		if s.idx.dtype == tensor.I32 {
			hot = int64(viewAs[int32](s.raw)[r])
		} else {
			hot = viewAs[int64](s.raw)[r]
		}
		row := s.dst.row(s.y, r)
		clear(row)
		if hot >= 0 && hot < int64(len(row)) { // others are vectors of zeros
			row[hot] = 1
		}
	}
}

// windows walks the windows of a max pooling over x [B,H,W,C].
type windows struct {
	x              view
	kernel, stride [2]int
	oh, ow         int
}

// best is the position in the plane of the maximum of channel c in window (y, x)
// of picture b, the first of equals.
func (w *windows) best(data []float32, b, y, x, c int) int {
	h, wd := w.x.shape[1], w.x.shape[2]
	at, top := -1, float32(0)
	for i := range w.kernel[0] {
		p := (y*w.stride[0]+i)*wd + x*w.stride[1]
		for j := range w.kernel[1] {
			v := data[(b*h*wd+p+j)*w.x.ld+c]
			if at < 0 || above(v, top) {
				at, top = p+j, v
			}
		}
	}
	return at
}

// poolIndexStep finds where the maxima are.
type poolIndexStep struct {
	windows
	dst view
	xd  []float32
	yd  []int32
	fn  func(w, t int)
}

func (l *lowering) poolIndex(n *graph.Node, o graph.PoolIndex) (step, error) {
	s := &poolIndexStep{windows: windows{x: l.operand(n.In[0]), kernel: o.Kernel, stride: o.Stride, oh: n.Shape[1], ow: n.Shape[2]}}
	s.dst = l.result(n)
	s.fn = s.line
	return s, nil
}

func (s *poolIndexStep) run(e *exec) error {
	s.xd, s.yd = e.f32(s.x), viewAs[int32](e.raw(s.dst))
	e.pool.Run(s.dst.shape[0]*s.oh, s.fn)
	return nil
}

func (s *poolIndexStep) line(_, t int) {
	for x := range s.ow {
		row := s.yd[(t*s.ow+x)*s.dst.ld:][:s.dst.c]
		for c := range row {
			row[c] = int32(s.best(s.xd, t/s.oh, t%s.oh, x, c))
		}
	}
}

// poolGradStep adds each gradient to the maximum of its window. Windows may
// overlap, so that a picture's channels are a tile's own.
type poolGradStep struct {
	windows
	gy, dst    view
	chunks     int
	xd, gd, yd []float32
	fn         func(w, t int)
}

// gradChannels are a tile's channels: a cache line.
const gradChannels = 16

func (l *lowering) poolGrad(n *graph.Node, o graph.PoolGrad) (step, error) {
	gy := l.operand(n.In[1])
	s := &poolGradStep{windows: windows{x: l.operand(n.In[0]), kernel: o.Kernel, stride: o.Stride, oh: gy.shape[1], ow: gy.shape[2]}, gy: gy}
	s.dst = l.result(n)
	s.chunks = (s.dst.c + gradChannels - 1) / gradChannels
	s.fn = s.tile
	return s, nil
}

func (s *poolGradStep) run(e *exec) error {
	s.xd, s.gd, s.yd = e.f32(s.x), e.f32(s.gy), e.f32(s.dst)
	e.pool.Run(s.dst.shape[0]*s.chunks, s.fn)
	return nil
}

func (s *poolGradStep) tile(_, t int) {
	b, first := t/s.chunks, t%s.chunks*gradChannels
	end := min(first+gradChannels, s.dst.c)
	plane := s.dst.shape[1] * s.dst.shape[2]
	for p := range plane {
		clear(s.dst.row(s.yd, b*plane+p)[first:end])
	}
	for y := range s.oh {
		for x := range s.ow {
			g := s.gy.row(s.gd, (b*s.oh+y)*s.ow+x)
			for c := first; c < end; c++ {
				s.yd[(b*plane+s.best(s.xd, b, y, x, c))*s.dst.ld+c] += g[c]
			}
		}
	}
}
