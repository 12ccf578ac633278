// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// rowStep computes rows of the result from rows of one operand and vectors that
// all rows share. The statistics of a row stay within one kernel call, so that
// they do not depend on what else the tile holds.
type rowStep struct {
	overTiles
	with []view
	w    [][]float32 // the memory of with
	f    func(dst, src []float32, with [][]float32)
	t    tiling
}

// rowsWith makes a rowStep whose vectors are the operands after the first.
func (l *lowering) rowsWith(n *graph.Node, f func(dst, src []float32, with [][]float32)) (step, error) {
	s := &rowStep{overTiles: l.from(n), f: f}
	for _, x := range n.In[1:] {
		s.with = append(s.with, l.operand(x))
	}
	s.w = make([][]float32, len(s.with))
	s.t = newTiling(s.src.rows, s.src.c)
	s.tiles, s.fn = s.t.tiles, s.tile
	return s, nil
}

func (s *rowStep) run(e *exec) error {
	for i, v := range s.with {
		s.w[i] = e.f32(v)
	}
	return s.overTiles.run(e)
}

func (s *rowStep) tile(_, t int) {
	from, to := s.t.span(t)
	for r := from; r < to; r++ {
		s.f(s.dst.row(s.y, r), s.src.row(s.x, r), s.w)
	}
}

// norms makes the steps of the operations on vectors.
func (l *lowering) norms(n *graph.Node) (step, error) {
	switch o := n.Op.(type) {
	case graph.LayerNorm:
		return l.layerNorm(n, o)
	case graph.RMSNorm:
		return l.rmsNorm(n, o)
	case graph.Softmax:
		return l.softmax(n, o)
	case graph.L2Normalize:
		return l.l2Normalize(n)
	case graph.ExpPoints:
		return l.expPoints(n)
	}
	return nil, nil
}

func (l *lowering) layerNorm(n *graph.Node, o graph.LayerNorm) (step, error) {
	return l.rowsWith(n, func(dst, src []float32, w [][]float32) { vec.LayerNorm(dst, src, w[0], w[1], o.Eps) })
}

func (l *lowering) rmsNorm(n *graph.Node, o graph.RMSNorm) (step, error) {
	return l.rowsWith(n, func(dst, src []float32, w [][]float32) { vec.RMSNorm(dst, src, w[0], o.Eps) })
}

// l2Normalize has no epsilon: a zero vector becomes NaN (network.md 8).
func (l *lowering) l2Normalize(n *graph.Node) (step, error) {
	return l.rowsWith(n, func(dst, src []float32, _ [][]float32) { vec.L2Normalize(dst, src, 0) })
}

// softmax over the last axis is a row; the sum is divided out afterwards.
func (l *lowering) softmax(n *graph.Node, o graph.Softmax) (step, error) {
	axis, last := o.Axis, len(n.Shape)-1
	if axis < 0 {
		axis += len(n.Shape)
	}
	if axis == last {
		return l.rowsWith(n, func(dst, src []float32, _ [][]float32) {
			sum := vec.SoftmaxExp(dst, src, 1)
			vec.Scale(dst, dst, 1/sum)
		})
	}
	s := &columnSoftmax{overTiles: l.from(n), n: n.Shape[axis], inner: n.Shape[axis+1 : last].Numel()}
	s.tiles, s.fn = s.src.rows/s.n, s.column
	return s, nil
}

// columnSoftmax is a softmax over an axis that is not the last: the rows that
// belong together lie inner rows apart, and a column of them is normalised.
type columnSoftmax struct {
	overTiles
	n, inner int
}

func (s *columnSoftmax) column(_, t int) {
	first := t/s.inner*s.n*s.inner + t%s.inner
	for c := range s.src.c {
		top := math.Inf(-1)
		for i := range s.n {
			top = math.Max(top, float64(s.src.row(s.x, first+i*s.inner)[c]))
		}
		sum := 0.0
		for i := range s.n {
			sum += math.Exp(float64(s.src.row(s.x, first+i*s.inner)[c]) - top)
		}
		for i := range s.n {
			r := first + i*s.inner
			s.dst.row(s.y, r)[c] = float32(math.Exp(float64(s.src.row(s.x, r)[c])-top) / sum)
		}
	}
}

// pointStrip is the number of vectors whose lengths are handled together: a
// point has three elements, too few for a kernel of its own.
const pointStrip = 256

// pointsStep is graph.ExpPoints. expm1 and not exp-1: for points close to the
// camera the difference would be all rounding (network.md 18).
type pointsStep struct {
	overTiles
	t tiling
}

func (l *lowering) expPoints(n *graph.Node) (step, error) {
	s := &pointsStep{overTiles: l.from(n)}
	s.t = newTiling(s.src.rows, s.src.c)
	l.needScratch(l.b.pool.Threads() * 2 * pointStrip * 4)
	s.tiles, s.fn = s.t.tiles, s.tile
	return s, nil
}

// tile writes p/max(d, 1e-8) * (e^d - 1) with d = |p| (network.md 8). The
// exponential is taken of a strip of lengths at once.
func (s *pointsStep) tile(w, t int) {
	from, to := s.t.span(t)
	mem := floats(s.e.scratch)[w*2*pointStrip:][:2*pointStrip]
	for r := from; r < to; r += pointStrip {
		k := min(pointStrip, to-r)
		d, g := mem[:k], mem[pointStrip:][:k]
		for i := range k {
			sum := 0.0
			for _, v := range s.src.row(s.x, r+i) {
				sum += float64(v) * float64(v)
			}
			d[i] = float32(math.Sqrt(sum))
		}
		vec.Expm1(g, d)
		for i := range k {
			f := g[i]
			l := max(d[i], 1e-8)
			out := s.dst.row(s.y, r+i)
			for j, v := range s.src.row(s.x, r+i) {
				out[j] = v / l * f
			}
		}
	}
}
