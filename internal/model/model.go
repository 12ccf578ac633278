// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/da3"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
)

// Network is what networks of all families have.
type Network interface {
	Facts() vit.Facts
	// Metadata are the file's free-form strings.
	Metadata() map[string]string
	// Report tells what was in the files and not used.
	Report() weights.Report
	// Encoder builds the graph that encodes pictures of one size. Inputs: image0,
	// image1, ... u8 [1,H,W,3]. Outputs: feat0, feat1, ... f32 [1,Lead+N,EncDim],
	// N tokens, one for each patch.
	Encoder(images, height, width int) (*graph.Graph, error)
}

// Pairwise networks reconstruct a pair; see package mast3r for the graphs.
type Pairwise interface {
	Network
	Decoder(batch int, g1, g2 vit.Grid) (*graph.Graph, error)
	Head(view, batch, height, width int, want mast3r.Outputs) (*graph.Graph, error)
	Pair(h1, w1, h2, w2 int) (*graph.Graph, error)
}

// Multiview networks reconstruct one to many pictures; see package da3 for the
// graphs.
type Multiview interface {
	Network
	// Outputs are those that Head can compute.
	Outputs() da3.Outputs
	Trunk(views int, g vit.Grid, given bool) (*graph.Graph, error)
	Camera(views int) (*graph.Graph, error)
	Tokens(views int) (*graph.Graph, error)
	Head(height, width int, want da3.Outputs) (*graph.Graph, error)
}

// families are the known ones, each with the tensors that only its files have.
var families = []struct {
	marks []string
	open  func(*weights.Set) (Network, error)
}{
	{mast3r.Marks, func(s *weights.Set) (Network, error) { return opened(mast3r.Open(s)) }},
	{da3.Marks, func(s *weights.Set) (Network, error) { return opened(da3.Open(s)) }},
}

// opened keeps a nil of a family from becoming a Network that is not nil.
func opened[N Network](n N, err error) (Network, error) {
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Open takes the network out of a set: the family by its tensors, the dimensions
// by their shapes. The set stays the caller's to close.
func Open(s *weights.Set) (Network, error) {
	var marks []string
	for _, f := range families {
		if slices.ContainsFunc(f.marks, s.Has) {
			return f.open(s)
		}
		marks = append(marks, f.marks...)
	}
	return nil, errors.Join(vit.Unknown(s, marks), s.Report().Err())
}
