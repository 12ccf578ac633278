// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// step makes the step of one node: each family is asked in turn, and returns
// neither a step nor an error for an operation that is none of its own.
//
// Operations that only move elements work on any element type. Those that
// compute do so in float32; another type, which a whitening matrix in float64
// may bring, goes to the reference interpreter rather than being rounded behind
// the graph's back.
func (l *lowering) step(n *graph.Node) (step, error) {
	families := []func(*graph.Node) (step, error){l.moves, l.gradients}
	if l.allF32(n) {
		families = append(families, l.elementwise, l.products, l.norms, l.maps, l.reductions)
	} else {
		families = append(families, l.reference)
	}
	for _, family := range families {
		if s, err := family(n); s != nil || err != nil {
			return s, err
		}
	}
	return nil, fmt.Errorf("operation %T: %w", n.Op, ErrUnsupported)
}

// allF32 reports whether a node computes in float32: its activations are, and
// its result is a float32 or an index. The storage type of a Param does not
// count: a checkpoint in float16 says nothing about the arithmetic, and its
// values are widened exactly (or packed as they are).
func (l *lowering) allF32(n *graph.Node) bool {
	for _, x := range n.In {
		if _, ok := x.Op.(graph.Param); ok {
			if !x.DType.Float() {
				return false
			}
			continue
		}
		if x.DType != tensor.F32 {
			return false
		}
	}
	return n.DType == tensor.F32 || n.DType == tensor.I32
}

// grain is about how many elements a tile of elementwise work has. Handing out a
// tile costs well under a microsecond and 16 Ki elements take 2 to 20, so that
// the cost vanishes; the 64 KiB they occupy pass through the second-level cache.
//
// What another core has just written comes from its cache at some 10 GB/s. So a tensor of
// more than that, but not of many times as much, is cut into eight parts, though they are too
// small to pay by their arithmetic.
const (
	grain      = 16 << 10
	leastGrain = 4 << 10
	parts      = 8
)

// tiling cuts n units, rows or elements, into tiles of per units. It depends on
// the shapes alone and never on the number of threads.
type tiling struct{ n, per, tiles int }

// newTiling makes tiles of about grain elements, or of one unit that has more.
func newTiling(n, elements int) tiling {
	elements = max(1, elements)
	per := grain
	if n*elements > grain {
		per = min(grain, max(leastGrain, n*elements/parts))
	}
	per = max(1, per/elements)
	return tiling{n: n, per: per, tiles: (n + per - 1) / per}
}

// overTiles is the common part of the steps that compute one float32 value from
// another, tile by tile.
//
// Like every step it keeps what one run needs in fields (e, x, y), and the
// method that does a tile as a ready function value (fn): a closure made in run
// would be an allocation for every step of every run.
type overTiles struct {
	src, dst view
	tiles    int
	fn       func(w, t int) // w is the worker, whose scratch is its own
	e        *exec
	x, y     []float32 // the memory of src and dst
}

// from makes the operand and the result of node n.
func (l *lowering) from(n *graph.Node) overTiles {
	s := overTiles{src: l.operand(n.In[0])}
	s.dst = l.result(n)
	return s
}

func (s *overTiles) run(e *exec) error {
	s.e, s.x, s.y = e, e.f32(s.src), e.f32(s.dst)
	e.pool.Run(s.tiles, s.fn)
	return nil
}

// span is the range of units in tile i.
func (t tiling) span(i int) (from, to int) { return i * t.per, min(t.n, (i+1)*t.per) }
