// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// taps are the source positions of each output position of one axis, with
// their weights: k per output.
type taps struct {
	k  int
	at []int
	w  []float32
}

// newTaps is the coordinate rule of graph.Resize2D for n -> m.
func newTaps(o graph.Resize2D, n, m int, scale float64) taps {
	t := taps{k: map[graph.ResizeMode]int{graph.Nearest: 1, graph.Bilinear: 2, graph.Bicubic: 4}[o.Mode]}
	for i := range m {
		if o.Mode == graph.Nearest {
			t.at, t.w = append(t.at, min(i*n/m, n-1)), append(t.w, 1)
			continue
		}
		r := source(o, i, n, m, scale)
		first, w := math.Floor(r), []float64{1, 0}
		f := r - first
		if o.Mode == graph.Bilinear {
			w = []float64{1 - f, f}
		} else {
			w = []float64{cubicFar(1 + f), cubicNear(f), cubicNear(1 - f), cubicFar(2 - f)}
			first--
		}
		for j, v := range w {
			t.at = append(t.at, min(max(int(first)+j, 0), n-1))
			t.w = append(t.w, float32(v))
		}
	}
	return t
}

// source is the coordinate in the source of output i on an axis n -> m.
func source(o graph.Resize2D, i, n, m int, scale float64) float64 {
	if o.AlignCorners {
		if m == 1 {
			return 0
		}
		return float64(i) * float64(n-1) / float64(m-1)
	}
	if scale == 0 {
		scale = float64(n) / float64(m)
	}
	r := (float64(i)+0.5)*scale - 0.5
	if o.Mode == graph.Bilinear {
		r = max(r, 0)
	}
	// A huge scale must not overflow the index; taps are clamped to the edge.
	return min(r, float64(n+1))
}

// cubicNear and cubicFar are the convolution kernel with a = -0.75 for |x| < 1
// and 1 <= |x| < 2.
const cubicA = -0.75

func cubicNear(x float64) float64 { return ((cubicA+2)*x-(cubicA+3))*x*x + 1 }
func cubicFar(x float64) float64  { return ((cubicA*x-5*cubicA)*x+8*cubicA)*x - 4*cubicA }

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
		for i := range k {
			for j := range k {
				in := s.src.row(s.x, (t/oh*h+t%oh*s.o.Stride+i)*w+ox*s.o.Stride+j)
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
			vec.Scale(out, out, 1/float32(k*k))
		}
	}
}
