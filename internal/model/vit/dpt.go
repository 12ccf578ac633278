// SPDX-License-Identifier: Apache-2.0

package vit

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// Rescale brings hook i of a dense prediction head to its scale: 4x, 2x, 1x,
// 1/2x the token grid.
func (b *Builder) Rescale(x *graph.Node, i int, name string) *graph.Node {
	c := x.Shape[3]
	switch i {
	case 0, 1:
		k := 4 >> i
		return b.ConvTranspose2D(x, b.Weight(name+".weight", c, c, k, k), b.Weight(name+".bias", c), k)
	case 3:
		return b.ConvLayer(x, name, c, 3, 2, 1)
	}
	return x
}

// Refine is one fusion step of a dense prediction head, with the result h x w.
// The published networks upsample, then apply the 1x1 out_conv; bilinear weights
// sum to one, so the two commute, and a quarter of the products is enough
// (network.md 7.1).
func (b *Builder) Refine(x, skip *graph.Node, name string, h, w int) *graph.Node {
	if skip != nil {
		x = b.AddTo(x, b.residualUnit(skip, name+".resConfUnit1"))
	}
	x = b.residualUnit(x, name+".resConfUnit2")
	x = b.ConvLayer(x, name+".out_conv", x.Shape[3], 1, 1, 0)
	return b.Bilinear(x, h, w)
}

// residualUnit is x + conv2(relu(conv1(relu(x)))).
func (b *Builder) residualUnit(x *graph.Node, name string) *graph.Node {
	y := b.ConvLayer(b.Unary(graph.Relu, x), name+".conv1", x.Shape[3], 3, 1, 1)
	y = b.ConvLayer(b.Unary(graph.Relu, y), name+".conv2", x.Shape[3], 3, 1, 1)
	return b.AddTo(x, y)
}
