// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// narrow is a 1x1 convolution to at most four channels: points and their confidence
// from the features of each pixel. Products in panels of 32 columns would multiply
// eight times as often; this form takes as long as reading the map.
type narrow struct {
	w     []float32 // four rows, those that are not there zero
	bias  [4]float32
	b     view
	floor float32 // 0 for a ReLU of the input, else -Inf
}

// narrow is the operation of a node that qualifies; nil says that it does not.
func (l *lowering) narrow(n *graph.Node) *narrow {
	o, ok := n.Op.(graph.Conv2D)
	if !ok {
		return nil
	}
	w := n.In[1].Shape
	out, in := w[0], w[1]
	p, ok := n.In[1].Op.(graph.Param)
	if !ok || w[2]*w[3] != 1 || out > 4 || o.Stride != 1 || o.Pad != 0 || o.Groups != 1 || o.Residual || o.Act != graph.ActNone {
		return nil
	}
	for _, x := range n.In[2:] {
		if _, ok := x.Op.(graph.Param); !ok && !l.known[x.ID] {
			return nil // made later than the step that would take this node along
		}
	}
	s := &narrow{w: make([]float32, 4*in), floor: float32(math.Inf(-1))}
	copy(s.w, decodeF32(p.DType, p.Data))
	if o.PreRelu {
		s.floor = 0
	}
	s.b = l.operands(n.In[2:], o.Bias)[0]
	return s
}

func (s *narrow) begin(e *exec) {
	if s.b.c > 0 {
		copy(s.bias[:], e.f32(s.b))
	}
}

// pixel writes the channels of one pixel, x its features.
func (s *narrow) pixel(to, x []float32) {
	var y [4]float32
	vec.Narrow(&y, x, s.w, &s.bias, s.floor)
	copy(to, y[:])
}

// narrowConv is narrow over a map.
type narrowConv struct {
	overTiles
	narrow *narrow
	t      tiling
}

// narrowConv lowers a convolution that qualifies; nil says that it does not.
func (l *lowering) narrowConv(n *graph.Node) step {
	op := l.narrow(n)
	if op == nil {
		return nil
	}
	s := &narrowConv{narrow: op, overTiles: l.from(n)}
	s.t = newTiling(s.src.rows, s.src.c)
	s.tiles, s.fn = s.t.tiles, s.rows
	return s
}

func (s *narrowConv) run(e *exec) error {
	s.narrow.begin(e)
	return s.overTiles.run(e)
}

func (s *narrowConv) rows(_, t int) {
	for r, to := s.t.span(t); r < to; r++ {
		s.narrow.pixel(s.dst.row(s.y, r), s.src.row(s.x, r))
	}
}
