// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// reduceStep folds axes. Each element of the result, or a part of one that has
// many terms, is a tile's job of its own: its terms are summed in order, in
// float64, and so are the parts. What is a part depends on the shapes alone.
type reduceStep struct {
	overTiles
	o       graph.Reduce
	shape   []int // sizes of the axes that stay,
	from    []int // and their strides in the operand
	gone    []int // sizes of the folded axes,
	strides []int // and theirs
	count   int   // terms of one result
	parts   int   // of one result
	partial []float64
	t       tiling
}

// partTerms is about how many terms make a part: as many as a tile has elements.
const partTerms = grain

// reductions makes the steps of the operations along axes.
func (l *lowering) reductions(n *graph.Node) (step, error) {
	switch o := n.Op.(type) {
	case graph.Reduce:
		return l.reduce(n, o)
	case graph.ArgReduce:
		return l.argReduce(n, o)
	case graph.TopK:
		return l.topK(n, o)
	case graph.CumSum:
		return l.cumSum(n, o)
	}
	return nil, nil
}

func (l *lowering) reduce(n *graph.Node, o graph.Reduce) (step, error) {
	if o.Fn > graph.ReduceMin {
		return nil, fmt.Errorf("reduction %v: %w", o.Fn, ErrUnsupported)
	}
	s := &reduceStep{overTiles: l.from(n), o: o, count: 1}
	in := s.src
	st := in.strides()
	for i, d := range in.shape {
		folded := slices.ContainsFunc(o.Axes, func(a int) bool { return a == i || a+len(in.shape) == i })
		if folded {
			s.gone, s.strides = append(s.gone, d), append(s.strides, st[i])
			s.count *= d
			continue
		}
		s.shape, s.from = append(s.shape, d), append(s.from, st[i])
	}
	s.parts = max(1, s.count/partTerms)
	s.partial = make([]float64, s.dst.numel()*s.parts)
	s.t = newTiling(len(s.partial), s.count/s.parts)
	s.tiles, s.fn = s.t.tiles, s.tile
	return s, nil
}

func (s *reduceStep) run(e *exec) error {
	if err := s.overTiles.run(e); err != nil {
		return err
	}
	for i := range s.dst.numel() {
		p := s.partial[i*s.parts:][:s.parts]
		v := p[0]
		for _, x := range p[1:] {
			switch s.o.Fn {
			case graph.ReduceMax:
				v = max(v, x)
			case graph.ReduceMin:
				v = min(v, x)
			default:
				v += x
			}
		}
		if s.o.Fn == graph.ReduceMean {
			v /= float64(s.count)
		}
		s.dst.row(s.y, i/s.dst.c)[i%s.dst.c] = float32(v)
	}
	return nil
}

func (s *reduceStep) tile(_, t int) {
	first, end := s.t.span(t)
	for i := first; i < end; i++ {
		at, r := 0, i/s.parts
		for d := len(s.shape) - 1; d >= 0; d-- {
			at += r % s.shape[d] * s.from[d]
			r /= s.shape[d]
		}
		part := i % s.parts
		s.partial[i] = s.fold(at, s.count*part/s.parts, s.count*(part+1)/s.parts)
	}
}

// fold reduces terms [first, end) of the result whose first term is at base. The
// last of the folded axes is an inner loop of its own: it is where the elements are.
func (s *reduceStep) fold(base, first, end int) float64 {
	sum := 0.0
	switch s.o.Fn {
	case graph.ReduceMax:
		sum = math.Inf(-1)
	case graph.ReduceMin:
		sum = math.Inf(1)
	}
	n, stride := 1, 1
	outer := len(s.gone) - 1
	if outer >= 0 {
		n, stride = s.gone[outer], s.strides[outer]
	}
	for first < end {
		at, r := base+first%n*stride, first/n
		for d := outer - 1; d >= 0; d-- {
			at += r % s.gone[d] * s.strides[d]
			r /= s.gone[d]
		}
		terms := min(n-first%n, end-first)
		sum = s.line(sum, at, stride, terms)
		first += terms
	}
	return sum
}

// line goes on with n terms from at. Sums run in four lanes, so that an addition
// need not wait for the one before; the lanes are part of the order.
func (s *reduceStep) line(v float64, at, stride, n int) float64 {
	x := s.x[at:]
	switch s.o.Fn {
	case graph.ReduceMax:
		for i := range n {
			v = max(v, float64(x[i*stride]))
		}
		return v
	case graph.ReduceMin:
		for i := range n {
			v = min(v, float64(x[i*stride]))
		}
		return v
	}
	var a, b, c, d float64
	i := 0
	for ; i+4 <= n; i += 4 {
		a += float64(x[i*stride])
		b += float64(x[(i+1)*stride])
		c += float64(x[(i+2)*stride])
		d += float64(x[(i+3)*stride])
	}
	for ; i < n; i++ {
		a += float64(x[i*stride])
	}
	return v + ((a + b) + (c + d))
}

