// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// narrowConv is a 1x1 convolution to at most four channels: points and their
// confidence from the features of each pixel. Products in panels of 32 columns would
// multiply eight times as often; this form takes as long as reading the map.
type narrowConv struct {
	overTiles
	t     tiling
	w     []float32 // four rows, those that are not there zero
	bias  [4]float32
	b     view
	floor float32 // 0 for a ReLU of the input, else -Inf
}

// narrow lowers a convolution that qualifies; nil says that it does not.
func (l *lowering) narrow(n *graph.Node, o graph.Conv2D) step {
	w := n.In[1].Shape
	out, in := w[0], w[1]
	p, ok := n.In[1].Op.(graph.Param)
	if !ok || w[2]*w[3] != 1 || out > 4 || o.Stride != 1 || o.Pad != 0 || o.Groups != 1 || o.Residual || o.Act != graph.ActNone {
		return nil
	}
	s := &narrowConv{w: make([]float32, 4*in), floor: float32(math.Inf(-1))}
	copy(s.w, decodeF32(p.DType, p.Data))
	if o.PreRelu {
		s.floor = 0
	}
	s.b = l.operands(n.In[2:], o.Bias)[0]
	s.overTiles = l.from(n)
	s.t = newTiling(s.src.rows, in)
	s.tiles, s.fn = s.t.tiles, s.rows
	return s
}

func (s *narrowConv) run(e *exec) error {
	if s.b.c > 0 {
		copy(s.bias[:], e.f32(s.b))
	}
	return s.overTiles.run(e)
}

func (s *narrowConv) rows(_, t int) {
	var y [4]float32
	for r, to := s.t.span(t); r < to; r++ {
		vec.Narrow(&y, s.src.row(s.x, r), s.w, &s.bias, s.floor)
		copy(s.dst.row(s.y, r), y[:])
	}
}
