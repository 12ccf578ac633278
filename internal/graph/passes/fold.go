// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/ref"
)

// Fold evaluates, once, what depends on Params alone: the resampled position
// table of an encoder, a sum of two constants. It uses the reference
// interpreter, so a folded value is the float64 result rounded once.
//
// Such values are small; the weights of matrix products have no work done on
// them and pass through untouched.
func Fold(g *graph.Graph) (*graph.Graph, error) {
	r := newRewriter(g)
	return r.run(func(n *graph.Node, in []*graph.Node) (*graph.Node, error) {
		if p, ok := n.Op.(graph.Param); ok {
			return r.new.Add(p), nil
		}
		if len(in) == 0 {
			return nil, nil
		}
		values := make([]ref.Tensor, len(in))
		for i, x := range in {
			p, ok := x.Op.(graph.Param)
			if !ok {
				return nil, nil
			}
			v, err := ref.Decode(p.DType, p.Shape, p.Data)
			if err != nil {
				return nil, err
			}
			values[i] = v
		}
		v, err := ref.Eval(n, values)
		if err != nil {
			return nil, err
		}
		data, err := v.Encode(n.DType)
		if err != nil {
			return nil, err
		}
		return r.new.Add(graph.Param{Shape: n.Shape, DType: n.DType, Data: data}), nil
	})
}
