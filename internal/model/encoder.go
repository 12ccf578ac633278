// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// scaleOf is hd^-1/2 (network.md 4).
func scaleOf(headDim int) float32 { return float32(1 / math.Sqrt(float64(headDim))) }

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
	if images < 1 {
		return nil, fmt.Errorf("model: %d pictures, want at least 1", images)
	}
	if err := m.checkSize(height, width); err != nil {
		return nil, err
	}
	b := m.builder("encoder")
	in := make([]*graph.Node, images)
	for i := range in {
		in[i] = b.Input(fmt.Sprintf("image%d", i), pixel, 1, height, width, 3)
	}
	x := in[0]
	if images > 1 {
		x = b.Concat(0, in...)
	}
	x = b.patches(b.pixels(x))
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
	for i := range in {
		y := x
		if images > 1 {
			y = b.SliceAxis(x, 0, i, i+1)
		}
		b.Output(fmt.Sprintf("feat%d", i), b.norm(y, n.outerNorm, eps))
	}
	return b.build()
}

// pixels is the network's number for each byte: v = (byte/255 - 0.5)/0.5 in
// float32 (network.md 3). A division by 255 is not a product with 1/255 in
// float32, so it stays a division; DUNE then undoes the second step and applies
// the ImageNet statistics (network.md 10.1).
func (b *builder) pixels(f *graph.Node) *graph.Node {
	if f.DType == tensor.U8 {
		f = b.Binary(graph.Div, b.Cast(f, tensor.F32), b.Scalar(255))
		f = b.Binary(graph.Div, b.Affine(f, 1, -0.5), b.Scalar(0.5))
	}
	if b.m.Arch != DUNE {
		return f
	}
	f = b.Affine(f, 0.5, 0.5)
	f = b.Binary(graph.Sub, f, b.vector(0.485, 0.456, 0.406))
	return b.Binary(graph.Div, f, b.vector(0.229, 0.224, 0.225))
}

