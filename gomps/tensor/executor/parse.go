// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// maxNodes bounds a graph that comes as text: sorting it needs a frame for each.
const maxNodes = 1 << 16

// ParseGraph makes a graph of its JSON form, which other languages use:
//
//	{"nodes": [{"name": "h", "op": "MatMul", "operands": ["x", "w"]},
//	           {"name": "y", "op": "LayerNorm", "operands": ["h", "g", "b"], "eps": 1e-5}],
//	 "outputs": ["y"], "optimize": true}
//
// eps and scale are those of Op; optimize is a call of Optimize. An unknown key is an error.
func ParseGraph(text []byte) (*Graph, error) {
	var form struct {
		Nodes []struct {
			Name       string
			Op         OpKind
			Operands   []string
			Eps, Scale float32
		}
		Outputs  []string
		Optimize bool
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&form); err != nil {
		return nil, refuse(tensor.ErrOption, "the graph's JSON: %w", err)
	}
	if d.More() {
		return nil, refuse(tensor.ErrOption, "the graph's JSON goes on after its end")
	}
	if len(form.Nodes) > maxNodes {
		return nil, refuse(tensor.ErrOption, "a graph of %d nodes, want at most %d", len(form.Nodes), maxNodes)
	}
	g := NewGraph()
	for _, n := range form.Nodes {
		if err := g.AddNode(n.Name, Op{Kind: n.Op, Eps: n.Eps, Scale: n.Scale}, n.Operands...); err != nil {
			return nil, err
		}
	}
	for _, name := range form.Outputs {
		if err := g.SetOutput(name); err != nil {
			return nil, err
		}
	}
	if form.Optimize {
		return g.Optimize()
	}
	return g, nil
}

// Outputs are the names that SetOutput was given, in its order.
func (g *Graph) Outputs() []string { return slices.Clone(g.outputs) }

// Check refuses thresholds of operations that there are not, and negative ones.
func (t Thresholds) Check() error {
	for kind, least := range t {
		if _, ok := operandCount[kind]; !ok {
			return refuse(tensor.ErrOption, "a threshold of operation %q", kind)
		}
		if least < 0 {
			return refuse(tensor.ErrOption, "the threshold of %s is %d, want at least 0", kind, least)
		}
	}
	return nil
}
