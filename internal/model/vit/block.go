// SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// ScaleOf is hd^-1/2 (network.md 4).
func ScaleOf(headDim int) float32 { return float32(1 / math.Sqrt(float64(headDim))) }

// Pictures are the inputs image0, image1, ... of one size, one after the other in the
// first dimension. Each has a buffer of its own.
func (b *Builder) Pictures(images, height, width int, pixel tensor.DType) *graph.Node {
	in := make([]*graph.Node, images)
	for i := range in {
		in[i] = b.Input(fmt.Sprintf("image%d", i), pixel, 1, height, width, 3)
	}
	if images == 1 {
		return in[0]
	}
	return b.Concat(0, in...)
}

// Picture is what x holds of one of the pictures.
func (b *Builder) Picture(x *graph.Node, i int) *graph.Node {
	if x.Shape[0] == 1 {
		return x
	}
	return b.SliceAxis(x, 0, i, i+1)
}

// Patches is the patch embedding name of pictures [B,H,W,3], a convolution with
// kernel = stride = patch: each patch, flattened in the order (c, ky, kx), times
// the kernel as a matrix.
func (b *Builder) Patches(x *graph.Node, name string, patch, dim int) *graph.Node {
	batch := x.Shape[0]
	g := Grid{x.Shape[1] / patch, x.Shape[2] / patch}
	x = b.Reshape(x, batch, g.Rows, patch, g.Cols, patch, 3)
	x = b.Transpose(x, 0, 1, 3, 5, 2, 4)
	x = b.Reshape(x, batch, g.Tokens(), 3*patch*patch)
	w := b.Matrix(name+".weight", dim, 3, patch, patch)
	y := b.Linear(x, w, b.Weight(name+".bias", dim))
	b.Tap("patch_embed", y)
	return y
}

// Bytes is x/255 in float32 of 8-bit pixels. A division by 255 is not a product
// with 1/255 in float32, so it stays a division.
func (b *Builder) Bytes(x *graph.Node) *graph.Node {
	return b.Binary(graph.Div, b.Cast(x, tensor.F32), b.Scalar(255))
}

// ImageNet are colours in [0,1] by the mean and deviation of ImageNet
// (network.md 10.1).
func (b *Builder) ImageNet(x *graph.Node) *graph.Node {
	x = b.Binary(graph.Sub, x, b.Constant([]float32{0.485, 0.456, 0.406}, 3))
	return b.Binary(graph.Div, x, b.Constant([]float32{0.229, 0.224, 0.225}, 3))
}

// ClassToken is the learned first token at its position, [batch,1,D].
func (b *Builder) ClassToken(name string, pos *graph.Node, batch int) *graph.Node {
	d := pos.Shape[2]
	cls := b.AddTo(b.Cast(b.Weight(name, 1, 1, d), tensor.F32), b.SliceAxis(pos, 1, 0, 1))
	return b.Add(graph.Broadcast{Shape: tensor.Shape{batch, 1, d}}, cls)
}

// PositionTable is the learned table pos [1,1+side*side,D] without its first
// row, for a grid: the file's own where the grid is the table's, else resampled
// with the scale side/(n+0.1), which is deliberate in the published networks and
// moves the sample positions (network.md 10.3).
func (b *Builder) PositionTable(pos *graph.Node, side int, g Grid) *graph.Node {
	d := pos.Shape[2]
	grid := b.SliceAxis(pos, 1, 1, side*side+1)
	if g.Rows == side && g.Cols == side {
		return grid
	}
	grid = b.Reshape(grid, 1, side, side, d)
	grid = b.Add(graph.Resize2D{H: g.Rows, W: g.Cols, Mode: graph.Bicubic,
		ScaleH: float64(side) / (float64(g.Rows) + 0.1), ScaleW: float64(side) / (float64(g.Cols) + 0.1)}, grid)
	return b.Reshape(grid, 1, g.Tokens(), d)
}

// MLP is fc2(gelu(fc1(x))).
func (b *Builder) MLP(x *graph.Node, name string, out int) *graph.Node {
	h := b.LinearLayer(x, name+".fc1", -1)
	return b.LinearLayer(b.Unary(graph.Gelu, h), name+".fc2", out)
}

// SelfAttention is proj(attention(qkv(x))). turn, which may be nil, is what is
// done to q and to k before they meet.
func (b *Builder) SelfAttention(x *graph.Node, name string, heads int, turn func(qk *graph.Node, which string) *graph.Node, at string) *graph.Node {
	d := x.Shape[2]
	qkv := b.LinearLayer(x, name+".qkv", 3*d)
	b.Tap(at+"qkv", qkv)
	q, k, v := third(b, qkv, 0), third(b, qkv, 1), third(b, qkv, 2)
	if turn != nil {
		q, k = turn(q, "q"), turn(k, "k")
		b.Tap(at+"q_rope", q)
		b.Tap(at+"k_rope", k)
	}
	y := b.LinearLayer(b.Attention(q, k, v, heads, ScaleOf(d/heads)), name+".proj", d)
	b.Tap(at+"attn", y)
	return y
}

// third takes q, k or v (i = 0, 1, 2) out of a qkv projection.
func third(b *Builder, qkv *graph.Node, i int) *graph.Node {
	d := qkv.Shape[2] / 3
	return b.SliceAxis(qkv, 2, i*d, (i+1)*d)
}

// Block says what a transformer block of a vision encoder has. Its layers are
// norm1, attn, norm2 and mlp, and with Scale ls1 and ls2 (network.md 5, 10.4).
type Block struct {
	Heads int
	Eps   float32
	// Scale says that each branch has a factor for each channel.
	Scale bool
	// Turn is what is done to q and k, nil for nothing.
	Turn func(qk *graph.Node, which string) *graph.Node
	// Gated says that the mlp is SwiGLU: w3(silu(a) * b) with a, b = w12(x).
	Gated bool
}

// Block is x with both branches of block name added; at is its name for the tap.
func (b *Builder) Block(x *graph.Node, name string, o Block, at string) *graph.Node {
	d := x.Shape[2]
	scale := func(y *graph.Node, ls string) *graph.Node {
		if !o.Scale {
			return y
		}
		return b.Binary(graph.Mul, y, b.Weight(name+ls+".gamma", d))
	}
	y := b.NormLayer(x, name+".norm1", o.Eps)
	b.Tap(at+".norm1", y)
	y = b.SelfAttention(y, name+".attn", o.Heads, o.Turn, at+".")
	x = b.AddTo(x, scale(y, ".ls1"))
	y = b.NormLayer(x, name+".norm2", o.Eps)
	b.Tap(at+".norm2", y)
	if o.Gated {
		y = b.gated(y, name+".mlp")
	} else {
		y = b.MLP(y, name+".mlp", d)
	}
	b.Tap(at+".mlp", y)
	x = b.AddTo(x, scale(y, ".ls2"))
	b.Tap(at, x)
	return x
}

// gated is w3(silu(a) * b), where a and b are the halves of w12(x).
func (b *Builder) gated(x *graph.Node, name string) *graph.Node {
	h := b.LinearLayer(x, name+".w12", -1)
	half := h.Shape[2] / 2
	a, c := b.SliceAxis(h, 2, 0, half), b.SliceAxis(h, 2, half, 2*half)
	a = b.Binary(graph.Mul, a, b.Unary(graph.Sigmoid, a))
	return b.LinearLayer(b.Binary(graph.Mul, a, c), name+".w3", x.Shape[2])
}
