// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// block is a box of elements to copy between two strided arrays of one type. All
// operations that only move are boxes: a transposition reads with permuted
// strides, a broadcast with strides of 0, a concatenation is a box per operand.
type block struct {
	src, dst     view
	shape        []int
	from, to     []int // element strides
	srcAt, dstAt int   // elements from the views' beginnings
}

// newBlock joins dimensions that lie behind one another on both sides, so that
// most moves become a few long rows.
func newBlock(src, dst view, shape, from, to []int, srcAt, dstAt int) block {
	b := block{src: src, dst: dst, srcAt: srcAt, dstAt: dstAt}
	for i, d := range shape {
		if d == 1 {
			continue
		}
		k := len(b.shape) - 1
		if k >= 0 && b.from[k] == d*from[i] && b.to[k] == d*to[i] {
			b.shape[k] *= d
			b.from[k], b.to[k] = from[i], to[i]
			continue
		}
		b.shape, b.from, b.to = append(b.shape, d), append(b.from, from[i]), append(b.to, to[i])
	}
	if len(b.shape) == 0 {
		b.shape, b.from, b.to = []int{1}, []int{1}, []int{1}
	}
	return b
}

// lines counts the innermost rows of the box, width their elements.
func (b *block) lines() int {
	n := 1
	for _, d := range b.shape[:len(b.shape)-1] {
		n *= d
	}
	return n
}

func (b *block) width() int { return b.shape[len(b.shape)-1] }

// moveStep copies boxes of elements, one after the other, after filling the
// result where the boxes do not cover it. Elements are moved as unsigned
// integers of their size: no copy may change a bit, not even that of a NaN.
type moveStep struct {
	dst    view
	size   int // of an element
	pad    bool
	value  float32
	blocks []block
	t      []tiling
	from   []byte
	to     []byte
	cur    int
	fn     func(w, t int)
}

func (s *moveStep) add(b block) {
	if b.lines()*b.width() == 0 {
		return
	}
	const long = 4096
	if b.lines() < 16 && b.width() > grain { // too few lines for all threads
		most, rest := b.cut(long)
		s.add(rest)
		b = most
	}
	s.blocks = append(s.blocks, b)
	elements := b.width()
	if last := len(b.from) - 1; b.lines()*elements > grain && (b.from[last] != 1 || b.to[last] != 1) {
		elements *= 8 // as many lines of the cache
	}
	s.t = append(s.t, newTiling(b.lines(), elements))
}

// cut makes lines of n elements of the longer ones; rest is what is left over of each.
func (b *block) cut(n int) (most, rest block) {
	last := len(b.shape) - 1
	whole, from, to := b.shape[last]/n, b.from[last], b.to[last]
	most, rest = *b, *b
	most.shape = append(slices.Clone(b.shape[:last]), whole, n)
	most.from = append(slices.Clone(b.from[:last]), n*from, from)
	most.to = append(slices.Clone(b.to[:last]), n*to, to)
	rest.shape = append(slices.Clone(b.shape[:last]), b.shape[last]-whole*n)
	rest.srcAt, rest.dstAt = b.srcAt+whole*n*from, b.dstAt+whole*n*to
	return most, rest
}

func (s *moveStep) run(e *exec) error {
	s.to = e.raw(s.dst)
	if s.pad {
		fill(floats(s.to), s.value)
	}
	for i := range s.blocks {
		s.cur, s.from = i, e.raw(s.blocks[i].src)
		e.pool.Run(s.t[i].tiles, s.fn)
	}
	return nil
}

func (s *moveStep) tile(_, t int) {
	b := &s.blocks[s.cur]
	from, to := s.t[s.cur].span(t)
	switch s.size {
	case 1:
		moveLines(viewAs[uint8](s.to), viewAs[uint8](s.from), b, from, to)
	case 2:
		moveLines(viewAs[uint16](s.to), viewAs[uint16](s.from), b, from, to)
	case 4:
		moveLines(viewAs[uint32](s.to), viewAs[uint32](s.from), b, from, to)
	case 8:
		moveLines(viewAs[uint64](s.to), viewAs[uint64](s.from), b, from, to)
	}
}

// moveLines copies lines [first, end) of a block, a line being its innermost
// dimension.
func moveLines[T element](dst, src []T, b *block, first, end int) {
	last := len(b.shape) - 1
	n, fs, ts := b.shape[last], b.from[last], b.to[last]
	for line := first; line < end; line++ {
		f, t, r := b.srcAt, b.dstAt, line
		for i := last - 1; i >= 0; i-- {
			k := r % b.shape[i]
			r /= b.shape[i]
			f, t = f+k*b.from[i], t+k*b.to[i]
		}
		if fs == 1 && ts == 1 {
			copy(dst[t:t+n], src[f:f+n])
			continue
		}
		for range n {
			dst[t] = src[f]
			f, t = f+fs, t+ts
		}
	}
}

