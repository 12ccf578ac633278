// SPDX-License-Identifier: Apache-2.0

package da3

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
}

// Lead are the rows of a picture's features before its patches: the class token
// by which the reference view is chosen, and the class token.
const Lead = 2

// Open reads the dimensions and checks every tensor by building each part once
// for the smallest pictures. The error names all tensors that are missing or
// misshapen. The set stays the caller's to close.
func Open(s *weights.Set) (*Model, error) {
	d, err := derive(s)
	if err != nil {
		return nil, errors.Join(err, s.Report().Err())
	}
	m := &Model{Dims: d, set: s}
	p, one := d.Patch, vit.Grid{Rows: 1, Cols: 1}
	views := 1
	parts := []func() (*graph.Graph, error){
		func() (*graph.Graph, error) { return m.Encoder(1, p, p) },
		func() (*graph.Graph, error) { return m.Trunk(views, one, false) },
		func() (*graph.Graph, error) { return m.Head(p, p, m.Outputs()) },
	}
	if d.Views {
		views = 2
		parts = append(parts, func() (*graph.Graph, error) { return m.Camera(1) })
	}
	if d.Given {
		parts = append(parts, func() (*graph.Graph, error) { return m.Tokens(1) })
	}
	if m.Parameters, err = vit.Check(s, d.Variant, parts...); err != nil {
		return nil, err
	}
	return m, nil
}

// Facts are what an engine asks about a network of any family.
func (m *Model) Facts() vit.Facts {
	return vit.Facts{
		Family: "da3", Variant: m.Variant, Patch: m.Patch, Resolution: m.Resolution, Lead: Lead,
		EncDim: m.Dim, EncDepth: m.Start, EncHeads: m.Heads,
		DecDim: m.Dim, DecDepth: m.Depth - m.Start, DecHeads: m.Heads,
		Parameters: m.Parameters,
	}
}

// Outputs is a set of what a head may compute.
type Outputs uint8

// The outputs of a head. Depth and Conf come from one branch, Rays and RayConf
// from a second, and Sky, which networks of one view have, from a third.
const (
	Depth Outputs = 1 << iota
	Conf
	Rays
	RayConf
	Sky
)

// Outputs are those that this network has.
func (m *Model) Outputs() Outputs {
	switch {
	case !m.Views:
		return Depth | Sky
	case m.Rays:
		return Depth | Conf | Rays | RayConf
	}
	return Depth | Conf
}

// Metadata are the file's free-form strings.
func (m *Model) Metadata() map[string]string { return m.set.Metadata() }

// Report tells what was in the files and not used.
func (m *Model) Report() weights.Report { return m.set.Report() }

// builder adds the parts of this family to one graph.
type builder struct {
	*vit.Builder
	m *Model
}

func (m *Model) builder(name string) *builder {
	return &builder{Builder: vit.NewBuilder(name, m.set, nil), m: m}
}

// block is block i of the backbone.
func (b *builder) block(x *graph.Node, i int, turn func(*graph.Node, string) *graph.Node) *graph.Node {
	return b.Block(x, blockName(i), vit.Block{Heads: b.m.Heads, Eps: blockEps, Scale: true, Gated: b.m.Gated, Turn: turn}, "")
}
