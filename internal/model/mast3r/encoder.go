// SPDX-License-Identifier: Apache-2.0

package mast3r

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Encoder builds the graph that encodes images pictures of one size at once.
//
// Inputs: image0, image1, ... u8 [1,H,W,3]. Outputs: feat0, feat1, ...
// f32 [1,N,EncDim], normalised, as the decoder and the heads read them.
//
// Each picture has a buffer of its own, so that a picture's features can be
// kept and paired with any other's.
func (m *Model) Encoder(images, height, width int) (*graph.Graph, error) {
	return m.encoder(images, height, width, tensor.U8)
}

// EncoderF32 is Encoder for inputs that are already the network's numbers,
// f32 [1,H,W,3] in [-1,1]: pictures that were never bytes.
func (m *Model) EncoderF32(images, height, width int) (*graph.Graph, error) {
	return m.encoder(images, height, width, tensor.F32)
}

func (m *Model) encoder(images, height, width int, pixel tensor.DType) (*graph.Graph, error) {
	if err := vit.CheckPictures(images, height, width, m.Patch); err != nil {
		return nil, err
	}
	b := m.builder("encoder")
	x := b.Pictures(images, height, width, pixel)
	x = b.Patches(b.pixels(x), m.names().encoder+"patch_embed.proj", m.Patch, m.EncDim)
	if m.Arch == DUNE {
		x = b.duneBlocks(x, m.GridOf(height, width))
	} else {
		x = b.mast3rBlocks(x, m.GridOf(height, width))
	}
	n := m.names()
	eps := m.NormEps
	if m.Arch == DUNE {
		// The norm between DUNE and the decoder is the decoder file's own, with
		// torch's default epsilon (network.md 10.5).
		eps = m.OuterNormEps
	}
	for i := range images {
		b.Output(fmt.Sprintf("feat%d", i), b.NormLayer(b.Picture(x, i), n.outerNorm, eps))
	}
	return b.Build()
}

// pixels is the network's number for each byte: v = (byte/255 - 0.5)/0.5 in
// float32 (network.md 3); DUNE then undoes the second step and applies the
// ImageNet statistics (network.md 10.1).
func (b *builder) pixels(f *graph.Node) *graph.Node {
	if f.DType == tensor.U8 {
		f = b.Binary(graph.Div, b.Affine(b.Bytes(f), 1, -0.5), b.Scalar(0.5))
	}
	if b.m.Arch != DUNE {
		return f
	}
	return b.ImageNet(b.Affine(f, 0.5, 0.5))
}

// mast3rBlocks is the CroCo encoder without its last norm (network.md 5).
func (b *builder) mast3rBlocks(x *graph.Node, g vit.Grid) *graph.Node {
	m := b.m
	turn := b.rope(m.EncHeads, graph.Rope{Rows: g.Rows, Cols: g.Cols, Base: m.RopeBase})
	for i := range m.EncDepth {
		x = b.Block(x, fmt.Sprintf("enc_blocks.%d", i), vit.Block{Heads: m.EncHeads, Eps: m.NormEps, Turn: turn}, fmt.Sprintf("block%d", i))
	}
	return x
}

// duneBlocks is the DINOv2-style encoder: class and register tokens, a learned
// position table, layer scale, no rope, no last norm (network.md 10.2 to 10.4).
// What comes out are the patch tokens alone.
func (b *builder) duneBlocks(x *graph.Node, g vit.Grid) *graph.Node {
	m := b.m
	x = b.duneTokens(x, g)
	for i := range m.EncDepth {
		x = b.Block(x, fmt.Sprintf("encoder.blocks.0.%d", i), vit.Block{Heads: m.EncHeads, Eps: m.NormEps, Scale: true}, fmt.Sprintf("block%d", i))
	}
	x = b.SliceAxis(x, 1, 1+m.Registers, x.Shape[1])
	b.Tap("feat", x)
	return x
}

// duneTokens puts class and register tokens before the patches. Positions are
// added to class and patches; registers have none (network.md 10.2).
func (b *builder) duneTokens(x *graph.Node, g vit.Grid) *graph.Node {
	m := b.m
	d, batch := m.EncDim, x.Shape[0]
	pos := b.Cast(b.Weight("encoder.pos_embed", 1, m.PosGrid*m.PosGrid+1, d), tensor.F32)
	cls := b.ClassToken("encoder.cls_token", pos, batch)
	x = b.AddTo(x, b.PositionTable(pos, m.PosGrid, g))
	parts := []*graph.Node{cls}
	if m.Registers > 0 {
		reg := b.Cast(b.Weight("encoder.register_tokens", 1, m.Registers, d), tensor.F32)
		parts = append(parts, b.Add(graph.Broadcast{Shape: tensor.Shape{batch, m.Registers, d}}, reg))
	}
	x = b.Concat(1, append(parts, x)...)
	b.Tap("tokens", x)
	return x
}
