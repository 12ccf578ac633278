// SPDX-License-Identifier: Apache-2.0

package mast3r

import (
	"errors"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
)

// Model is a set of weights whose every tensor has been found and has the
// right shape.
type Model struct {
	Dims
	// Parameters counts the numbers that are used.
	Parameters int64
	set        *weights.Set
	// Tap, when set, is shown the intermediate values of the graphs.
	Tap vit.Tap
}

// Open reads the dimensions and checks every tensor by building each part once
// for the smallest picture. The error names all tensors that are missing or
// misshapen. The set stays the caller's to close.
func Open(s *weights.Set) (*Model, error) {
	d, err := derive(s)
	if err != nil {
		return nil, errors.Join(err, s.Report().Err())
	}
	m := &Model{Dims: d, set: s}
	p := d.Patch
	m.Parameters, err = vit.Check(s, d.Variant,
		func() (*graph.Graph, error) { return m.Encoder(1, p, p) },
		func() (*graph.Graph, error) {
			return m.Decoder(1, vit.Grid{Rows: 1, Cols: 1}, vit.Grid{Rows: 1, Cols: 1})
		},
		func() (*graph.Graph, error) { return m.Head(1, 1, p, p, AllOutputs) },
		func() (*graph.Graph, error) { return m.Head(2, 1, p, p, AllOutputs) },
	)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Facts are what an engine asks about a network of any family.
func (m *Model) Facts() vit.Facts {
	return vit.Facts{
		Family: string(m.Arch), Variant: m.Variant, Patch: m.Patch, Resolution: m.Resolution,
		EncDim: m.EncDim, EncDepth: m.EncDepth, EncHeads: m.EncHeads,
		DecDim: m.DecDim, DecDepth: m.DecDepth, DecHeads: m.DecHeads,
		DescDim: m.DescDim, Parameters: m.Parameters,
	}
}

// Metadata are the file's free-form strings.
func (m *Model) Metadata() map[string]string { return m.set.Metadata() }

// Report tells what was in the files and not used.
func (m *Model) Report() weights.Report { return m.set.Report() }

// GridOf is the grid of a picture of network size.
func (m *Model) GridOf(height, width int) vit.Grid {
	return vit.Grid{Rows: height / m.Patch, Cols: width / m.Patch}
}

// builder adds the parts of this family to one graph.
type builder struct {
	*vit.Builder
	m *Model
}

func (m *Model) builder(name string) *builder {
	return &builder{Builder: vit.NewBuilder(name, m.set, m.Tap), m: m}
}

// rope turns q and k by a rope, for blocks and attention.
func (b *builder) rope(heads int, r graph.Rope) func(*graph.Node, string) *graph.Node {
	return func(x *graph.Node, _ string) *graph.Node { return b.RoPE(x, heads, r) }
}
