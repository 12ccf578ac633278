// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// unaryFns are the functions with kernels on rows. The others go through float64,
// as the graph's table has them.
var unaryFns = map[graph.UnaryFn]func(dst, src []float32){
	graph.Neg:     func(dst, src []float32) { vec.Scale(dst, src, -1) },
	graph.Exp:     vec.Exp,
	graph.Expm1:   vec.Expm1,
	graph.Square:  func(dst, src []float32) { vec.Mul(dst, src, src) },
	graph.Tanh:    vec.Tanh,
	graph.Sigmoid: vec.Sigmoid,
	graph.Erf:     vec.Erf,
	graph.Relu:    vec.ReLU,
	graph.Gelu:    vec.GELU,
	graph.Step:    step01,
}

// each lifts a function of one number to rows.
func each(f func(float64) float64) func(dst, src []float32) {
	return func(dst, src []float32) {
		for i, x := range src {
			dst[i] = float32(f(float64(x)))
		}
	}
}

// each2 is each for two numbers.
func each2(f func(x, y float64) float64) func(dst, x, y []float32) {
	return func(dst, x, y []float32) {
		for i := range dst {
			dst[i] = float32(f(float64(x[i]), float64(y[i])))
		}
	}
}

// step01 is 1 for x > 0, else 0.
func step01(dst, src []float32) {
	for i, x := range src {
		dst[i] = 0
		if x > 0 {
			dst[i] = 1
		}
	}
}

// mapStep applies f to the elements of one value.
type mapStep struct {
	overTiles
	f    func(dst, src []float32)
	t    tiling
	flat bool // no gaps on either side: rows do not matter
}

// stripLen is the length of a worker's strip of gathered short rows. One channel
// of a map has rows of one element, for which a kernel call each would cost ten
// times the arithmetic.
const stripLen = 1024

// mapRows makes the step of an elementwise function.
func (l *lowering) mapRows(n *graph.Node, f func(dst, src []float32)) (step, error) {
	s := &mapStep{overTiles: l.from(n), f: f}
	s.flat = s.src.dense() && s.dst.dense()
	s.t = newTiling(s.src.rows, s.src.c)
	if s.flat {
		s.t = newTiling(s.src.numel(), 1)
	}
	l.needScratch(l.b.pool.Threads() * stripLen * 4)
	s.tiles, s.fn = s.t.tiles, s.tile
	return s, nil
}

// elementwise makes the steps of functions of one and two numbers.
func (l *lowering) elementwise(n *graph.Node) (step, error) {
	switch o := n.Op.(type) {
	case graph.Unary:
		return l.unary(n, o)
	case graph.Binary:
		return l.binary(n, o)
	case graph.Affine:
		return l.affine(n, o)
	}
	return nil, nil
}

func (l *lowering) unary(n *graph.Node, o graph.Unary) (step, error) {
	if f := unaryFns[o.Fn]; f != nil {
		return l.mapRows(n, f)
	}
	f := o.Fn.Of()
	if f == nil {
		return nil, fmt.Errorf("function %v: %w", o.Fn, ErrUnsupported)
	}
	return l.mapRows(n, each(f))
}

// affine makes a closure over the two numbers, once, at compile time.
func (l *lowering) affine(n *graph.Node, o graph.Affine) (step, error) {
	return l.mapRows(n, func(dst, src []float32) { vec.Affine(dst, src, o.Scale, o.Shift) })
}

// tile computes a range of elements, of rows, or of short rows in strips.
func (s *mapStep) tile(w, t int) {
	from, to := s.t.span(t)
	switch {
	case s.flat:
		s.f(s.y[from:to], s.x[from:to])
	case s.src.c >= 16:
		for r := from; r < to; r++ {
			s.f(s.dst.row(s.y, r), s.src.row(s.x, r))
		}
	default:
		s.strips(w, from, to)
	}
}

// strips gathers short rows, so that one kernel call covers many of them.
func (s *mapStep) strips(w, from, to int) {
	c := s.src.c
	per := stripLen / c
	strip := floats(s.e.scratch)[w*stripLen:][:stripLen]
	for r := from; r < to; r += per {
		k := min(per, to-r)
		for i := range k {
			copy(strip[i*c:][:c], s.src.row(s.x, r+i))
		}
		s.f(strip[:k*c], strip[:k*c])
		for i := range k {
			copy(s.dst.row(s.y, r+i), strip[i*c:][:c])
		}
	}
}

// binaryFns are the functions of two rows. Maximum and Minimum keep NaN, as
// Go's own max and min do.
var binaryFns = map[graph.BinaryFn]func(dst, x, y []float32){
	graph.Add: vec.Add,
	graph.Sub: vec.Sub,
	graph.Mul: vec.Mul,
	graph.Div: vec.Div,
	graph.Maximum: func(dst, x, y []float32) {
		for i := range dst {
			dst[i] = max(x[i], y[i])
		}
	},
	graph.Minimum: func(dst, x, y []float32) {
		for i := range dst {
			dst[i] = min(x[i], y[i])
		}
	},
}

