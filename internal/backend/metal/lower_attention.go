// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"encoding/binary"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// PackedQKV is the value that q, k and v of an attention are the thirds of, as
// the qkv projection of self-attention makes it; nil when they are not. Such
// heads are split by one transpose instead of three.
func PackedQKV(n *graph.Node) *graph.Node {
	var src *graph.Node
	for i, x := range n.In[:3] {
		o, ok := x.Op.(graph.Slice)
		if !ok || len(x.Shape) != 3 || i > 0 && x.In[0] != src {
			return nil
		}
		src = x.In[0]
		d := x.Shape[2]
		if src.Shape[2] != 3*d || o.Begin[2] != i*d || o.Step[2] != 1 ||
			x.Shape[0] != src.Shape[0] || x.Shape[1] != src.Shape[1] {
			return nil
		}
	}
	return src
}

// findPacked marks the attentions whose q, k and v nobody else reads; the slices
// that would make them are not lowered.
func (l *lowering) findPacked() {
	reads := make([]int, len(l.src.Nodes))
	for _, n := range l.src.Nodes {
		for _, x := range n.In {
			reads[x.ID]++
		}
	}
	for _, n := range l.src.Nodes {
		if _, ok := n.Op.(graph.Attention); !ok || PackedQKV(n) == nil {
			continue
		}
		alone := true
		for _, x := range n.In[:3] {
			alone = alone && reads[x.ID] == 1 && !l.isOut[x.ID]
		}
		l.packed[n.ID] = alone
		for _, x := range n.In[:3] {
			l.skip[x.ID] = alone
		}
	}
}

// ropeKey names a pair of tables: a grid, a head dimension, a common factor.
type ropeKey struct {
	graph.Rope
	hd    int
	scale float32
}

