// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// The gradients of a convolution are products with its patches: with the matrix
// P of one row per output pixel and one column per channel and kernel position,
//
//	y = P W^T      gW = gy^T P      gP = gy W, and gx is gP added back.
//
// P is made for some output pixels at a time, in memory of the step's own.

// patchBytes bounds the part of P that is in memory at once; a variable for the
// tests, which have small maps.
var patchBytes = 4 << 20

// geometry relates output pixels to input pixels. Pixels count over the batch.
type geometry struct {
	stride, pad, dilation, groups int
	h, wd, oh, ow, kh, kw         int
	icg, ocg                      int // channels of a group
	pixels                        int // of the output
	chunk                         int // output pixels whose patches are in memory
}

func newGeometry(o graph.Conv2D, x, w, y tensor.Shape) geometry {
	g := geometry{stride: o.Stride, pad: o.Pad, dilation: o.Dilation, groups: o.Groups,
		h: x[1], wd: x[2], oh: y[1], ow: y[2], kh: w[2], kw: w[3],
		icg: w[1], ocg: w[0] / o.Groups, pixels: y[0] * y[1] * y[2]}
	// Whole rows, so that a row of gx knows the patches that it is in.
	rows := max(1, patchBytes/4/max(1, g.columns()*g.ow))
	g.chunk = min(rows, y[0]*y[1]) * g.ow
	return g
}

// columns of P, for one group.
func (g *geometry) columns() int { return g.icg * g.kh * g.kw }

// convGradWeightStep is gW = gy^T P, summed over chunks of pixels.
type convGradWeightStep struct {
	geometry
	x, gy, dst view
	mm         gemm.MatMul
	cols       []float32   // P: chunk x columns
	patches    gemm.Source // of cols
	turned     []float32   // gy^T: ocg x chunk
	sum        []float32   // ocg x columns

	xd, gd       []float32
	first, count int // pixels of the chunk
	group        int
	fn           func(w, t int)
	turn         func(w, t int)
}

func (l *lowering) convGradWeight(n *graph.Node, o graph.ConvGradWeight) (step, error) {
	x, gy := n.In[0], n.In[1]
	conv := graph.Conv2D{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups}
	s := &convGradWeightStep{geometry: newGeometry(conv, x.Shape, n.Shape, gy.Shape), x: l.operand(x), gy: l.operand(gy)}
	if s.pixels == 0 || s.columns() == 0 || s.ocg == 0 {
		return l.reference(n)
	}
	s.dst = l.denseResult(n)
	layout, err := gemm.Layout(tensor.F32, s.columns(), s.chunk, 1)
	if err != nil {
		return nil, err
	}
	s.cols = make([]float32, s.chunk*s.columns())
	s.patches = gemm.Columns(gemm.Bytes(s.cols), tensor.F32, s.columns())
	s.turned = make([]float32, s.ocg*s.chunk)
	s.sum = make([]float32, s.ocg*s.columns())
	s.mm = gemm.MatMul{M: s.ocg, A: s.turned, LDA: s.chunk, W: layout, Fresh: &s.patches, C: s.sum, LDC: s.columns()}
	l.needScratch(s.mm.ScratchBytes(l.b.pool.Threads()))
	s.fn, s.turn = s.patch, s.transpose
	return s, nil
}

func (s *convGradWeightStep) run(e *exec) error {
	s.xd, s.gd = e.f32(s.x), e.f32(s.gy)
	y := e.f32(s.dst)
	clear(y)
	s.mm.Scratch = e.scratch
	for s.group = range s.groups {
		part := y[s.group*len(s.sum):][:len(s.sum)]
		for s.first = 0; s.first < s.pixels; s.first += s.chunk {
			s.count = min(s.chunk, s.pixels-s.first)
			// What a last, shorter chunk leaves of the one before must not count.
			clear(s.cols[s.count*s.columns():])
			e.pool.Run(s.count/s.ow, s.fn)
			e.pool.Run(s.ocg, s.turn)
			s.mm.Run(e.pool)
			vec.Add(part, part, s.sum)
		}
	}
	return nil
}