// side is one operand of a binary step, broadcast to the rows of the result. A
// vector along the last axis is a row that every row of the result meets; what
// repeats within a row is spread out in a strip first, so that the kernels need
// to know of no broadcasting.
type side struct {
	view
	same   bool // the result's shape
	single bool // one number
	repeat bool // one number per row
	rows   rowMap
}

// rowMap finds the row of a broadcast operand for a row of the result: dims are
// the leading dimensions of the result, strides how many rows of the operand a
// step along each of them is worth, 0 where it repeats.
type rowMap struct{ dims, strides []int }

// newRowMap aligns the shapes at their ends, as numpy does.
func newRowMap(in, out tensor.Shape) rowMap {
	lead := out[:len(out)-1]
	m := rowMap{dims: lead, strides: make([]int, len(lead))}
	step := 1
	for i := len(lead) - 1; i >= 0; i-- {
		j := i - len(out) + len(in)
		if j >= 0 && in[j] != 1 {
			m.strides[i] = step
			step *= in[j]
		}
	}
	return m
}

// at is the operand's row for row r of the result.
func (m rowMap) at(r int) int {
	row := 0
	for i := len(m.dims) - 1; i >= 0; i-- {
		row += r % m.dims[i] * m.strides[i]
		r /= m.dims[i]
	}
	return row
}

// newSide compares an operand with the shape of the result.
func newSide(v view, out tensor.Shape) side {
	s := side{view: v, same: v.shape.Equal(out), single: v.numel() == 1}
	_, c := rowsOf(out)
	s.repeat = v.c == 1 && c > 1
	if len(out) > 0 {
		s.rows = newRowMap(v.shape, out)
	}
	return s
}

// binaryStep applies f to pairs of rows. It is flat, so that rows do not matter,
// when each operand is one number or has the result's shape, and nothing has
// gaps: the sum of two maps, a picture divided by 255.
type binaryStep struct {
	a, b side
	dst  view
	f    func(dst, x, y []float32)
	flat bool
	t    tiling
	fn   func(w, t int)
	e    *exec
	strp int // floats of a strip, of which a worker has one per operand
	x, y []float32
	z    []float32
}

func (l *lowering) binary(n *graph.Node, o graph.Binary) (step, error) {
	f := binaryFns[o.Fn]
	if f == nil {
		of := o.Fn.Of()
		if of == nil {
			return nil, fmt.Errorf("function %v: %w", o.Fn, ErrUnsupported)
		}
		f = each2(of)
	}
	s := &binaryStep{f: f, a: newSide(l.operand(n.In[0]), n.Shape), b: newSide(l.operand(n.In[1]), n.Shape)}
	s.dst = l.result(n)
	flat := func(x side) bool { return x.single || x.same && x.dense() }
	s.flat = s.dst.dense() && flat(s.a) && flat(s.b)
	s.t = newTiling(s.dst.rows, s.dst.c)
	s.strp = s.dst.c
	if s.flat {
		s.t, s.strp = newTiling(s.dst.numel(), 1), grain
	}
	s.strp = roundUp(s.strp, align/4)
	l.needScratch(l.b.pool.Threads() * 2 * s.strp * 4)
	s.fn = s.tile
	return s, nil
}

func (s *binaryStep) run(e *exec) error {
	s.e, s.x, s.y, s.z = e, e.f32(s.a.view), e.f32(s.b.view), e.f32(s.dst)
	e.pool.Run(s.t.tiles, s.fn)
	return nil
}

// tile computes a range of elements, or of rows.
func (s *binaryStep) tile(w, t int) {
	from, to := s.t.span(t)
	strips := floats(s.e.scratch)[w*2*s.strp:][:2*s.strp]
	if s.flat {
		n := to - from
		s.f(s.z[from:to], s.a.piece(s.x, strips[:n], from), s.b.piece(s.y, strips[s.strp:][:n], from))
		return
	}
	for r := from; r < to; r++ {
		z := s.dst.row(s.z, r)
		s.f(z, s.a.rowFor(s.x, strips[:len(z)], r), s.b.rowFor(s.y, strips[s.strp:][:len(z)], r))
	}
}

// piece is elements [from, from+len(strip)) of a flat operand.
func (s side) piece(x, strip []float32, from int) []float32 {
	if s.single && !s.same {
		fill(strip, x[0])
		return strip
	}
	return x[from:][:len(strip)]
}

// rowFor is the operand's row for row r of the result.
func (s side) rowFor(x, strip []float32, r int) []float32 {
	if !s.same {
		r = s.rows.at(r)
	}
	row := s.view.row(x, r)
	if s.repeat {
		fill(strip, row[0])
		return strip
	}
	return row
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