// vector is a constant [len(v)].
func (b *builder) vector(v ...float32) *graph.Node {
	data := make([]byte, 0, 4*len(v))
	for _, f := range v {
		u := math.Float32bits(f)
		data = append(data, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
	return b.Add(graph.Param{Shape: tensor.Shape{len(v)}, DType: tensor.F32, Data: data})
}

// patches is the patch embedding, a convolution with kernel = stride = patch:
// each patch, flattened in the order (c, ky, kx), times the kernel as a matrix.
func (b *builder) patches(x *graph.Node) *graph.Node {
	m := b.m
	p, batch := m.Patch, x.Shape[0]
	g := m.GridOf(x.Shape[1], x.Shape[2])
	x = b.Reshape(x, batch, g.Rows, p, g.Cols, p, 3)
	x = b.Transpose(x, 0, 1, 3, 5, 2, 4)
	x = b.Reshape(x, batch, g.Tokens(), 3*p*p)
	name := m.names().encoder + "patch_embed.proj"
	w := b.matrix(name+".weight", m.EncDim, 3, p, p)
	y := b.Linear(x, w, b.weight(name+".bias", m.EncDim))
	b.tap("patch_embed", y)
	return y
}

// matrix is a convolution kernel seen as the matrix [out, in*kh*kw], which is
// the same bytes.
func (b *builder) matrix(name string, shape ...int) *graph.Node {
	w := b.weight(name, shape...)
	p, ok := w.Op.(graph.Param)
	flat := tensor.Shape{shape[0], tensor.Shape(shape[1:]).Numel()}
	if !ok { // a stand-in for a missing weight
		return b.Reshape(w, flat...)
	}
	p.Name, p.Shape = name+" (matrix)", flat
	return b.Param(p)
}

// mast3rBlocks is the CroCo encoder without its last norm (network.md 5).
func (b *builder) mast3rBlocks(x *graph.Node, g Grid) *graph.Node {
	rope := &graph.Rope{Rows: g.Rows, Cols: g.Cols, Base: b.m.RopeBase}
	for i := range b.m.EncDepth {
		name, at := fmt.Sprintf("enc_blocks.%d", i), fmt.Sprintf("block%d.", i)
		y := b.norm(x, name+".norm1", b.m.NormEps)
		b.tap(at+"norm1", y)
		x = b.AddTo(x, b.selfAttention(y, name+".attn", b.m.EncHeads, rope, at))
		y = b.norm(x, name+".norm2", b.m.NormEps)
		b.tap(at+"norm2", y)
		y = b.mlp(y, name+".mlp", b.m.EncDim)
		b.tap(at+"mlp", y)
		x = b.AddTo(x, y)
		b.tap(fmt.Sprintf("block%d", i), x)
	}
	return x
}

// duneBlocks is the DINOv2-style encoder: class and register tokens, a learned
// position table, layer scale, no rope, no last norm (network.md 10.2 to 10.4).
// What comes out are the patch tokens alone.
func (b *builder) duneBlocks(x *graph.Node, g Grid) *graph.Node {
	m := b.m
	x = b.duneTokens(x, g)
	for i := range m.EncDepth {
		name, at := fmt.Sprintf("encoder.blocks.0.%d", i), fmt.Sprintf("block%d.", i)
		y := b.norm(x, name+".norm1", m.NormEps)
		b.tap(at+"norm1", y)
		y = b.selfAttention(y, name+".attn", m.EncHeads, nil, at)
		x = b.AddTo(x, b.Binary(graph.Mul, y, b.weight(name+".ls1.gamma", m.EncDim)))
		y = b.norm(x, name+".norm2", m.NormEps)
		b.tap(at+"norm2", y)
		y = b.mlp(y, name+".mlp", m.EncDim)
		b.tap(at+"mlp", y)
		x = b.AddTo(x, b.Binary(graph.Mul, y, b.weight(name+".ls2.gamma", m.EncDim)))
		b.tap(fmt.Sprintf("block%d", i), x)
	}
	x = b.SliceAxis(x, 1, 1+m.Registers, x.Shape[1])
	b.tap("feat", x)
	return x
}

// duneTokens puts class and register tokens before the patches. Positions are
// added to class and patches; registers have none (network.md 10.2).
func (b *builder) duneTokens(x *graph.Node, g Grid) *graph.Node {
	m := b.m
	d, batch := m.EncDim, x.Shape[0]
	pos := b.weight("encoder.pos_embed", 1, m.PosGrid*m.PosGrid+1, d)
	cls := b.AddTo(b.Cast(b.weight("encoder.cls_token", 1, 1, d), tensor.F32), b.SliceAxis(b.Cast(pos, tensor.F32), 1, 0, 1))
	x = b.AddTo(x, b.duneTable(b.Cast(pos, tensor.F32), g))
	parts := []*graph.Node{b.Add(graph.Broadcast{Shape: tensor.Shape{batch, 1, d}}, cls)}
	if m.Registers > 0 {
		reg := b.Cast(b.weight("encoder.register_tokens", 1, m.Registers, d), tensor.F32)
		parts = append(parts, b.Add(graph.Broadcast{Shape: tensor.Shape{batch, m.Registers, d}}, reg))
	}
	x = b.Concat(1, append(parts, x)...)
	b.tap("tokens", x)
	return x
}

// duneTable is the position table for a grid: the file's own where it fits a
// square picture exactly, else resampled with the scale M/(n+0.1), which is
// deliberate in the reference and moves the sample positions (network.md 10.3).
func (b *builder) duneTable(pos *graph.Node, g Grid) *graph.Node {
	m, d := b.m.PosGrid, b.m.EncDim
	grid := b.SliceAxis(pos, 1, 1, m*m+1)
	if g.Rows == m && g.Cols == m {
		return grid
	}
	grid = b.Reshape(grid, 1, m, m, d)
	grid = b.Add(graph.Resize2D{H: g.Rows, W: g.Cols, Mode: graph.Bicubic,
		ScaleH: float64(m) / (float64(g.Rows) + 0.1), ScaleW: float64(m) / (float64(g.Cols) + 0.1)}, grid)
	return b.Reshape(grid, 1, g.Tokens(), d)
}
