// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"encoding/binary"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Input declares a run-time value.
func (g *Graph) Input(name string, d tensor.DType, shape ...int) *Node {
	return g.Add(Input{Name: name, Shape: shape, DType: d})
}

// Param declares a weight; the same name gives the same node, so that a tensor
// shared by both views is one value.
func (g *Graph) Param(p Param) *Node {
	if n, ok := g.params[p.Name]; ok {
		return n
	}
	n := g.Add(p)
	if g.err == nil {
		g.params[p.Name] = n
	}
	return n
}

// Scalar is a float32 constant of shape [].
func (g *Graph) Scalar(v float32) *Node {
	return g.Add(Param{Shape: tensor.Shape{}, DType: tensor.F32, Data: binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))})
}

// Unary applies fn to every element.
func (g *Graph) Unary(fn UnaryFn, x *Node) *Node { return g.Add(Unary{fn}, x) }

// Binary applies fn to pairs of elements, broadcasting.
func (g *Graph) Binary(fn BinaryFn, a, b *Node) *Node { return g.Add(Binary{fn}, a, b) }

// AddTo is a + b.
func (g *Graph) AddTo(a, b *Node) *Node { return g.Add(Binary{Add}, a, b) }

// Affine is x*scale + shift.
func (g *Graph) Affine(x *Node, scale, shift float32) *Node { return g.Add(Affine{scale, shift}, x) }

// Cast converts the element type; a cast to the same type is no node.
func (g *Graph) Cast(x *Node, to tensor.DType) *Node {
	if x.DType == to {
		return x
	}
	return g.Add(Cast{to}, x)
}

// Reshape changes the dimensions; a reshape to the same shape is no node.
func (g *Graph) Reshape(x *Node, shape ...int) *Node {
	if x.Shape.Equal(shape) {
		return x
	}
	return g.Add(Reshape{shape}, x)
}

// Transpose permutes the dimensions.
func (g *Graph) Transpose(x *Node, perm ...int) *Node { return g.Add(Transpose{perm}, x) }

// SliceAxis takes [begin, end) on one axis.
func (g *Graph) SliceAxis(x *Node, axis, begin, end int) *Node {
	r := len(x.Shape)
	if axis < 0 {
		axis += r
	}
	if axis < 0 || axis >= r {
		// Pass an invalid Slice, so that its own check reports the error.
		return g.Add(Slice{}, x)
	}
	o := Slice{Begin: make([]int, r), End: x.Shape.Clone(), Step: make([]int, r)}
	for i := range o.Step {
		o.Step[i] = 1
	}
	o.Begin[axis], o.End[axis] = begin, end
	return g.Add(o, x)
}

// Concat joins values along axis.
func (g *Graph) Concat(axis int, in ...*Node) *Node { return g.Add(Concat{axis}, in...) }

// Linear is x W^T + b; b may be nil.
func (g *Graph) Linear(x, w, b *Node) *Node {
	if b == nil {
		return g.Add(Linear{}, x, w)
	}
	return g.Add(Linear{Bias: true}, x, w, b)
}

// LayerNorm normalises the last dimension.
func (g *Graph) LayerNorm(x, gamma, beta *Node, eps float32) *Node {
	return g.Add(LayerNorm{eps}, x, gamma, beta)
}

// RoPE turns the heads of x by their tokens' grid positions.
func (g *Graph) RoPE(x *Node, heads int, r Rope) *Node { return g.Add(RoPE{heads, r}, x) }

// Attention is scaled dot product attention per head.
func (g *Graph) Attention(q, k, v *Node, heads int, scale float32) *Node {
	return g.Add(Attention{Heads: heads, Scale: scale}, q, k, v)
}

// Conv2D is a convolution with the same stride and padding on both axes; b may
// be nil.
func (g *Graph) Conv2D(x, w, b *Node, stride, pad int) *Node {
	o := Conv2D{Stride: stride, Pad: pad, Dilation: 1, Groups: 1, Bias: b != nil}
	if b == nil {
		return g.Add(o, x, w)
	}
	return g.Add(o, x, w, b)
}

// ConvTranspose2D is the transposed convolution without padding.
func (g *Graph) ConvTranspose2D(x, w, b *Node, stride int) *Node {
	return g.Add(ConvTranspose2D{Stride: stride, Bias: true}, x, w, b)
}

// Bilinear resamples with aligned corners, the rule of every upsampling in the
// heads.
func (g *Graph) Bilinear(x *Node, h, w int) *Node {
	return g.Add(Resize2D{H: h, W: w, Mode: Bilinear, AlignCorners: true}, x)
}