// movable is the operand of a move: a float32 view, or for another element type
// the values as they are stored.
func (l *lowering) movable(x *graph.Node, as tensor.DType) (view, error) {
	if _, ok := x.Op.(graph.Param); ok && as != tensor.F32 {
		return l.rawParam(x), nil
	}
	v := l.operand(x)
	if v.dtype != as {
		return v, fmt.Errorf("operand of %v, want %v: %w", v.dtype, as, ErrUnsupported)
	}
	return v, nil
}

// rawParam is a constant in the element type of its file, copied to memory that
// is aligned for it: tensors begin at any byte of a file.
func (l *lowering) rawParam(n *graph.Node) view {
	p := n.Op.(graph.Param)
	data := alignedCopy(p.Data)
	rows, c := rowsOf(n.Shape)
	return view{st: l.newStorage(storage{kind: fromParam, size: len(data), data: data}), rows: rows, c: c, ld: c, dtype: p.DType, shape: n.Shape}
}

// alignedCopy copies bytes to memory aligned for any element.
func alignedCopy(b []byte) []byte {
	c := bytesOf(make([]uint64, len(b)/8+1))[:len(b)]
	copy(c, b)
	return c
}

// move makes the boxes of one operation.
// moves makes the steps of the operations that only place elements.
func (l *lowering) moves(n *graph.Node) (step, error) {
	switch o := n.Op.(type) {
	case graph.Cast:
		return l.cast(n)
	case graph.Reshape, graph.Transpose, graph.Slice, graph.Concat, graph.Pad, graph.Broadcast:
		return l.move(n)
	case graph.Gather:
		return l.gather(n, o)
	}
	return nil, nil
}

func (l *lowering) move(n *graph.Node) (step, error) {
	s := &moveStep{size: n.DType.Size()}
	s.fn = s.tile
	in := make([]view, len(n.In))
	for i, x := range n.In {
		v, err := l.movable(x, n.DType)
		if err != nil {
			return nil, err
		}
		in[i] = v
	}
	dst := l.moveResult(n)
	s.dst = dst
	ds := dst.strides()
	switch o := n.Op.(type) {
	case graph.Reshape:
		s.add(rowsBlock(in[0], dst))
	case graph.Transpose:
		ss := in[0].strides()
		from := make([]int, len(ss))
		for i, p := range o.Perm {
			from[i] = ss[p]
		}
		s.add(newBlock(in[0], dst, n.Shape, from, ds, 0, 0))
	case graph.Slice:
		ss, at := in[0].strides(), 0
		for i := range ss {
			at += o.Begin[i] * ss[i]
			ss[i] *= o.Step[i]
		}
		s.add(newBlock(in[0], dst, n.Shape, ss, ds, at, 0))
	case graph.Concat:
		axis := o.Axis
		if axis < 0 {
			axis += len(n.Shape)
		}
		at := 0
		for _, v := range in {
			s.add(newBlock(v, dst, v.shape, v.strides(), ds, 0, at*ds[axis]))
			at += v.shape[axis]
		}
	case graph.Pad:
		if n.DType != tensor.F32 {
			return l.reference(n)
		}
		s.pad, s.value = true, o.Value
		at := 0
		for i, b := range o.Before {
			at += b * ds[i]
		}
		s.add(newBlock(in[0], dst, in[0].shape, in[0].strides(), ds, 0, at))
	case graph.Broadcast:
		s.add(newBlock(in[0], dst, n.Shape, broadcastStrides(in[0], n.Shape), ds, 0, 0))
	}
	return s, nil
}

// moveResult is where a move writes. What a Reshape copies it copies in order,
// whatever the rows.
func (l *lowering) moveResult(n *graph.Node) view {
	if _, ok := n.Op.(graph.Reshape); ok {
		return l.denseResult(n)
	}
	return l.result(n)
}

// rowsBlock copies rows to a dense result of another shape.
func rowsBlock(src, dst view) block {
	return newBlock(src, dst, []int{src.rows, src.c}, []int{src.ld, 1}, []int{src.c, 1}, 0, 0)
}

// broadcastStrides has 0 for the dimensions that repeat.
func broadcastStrides(v view, out tensor.Shape) []int {
	s := make([]int, len(out))
	for i, st := range v.strides() {
		if v.shape[i] != 1 {
			s[i+len(out)-len(v.shape)] = st
		}
	}
	return s
}

// outputCopy writes an output that no step made in place.
func (l *lowering) outputCopy(dst, src view, n *graph.Node) (step, error) {
	if isParam(n) {
		src = l.rawParam(n)
	}
	s := &moveStep{dst: dst, size: n.DType.Size()}
	s.fn = s.tile
	s.add(rowsBlock(src, dst))
	return s, nil
}

