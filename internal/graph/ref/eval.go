// SPDX-License-Identifier: Apache-2.0

package ref

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// Run evaluates g on inputs given in the order of g.Inputs and returns the
// outputs in the order of g.Outputs.
func Run(g *graph.Graph, inputs []Tensor) ([]Tensor, error) {
	if len(inputs) != len(g.Inputs) {
		return nil, fmt.Errorf("ref: graph %q: got %d inputs, want %d", g.Name, len(inputs), len(g.Inputs))
	}
	values := make([]Tensor, len(g.Nodes))
	for i, n := range g.Inputs {
		if !inputs[i].Shape.Equal(n.Shape) {
			return nil, fmt.Errorf("ref: graph %q: input %d is %v, want %v", g.Name, i, inputs[i].Shape, n.Shape)
		}
		values[n.ID] = inputs[i]
	}
	last := g.LastUse()
	for _, n := range g.Nodes {
		if _, ok := n.Op.(graph.Input); ok {
			continue
		}
		in := make([]Tensor, len(n.In))
		for i, x := range n.In {
			in[i] = values[x.ID]
		}
		v, err := Eval(n, in)
		if err != nil {
			return nil, fmt.Errorf("ref: graph %q: %%%d: %w", g.Name, n.ID, err)
		}
		values[n.ID] = v
		for _, x := range n.In {
			if last[x.ID] == n.ID {
				values[x.ID].Data = nil
			}
		}
	}
	out := make([]Tensor, len(g.Outputs))
	for i, o := range g.Outputs {
		out[i] = values[o.Node.ID]
	}
	return out, nil
}

// Eval applies one operation.
func Eval(n *graph.Node, in []Tensor) (Tensor, error) {
	out := Tensor{Shape: n.Shape}
	switch o := n.Op.(type) {
	case graph.Param:
		return Decode(o.DType, o.Shape, o.Data)
	case graph.Reshape:
		out.Data = in[0].Data
		return out, nil
	case graph.Cast:
		return cast(in[0], o.To)
	}
	out.Data = make([]float64, n.Numel())
	for _, family := range families {
		if ok, err := family(n.Op, in, out); ok {
			return out, err
		}
	}
	return out, fmt.Errorf("unknown operation %s (%T)", n.Op.Kind(), n.Op)
}

// families evaluate the operations of the files op_*.go of package graph: they fill
// out, or say that an operation is none of theirs.
var families = []func(op graph.Op, in []Tensor, out Tensor) (bool, error){elementwise, shapes, products, norms, maps, mapGradients, reductions}
