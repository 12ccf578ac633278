// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// taps are the source positions of each output position of one axis, with
// their weights: k per output.
type taps struct {
	k  int
	at []int
	w  []float32
}

// newTaps is the table of graph.Resize2D.Taps, flat.
func newTaps(o graph.Resize2D, n, m int, scale float64) taps {
	t := taps{k: map[graph.ResizeMode]int{graph.Nearest: 1, graph.Bilinear: 2, graph.Bicubic: 4}[o.Mode]}
	for _, output := range o.Taps(n, m, scale) {
		for _, tap := range output {
			t.at, t.w = append(t.at, tap.At), append(t.w, float32(tap.Weight))
		}
	}
	return t
}

// resizeStep resamples a map; a tile is one output line. Weights and positions of
// both axes are tables, made once: what remains for a pixel is one kernel call
// over its channels.
type resizeStep struct {
	overTiles
	mode   graph.ResizeMode
	ty, tx taps
}

func (l *lowering) resize2d(n *graph.Node, o graph.Resize2D) (step, error) {
	in := n.In[0].Shape
	if o.Mode > graph.Bicubic {
		return nil, fmt.Errorf("interpolation %v: %w", o.Mode, ErrUnsupported)
	}
	s := &resizeStep{overTiles: l.from(n), mode: o.Mode, ty: newTaps(o, in[1], o.H, o.ScaleH), tx: newTaps(o, in[2], o.W, o.ScaleW)}
	s.tiles, s.fn = n.Shape[0]*n.Shape[1], s.line
	return s, nil
}

// line computes one output line. Nearest copies; bilinear weights of 0 are exact,
// so that a map resampled to its own size comes back bit for bit.
func (s *resizeStep) line(_, t int) {
	h, w := s.src.shape[1], s.src.shape[2]
	m := s.dst.shape[2]
	b, oy := t/s.dst.shape[1], t%s.dst.shape[1]
	ky, kx := s.ty.k, s.tx.k
	for ox := range m {
		out := s.dst.row(s.y, t*m+ox)
		at := func(i, j int) []float32 {
			return s.src.row(s.x, (b*h+s.ty.at[oy*ky+i])*w+s.tx.at[ox*kx+j])
		}
		switch s.mode {
		case graph.Nearest:
			copy(out, at(0, 0))
		case graph.Bilinear:
			vec.Lerp4(out, at(0, 0), at(0, 1), at(1, 0), at(1, 1), s.tx.w[ox*2+1], s.ty.w[oy*2+1])
		default:
			clear(out)
			for i := range ky {
				for j := range kx {
					vec.Axpy(out, at(i, j), s.ty.w[oy*ky+i]*s.tx.w[ox*kx+j])
				}
			}
		}
	}
}

// poolStep is max or average pooling; a tile is one output line. A maximum keeps
// NaN, as the reference does.
type poolStep struct {
	overTiles
	o graph.Pool2D
}

func (l *lowering) pool2d(n *graph.Node, o graph.Pool2D) (step, error) {
	s := &poolStep{overTiles: l.from(n), o: o}
	s.tiles, s.fn = n.Shape[0]*n.Shape[1], s.line
	return s, nil
}

func (s *poolStep) line(_, t int) {
	h, w := s.src.shape[1], s.src.shape[2]
	oh, ow := s.dst.shape[1], s.dst.shape[2]
	k := s.o.Kernel
	for ox := range ow {
		out := s.dst.row(s.y, t*ow+ox)
		for i := range k[0] {
			for j := range k[1] {
				in := s.src.row(s.x, (t/oh*h+t%oh*s.o.Stride[0]+i)*w+ox*s.o.Stride[1]+j)
				switch {
				case i+j == 0:
					copy(out, in)
				case s.o.Average:
					vec.Add(out, out, in)
				default:
					for c, v := range in {
						out[c] = max(out[c], v)
					}
				}
			}
		}
		if s.o.Average {
			vec.Scale(out, out, 1/float32(k[0]*k[1]))
		}
	}
}