// gatherStep takes rows by index. The indices are data, perhaps a user's, and are
// checked at every run before anything is copied.
type gatherStep struct {
	x, idx, dst        view
	outer, axis, inner int // elements before, along and after the axis
	size               int
	count              int // indices
	from, to           []byte
	fn                 func(w, t int)
	at                 []int
}

func (l *lowering) gather(n *graph.Node, o graph.Gather) (step, error) {
	x, err := l.movable(n.In[0], n.DType)
	if err != nil {
		return nil, err
	}
	idx := l.operand(n.In[1])
	axis := o.Axis
	if axis < 0 {
		axis += len(x.shape)
	}
	s := &gatherStep{x: x, idx: idx, size: n.DType.Size(), axis: x.shape[axis], count: idx.numel(),
		outer: x.shape[:axis].Numel(), inner: x.shape[axis+1:].Numel(), at: make([]int, idx.numel())}
	if !x.dense() {
		return l.reference(n)
	}
	s.dst = l.denseResult(n)
	s.fn = s.tile
	return s, nil
}

func (s *gatherStep) run(e *exec) error {
	if err := readIndices(s.at, e.raw(s.idx), s.idx.dtype, s.axis); err != nil {
		return err
	}
	s.from, s.to = e.raw(s.x), e.raw(s.dst)
	e.pool.Run(s.outer*s.count, s.fn)
	return nil
}

func (s *gatherStep) tile(_, t int) {
	o, i := t/s.count, t%s.count
	n := s.inner * s.size
	copy(s.to[t*n:][:n], s.from[(o*s.axis+s.at[i])*n:][:n])
}

// castStep converts element types.
type castStep struct {
	src, dst view
	t        tiling
	from, to []byte
	fn       func(w, t int)
}

// cast has kernels for the conversions that pictures and checkpoints need; the
// rest are rare and go through the reference.
func (l *lowering) cast(n *graph.Node) (step, error) {
	x := n.In[0]
	v := l.operand(x)
	if n.DType == tensor.F32 && v.dtype == tensor.U8 || v.dtype == tensor.F32 && n.DType == tensor.F16 ||
		v.dtype == tensor.F32 && n.DType == tensor.BF16 || n.DType == tensor.F32 && (v.dtype == tensor.F16 || v.dtype == tensor.BF16) {
		s := &castStep{src: v}
		s.dst = l.result(n)
		s.t = newTiling(v.rows, v.c)
		s.fn = s.tile
		return s, nil
	}
	return l.reference(n)
}

func (s *castStep) run(e *exec) error {
	s.from, s.to = e.raw(s.src), e.raw(s.dst)
	e.pool.Run(s.t.tiles, s.fn)
	return nil
}

func (s *castStep) tile(_, t int) {
	first, end := s.t.span(t)
	if s.src.dense() && s.dst.dense() {
		castRow(s.dst.dtype, s.src.dtype, s.to, s.from, first*s.dst.c, first*s.src.c, (end-first)*s.src.c)
		return
	}
	for r := first; r < end; r++ {
		castRow(s.dst.dtype, s.src.dtype, s.to, s.from, r*s.dst.ld, r*s.src.ld, s.src.c)
	}
}

// castRow converts n elements, from element f of src to element t of dst.
func castRow(dt, st tensor.DType, dst, src []byte, t, f, n int) {
	switch {
	case dt == tensor.F16:
		vec.F16FromF32(viewAs[uint16](dst)[t:][:n], floats(src)[f:][:n])
	case dt == tensor.BF16:
		vec.BF16FromF32(viewAs[uint16](dst)[t:][:n], floats(src)[f:][:n])
	case st == tensor.U8:
		vec.F32FromU8(floats(dst)[t:][:n], src[f:][:n])
	case st == tensor.F16:
		vec.F32FromF16(floats(dst)[t:][:n], viewAs[uint16](src)[f:][:n])
	default:
		vec.F32FromBF16(floats(dst)[t:][:n], viewAs[uint16](src)[f:][:n])
	}
}

// shuffleStep is graph.PixelShuffle: a token's row becomes r x r pixels. It reads
// with a stride of r*r and writes whole pixels; a row of 25 x 256 floats stays in
// the first-level cache meanwhile.
type shuffleStep struct {
	overTiles
	r int
}

func (l *lowering) pixelShuffle(n *graph.Node, o graph.PixelShuffle) (step, error) {
	s := &shuffleStep{overTiles: l.from(n), r: o.R}
	s.tiles, s.fn = s.src.rows, s.pixels
	return s, nil
}

func (s *shuffleStep) pixels(_, t int) {
	r, c, w := s.r, s.dst.c, s.src.shape[2]
	in := s.src.row(s.x, t)
	line, x := t/w, t%w
	for i := range r {
		for j := range r {
			out := s.dst.row(s.y, (line*r+i)*w*r+x*r+j)
			k := i*r + j
			for ch := range c {
				out[ch] = in[ch*r*r+k]
			}
		}
	}
}
