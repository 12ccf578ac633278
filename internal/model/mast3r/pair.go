// SPDX-License-Identifier: Apache-2.0

package mast3r

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Pair is the whole network for one pair of pictures as one graph, for export
// and for counting work. The engine runs the parts.
//
// Inputs: image1 u8 [1,H1,W1,3], image2. Outputs: points1, conf1, desc1,
// desc_conf1, then view 2's.
func (m *Model) Pair(h1, w1, h2, w2 int) (*graph.Graph, error) {
	g := graph.New("pair")
	images := [2]*graph.Node{g.Input("image1", tensor.U8, 1, h1, w1, 3), g.Input("image2", tensor.U8, 1, h2, w2, 3)}
	var feat [2]*graph.Node
	if h1 == h2 && w1 == w2 {
		enc, err := m.Encoder(2, h1, w1)
		if err != nil {
			return nil, err
		}
		copy(feat[:], g.Inline(enc, images[:]...))
	} else {
		for i, s := range [2][2]int{{h1, w1}, {h2, w2}} {
			enc, err := m.Encoder(1, s[0], s[1])
			if err != nil {
				return nil, err
			}
			feat[i] = g.Inline(enc, images[i])[0]
		}
	}
	dec, err := m.Decoder(1, m.GridOf(h1, w1), m.GridOf(h2, w2))
	if err != nil {
		return nil, err
	}
	hooks := g.Inline(dec, feat[:]...)
	for v, s := range [2][2]int{{h1, w1}, {h2, w2}} {
		head, err := m.Head(v+1, 1, s[0], s[1], AllOutputs)
		if err != nil {
			return nil, err
		}
		in := append([]*graph.Node{feat[v]}, hooks[3*v:3*v+3]...)
		for i, n := range g.Inline(head, in...) {
			g.Output(fmt.Sprintf("%s%d", head.Outputs[i].Name, v+1), n)
		}
	}
	return g.Build()
}