// patch fills the patches of one row of output pixels, columns ordered as the
// weights are: channel, kernel row, kernel column.
func (s *convGradWeightStep) patch(_, t int) {
	row := s.first/s.ow + t // over the batch
	b, oy := row/s.oh, row%s.oh
	taps := s.kh * s.kw
	for ox := range s.ow {
		out := s.cols[(t*s.ow+ox)*s.columns():][:s.columns()]
		for k := range taps {
			y, x := oy*s.stride+k/s.kw*s.dilation-s.pad, ox*s.stride+k%s.kw*s.dilation-s.pad
			if y < 0 || y >= s.h || x < 0 || x >= s.wd {
				for c := range s.icg {
					out[c*taps+k] = 0
				}
				continue
			}
			for c, v := range s.x.row(s.xd, (b*s.h+y)*s.wd+x)[s.group*s.icg:][:s.icg] {
				out[c*taps+k] = v
			}
		}
	}
}

// transpose makes one row of gy^T.
func (s *convGradWeightStep) transpose(_, o int) {
	out := s.turned[o*s.chunk:][:s.chunk]
	clear(out[s.count:])
	for i := range s.count {
		out[i] = s.gd[(s.first+i)*s.gy.ld+s.group*s.ocg+o]
	}
}

// convGradInputStep is gP = gy W, whose rows are added to the pixels that they
// came from.
type convGradInputStep struct {
	geometry
	gy, dst view
	w       []factor // of each group
	mm      gemm.MatMul
	cols    []float32 // gP: chunk x columns

	yd           []float32
	first, count int
	group        int
	fn           func(w, t int)
}

func (l *lowering) convGradInput(n *graph.Node, o graph.ConvGradInput) (step, error) {
	gy, w := n.In[0], n.In[1]
	conv := graph.Conv2D{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups}
	s := &convGradInputStep{geometry: newGeometry(conv, n.Shape, w.Shape, gy.Shape), gy: l.operand(gy)}
	if s.pixels == 0 || s.columns() == 0 || s.ocg == 0 || !isParam(w) && !l.operand(w).dense() {
		return l.reference(n)
	}
	for g := range s.groups {
		// Row n of the factor is a column of P, k an output channel.
		src := gemm.Source{StrideN: 1, StrideC: s.columns()}
		f, err := l.factorOf(w, src, s.columns(), s.ocg, g*s.ocg*s.columns(), lowerOptions{})
		if err != nil {
			return nil, err
		}
		s.w = append(s.w, f)
	}
	s.dst = l.result(n)
	s.cols = make([]float32, s.chunk*s.columns())
	s.mm = gemm.MatMul{LDA: s.gy.ld, C: s.cols, LDC: s.columns(), W: s.w[0].packed}
	for _, m := range []int{s.chunk, s.pixels % s.chunk} {
		s.mm.M = m
		l.needScratch(s.mm.ScratchBytes(l.b.pool.Threads()))
	}
	s.fn = s.line
	return s, nil
}

func (s *convGradInputStep) run(e *exec) error {
	gd := e.f32(s.gy)
	s.yd = e.f32(s.dst)
	for r := range s.dst.rows {
		clear(s.dst.row(s.yd, r))
	}
	s.mm.Scratch = e.scratch
	for s.group = range s.groups {
		if err := s.w[s.group].ready(e); err != nil {
			return err
		}
		s.mm.W = s.w[s.group].packed
		for s.first = 0; s.first < s.pixels; s.first += s.chunk {
			s.count = min(s.chunk, s.pixels-s.first)
			s.mm.M, s.mm.A = s.count, gd[s.first*s.gy.ld+s.group*s.ocg:]
			s.mm.Run(e.pool)
			e.pool.Run(s.dst.shape[0]*s.h, s.fn)
		}
	}
	return nil
}

// line collects one row of input pixels: from every kernel row, the output row
// that read it, if its patches are in memory.
func (s *convGradInputStep) line(_, t int) {
	b, y := t/s.h, t%s.h
	taps := s.kh * s.kw
	for i := range s.kh {
		oy := y + s.pad - i*s.dilation
		if oy < 0 || oy%s.stride != 0 || oy/s.stride >= s.oh {
			continue
		}
		at := (b*s.oh+oy/s.stride)*s.ow - s.first
		if at < 0 || at >= s.count {
			continue
		}
		for ox := range s.ow {
			row := s.cols[(at+ox)*s.columns():][:s.columns()]
			for j := range s.kw {
				x := ox*s.stride + j*s.dilation - s.pad
				if x < 0 || x >= s.wd {
					continue
				}
				out := s.dst.row(s.yd, t*s.wd+x)[s.group*s.icg:][:s.icg]
				for c := range out {
					out[c] += row[c*taps+i*s.kw+j]
				}
			}
		}
	}
}