// ropeTables are the cosines, and the sines with the sign of the rotation, for
// x [.., N, 2, 2, hd/4]: direction, member of the pair, frequency. Angles are
// exact to float64 before they are rounded: built in half precision they would
// be off by 5e-3 (network.md 18).
func (l *lowering) ropeTables(key ropeKey) ([2]*mpsgraph.Tensor, error) {
	if t, ok := l.ropes[key]; ok {
		return t, nil
	}
	q, scale := key.hd/4, float64(key.scale)
	var cos, sin []byte
	put := func(b []byte, v float64) []byte {
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	c, s := key.Rotations(key.hd)
	// Token t is at (row, column); the first half of a head turns by the row, the
	// second by the column (network.md 4.1).
	for t := range key.Rows * key.Cols {
		for _, pos := range []int{t / key.Cols, t % key.Cols} {
			for _, sign := range []float64{-1, 1} {
				for j := range q {
					cos, sin = put(cos, scale*c[pos*q+j]), put(sin, scale*sign*s[pos*q+j])
				}
			}
		}
	}
	var out [2]*mpsgraph.Tensor
	for i, data := range [][]byte{cos, sin} {
		shape := tensor.Shape{1, key.Rows * key.Cols, 2, 2, q}
		w, err := l.b.weights.table(data, shape, tensor.F32)
		if err != nil {
			return out, err
		}
		out[i] = l.feed(w, shape, tensor.F32)
	}
	l.ropes[key] = out
	return out, nil
}

// rotate turns heads x [B,H,N,hd] into float32, times scale: with the pairs
// (a, b) of each direction, (a c - b s, b c + a s) = (a, b) c + (b, a) (-s, s).
// The pairs are swapped before the cast, where they are half as wide. The scale
// is in the tables, where it costs nothing.
func (l *lowering) rotate(x *mpsgraph.Tensor, r graph.Rope, scale float32) (*mpsgraph.Tensor, error) {
	g, s := l.out, x.Shape()
	if err := g.Err(); err != nil {
		return nil, err
	}
	hd := s[3]
	t, err := l.ropeTables(ropeKey{r, hd, scale})
	if err != nil {
		return nil, err
	}
	// MPSGraph has no rotation and no complex half precision. A swap by slices and a
	// join would move the elements three times, the reverse moves them once.
	const pair = 3
	y := g.Reshape(x, s[0]*s[1], s[2], 2, 2, hd/4)
	swapped := g.Reverse(y, pair)
	y = g.Add(g.Mul(l.cast(y, tensor.F32), t[0]), g.Mul(l.cast(swapped, tensor.F32), t[1]))
	return g.Reshape(y, s...), nil
}

// heads brings [B,N,H*hd] to [B,H,N,hd]. The reshape must split off the heads
// before the transpose: reshaping to [B,H,N,hd] directly would mix tokens.
func (l *lowering) heads(x *mpsgraph.Tensor, h int) *mpsgraph.Tensor {
	s := x.Shape()
	if l.out.Err() != nil {
		return x
	}
	return l.out.Transpose(l.out.Reshape(x, s[0], s[1], h, s[2]/h), 0, 2, 1, 3)
}

// threeHeads brings the thirds of [B,N,3*H*hd] to [B,H,N,hd]. Cutting after the
// transpose, along the slowest dimension, leaves each third packed: three
// transposes of strided thirds become one. The cut is of four dimensions: a slice
// [1,1,H,N,hd] of five has two of 1, with which macOS 27 ends the process
// elsewhere (PyTorch issue 187201).
func (l *lowering) threeHeads(x *mpsgraph.Tensor, h int) [3]*mpsgraph.Tensor {
	g, s := l.out, x.Shape()
	if g.Err() != nil {
		return [3]*mpsgraph.Tensor{x, x, x}
	}
	b, n, hd := s[0], s[1], s[2]/(3*h)
	y := g.Reshape(g.Transpose(g.Reshape(x, b, n, 3, h, hd), 2, 0, 3, 1, 4), 3*b, h, n, hd)
	var out [3]*mpsgraph.Tensor
	for i := range out {
		out[i] = g.Slice(y, []int{i * b, 0, 0, 0}, []int{(i + 1) * b, h, n, hd}, []int{1, 1, 1, 1})
	}
	return out
}

// join is the inverse of heads.
func (l *lowering) join(x *mpsgraph.Tensor) *mpsgraph.Tensor {
	s := x.Shape()
	if l.out.Err() != nil {
		return x
	}
	return l.out.Reshape(l.out.Transpose(x, 0, 2, 1, 3), s[0], s[2], s[1]*s[3])
}

func (l *lowering) ropeOp(n *graph.Node, o graph.RoPE) (*mpsgraph.Tensor, error) {
	x := l.in(n, 0, carried)
	y, err := l.rotate(l.heads(x, o.Heads), o.Rope, 1)
	if err != nil {
		return nil, err
	}
	return l.out.Cast(l.join(y), x.DType()), nil
}

// attention is per head softmax(scale q k^T + mask) v. In half precision q is
// scaled before the product: the scores of unscaled half-precision q can exceed
// 65504, and Apple does not say whether its attention scales them in float32.
func (l *lowering) attention(n *graph.Node, o graph.Attention) (*mpsgraph.Tensor, error) {
	g, d := l.out, l.product()
	attend := g.Attention
	if l.b.attentionByHand(d) {
		attend, d = g.AttentionByHand, tensor.F32
	}
	// Either q is scaled here or the scores are by MPSGraph, which takes a float.
	scale, q := o.Scale, float32(1)
	if l.half {
		scale, q = 1, o.Scale
	}
	qkv := l.qkv(n, o)
	for i, rope := range []*graph.Rope{o.QRope, o.KRope, nil} {
		x, by := qkv[i], float32(1)
		if i == 0 {
			by = q
		}
		if rope != nil {
			var err error
			if x, err = l.rotate(x, *rope, by); err != nil {
				return nil, err
			}
		} else if by != 1 {
			x = l.scaled(x, by)
		}
		qkv[i] = l.rounded(x, d)
	}
	var mask *mpsgraph.Tensor
	if o.Mask {
		mask = l.mask(n, d)
	}
	// The native attention keeps no scores in memory and is reported at 75 to 90 %
	// of the product's rate; by hand it is a product, a softmax, a product.
	return l.join(attend(qkv[0], qkv[1], qkv[2], mask, scale)), nil
}

// qkv are the operands of an attention with their heads split, in the types that
// they have.
func (l *lowering) qkv(n *graph.Node, o graph.Attention) [3]*mpsgraph.Tensor {
	if l.packed[n.ID] {
		return l.threeHeads(l.value(PackedQKV(n), carried), o.Heads)
	}
	var out [3]*mpsgraph.Tensor
	for i := range out {
		out[i] = l.heads(l.in(n, i, carried), o.Heads)
	}
	return out
}

// scaled is x*v, exact but for one rounding: a power of two, such as 1/8 for
// heads of 64, only changes the exponent and needs no float32.
func (l *lowering) scaled(x *mpsgraph.Tensor, v float32) *mpsgraph.Tensor {
	if f, _ := math.Frexp(float64(v)); f != 0.5 {
		x = l.cast(x, tensor.F32)
	}
	return l.scale(x, float64(v))
}

// mask is the additive mask with four dimensions.
func (l *lowering) mask(n *graph.Node, d tensor.DType) *mpsgraph.Tensor {
	m := l.in(n, 3, d)
	s := m.Shape()
	for len(s) < 4 {
		s = append(tensor.Shape{1}, s...)
	}
	return l.out.Reshape(m, s...)
}