// argStep is the index of the largest or smallest element along an axis. Only a
// strictly better element replaces the first, so that ties go to the lowest index,
// and the first NaN beats all.
type argStep struct {
	min         bool
	src, dst    view
	n, stride   int
	shape, from []int
	x           []float32
	y           []int32
	t           tiling
	fn          func(w, t int)
}

func (l *lowering) argReduce(n *graph.Node, o graph.ArgReduce) (step, error) {
	in := l.operand(n.In[0])
	axis := o.Axis
	if axis < 0 {
		axis += len(in.shape)
	}
	st := in.strides()
	s := &argStep{min: o.Min, src: in, n: in.shape[axis], stride: st[axis]}
	s.shape = slices.Delete(slices.Clone([]int(in.shape)), axis, axis+1)
	s.from = slices.Delete(slices.Clone(st), axis, axis+1)
	s.dst = l.result(n)
	s.t = newTiling(s.dst.numel(), s.n)
	s.fn = s.tile
	return s, nil
}

func (s *argStep) run(e *exec) error {
	s.x, s.y = e.f32(s.src), viewAs[int32](e.raw(s.dst))
	e.pool.Run(s.t.tiles, s.fn)
	return nil
}

func (s *argStep) tile(_, t int) {
	first, end := s.t.span(t)
	for i := first; i < end; i++ {
		at, r := 0, i
		for d := len(s.shape) - 1; d >= 0; d-- {
			at += r % s.shape[d] * s.from[d]
			r /= s.shape[d]
		}
		best := 0
		for j := 1; j < s.n; j++ {
			v, top := s.x[at+j*s.stride], s.x[at+best*s.stride]
			if !s.min && above(v, top) || s.min && (v < top || v != v && top == top) {
				best = j
			}
		}
		s.y[i] = int32(best)
	}
}

// topStep are the K largest elements of each row, by insertion into a sorted list
// of positions: K is small, and equal elements stay in the order of their index.
type topStep struct {
	k        int
	index    bool
	src, dst view
	at       []int // a list of K positions per worker
	x        []float32
	out      []byte
	fn       func(w, t int)
}

func (l *lowering) topK(n *graph.Node, o graph.TopK) (step, error) {
	s := &topStep{k: o.K, index: o.Index, src: l.operand(n.In[0]), at: make([]int, l.b.pool.Threads()*o.K)}
	s.dst = l.result(n)
	s.fn = s.row
	return s, nil
}

func (s *topStep) run(e *exec) error {
	s.x, s.out = e.f32(s.src), e.raw(s.dst)
	e.pool.Run(s.src.rows, s.fn)
	return nil
}

// above is the order of maxima: NaN is above all numbers, so that the first one of a
// row or window is its maximum wherever it stands.
func above(v, top float32) bool { return v > top || v != v && top == top }

// row keeps the positions of the largest elements so far, best first.
func (s *topStep) row(w, r int) {
	x := s.src.row(s.x, r)
	best := s.at[w*s.k:][:0:s.k]
	for i, v := range x {
		p := len(best)
		for p > 0 && above(v, x[best[p-1]]) {
			p--
		}
		if p == s.k {
			continue
		}
		if len(best) == s.k {
			best = best[:s.k-1]
		}
		best = slices.Insert(best, p, i)
	}
	for i, b := range best {
		if s.index {
			viewAs[int32](s.out)[r*s.dst.ld+i] = int32(b)
		} else {
			floats(s.out)[r*s.dst.ld+i] = x[b]
		}
	}
}

// scanStep sums along an axis; one line along it is a tile's job of its own, in
// float64.
type scanStep struct {
	overTiles
	reverse  bool
	n        int
	shape    []int // sizes of the other axes,
	from, to []int // and their strides in the operand and the result
	by, dst1 int   // strides along the axis
	t        tiling
}

func (l *lowering) cumSum(n *graph.Node, o graph.CumSum) (step, error) {
	axis := o.Axis
	if axis < 0 {
		axis += len(n.Shape)
	}
	s := &scanStep{overTiles: l.from(n), reverse: o.Reverse, n: n.Shape[axis]}
	from, to := s.src.strides(), s.dst.strides()
	s.by, s.dst1 = from[axis], to[axis]
	s.shape = slices.Delete(slices.Clone([]int(n.Shape)), axis, axis+1)
	s.from, s.to = slices.Delete(from, axis, axis+1), slices.Delete(to, axis, axis+1)
	s.t = newTiling(n.Numel()/s.n, s.n)
	s.tiles, s.fn = s.t.tiles, s.tile
	return s, nil
}

func (s *scanStep) tile(_, t int) {
	first, end := s.t.span(t)
	for line := first; line < end; line++ {
		from, to, r := 0, 0, line
		for d := len(s.shape) - 1; d >= 0; d-- {
			i := r % s.shape[d]
			from, to, r = from+i*s.from[d], to+i*s.to[d], r/s.shape[d]
		}
		sum := 0.0
		for j := range s.n {
			if s.reverse {
				j = s.n - 1 - j
			}
			sum += float64(s.x[from+j*s.by])
			s.y[to+j*s.dst1] = float32(sum)
		}
	}
}
