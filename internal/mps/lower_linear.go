// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// matMul multiplies in the product type.
func (l *lowering) matMul(n *graph.Node, o graph.MatMul) *mpsgraph.Tensor {
	a, b := l.factor(n, 0), l.factor(n, 1)
	if o.TransB {
		perm := make([]int, len(n.In[1].Shape))
		for i := range perm {
			perm[i] = i
		}
		r := len(perm)
		perm[r-2], perm[r-1] = r-1, r-2
		b = l.out.Transpose(b, perm...)
	}
	return l.out.MatMul(a, b)
}

// linear is gamma*act(x W^T + b) + residual as one matrix product over all
// rows. The transpose of W is folded into the product by the compiler. With a
// residual the result is float32: it is the residual stream.
func (l *lowering) linear(n *graph.Node, o graph.Linear) *mpsgraph.Tensor {
	g, d := l.out, l.product()
	x := l.factor(n, 0)
	k := n.In[1].Shape[1]
	if k == 0 {
		return g.Fail("linear", fmt.Errorf("%w: no input features", ErrUnsupported))
	}
	y := g.MatMul(g.Reshape(x, x.Shape().Numel()/k, k), g.Transpose(l.factor(n, 1), 1, 0))
	rest := n.In[2:]
	next := func(d tensor.DType) *mpsgraph.Tensor {
		t := l.value(rest[0], d)
		rest = rest[1:]
		return t
	}
	if o.Bias {
		y = g.Add(y, next(d))
	}
	y = l.activate(o.Act, y)
	if o.Gamma {
		y = g.Mul(y, next(d))
	}
	y = g.Reshape(y, shapeOf(n.Shape)...)
	if o.Residual {
		y = g.Add(l.cast(y, tensor.F32), next(tensor.F32))
	}
	return y
}

func (l *lowering) activate(act graph.Activation, x *mpsgraph.Tensor) *mpsgraph.Tensor {
	switch act {
	case graph.ActRelu:
		return l.out.ReLU(x)
	case graph.ActGelu:
		return l.out.Cast(l.activation(graph.Gelu, l.cast(x, tensor.F32)), x.DType())
	}
	return x
}

// ropeKey names a pair of tables: a grid and a head dimension.
type ropeKey struct {
	graph.Rope
	hd int
}

// ropeTables are the cosines, and the sines with the sign of the rotation, for
// x [.., N, 2, 2, hd/4]: direction, member of the pair, frequency. Angles are
// exact to float64 before they are rounded: built in half precision they would
// be off by 5e-3 (model.md 18).
func (l *lowering) ropeTables(r graph.Rope, hd int) ([2]*mpsgraph.Tensor, error) {
	key := ropeKey{r, hd}
	if t, ok := l.ropes[key]; ok {
		return t, nil
	}
	q := hd / 4
	var cos, sin []byte
	put := func(b []byte, v float64) []byte {
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	for t := range r.Rows * r.Cols {
		for _, pos := range []int{t / r.Cols, t % r.Cols} {
			for _, sign := range []float64{-1, 1} {
				for j := range q {
					s, c := math.Sincos(float64(pos) * math.Pow(float64(r.Base), -float64(j)/float64(q)))
					cos, sin = put(cos, c), put(sin, sign*s)
				}
			}
		}
	}
	var out [2]*mpsgraph.Tensor
	for i, data := range [][]byte{cos, sin} {
		shape := tensor.Shape{1, r.Rows * r.Cols, 2, 2, q}
		w, err := l.b.weights.table(data, shape, tensor.F32)
		if err != nil {
			return out, err
		}
		out[i] = l.feed(w, shape, tensor.F32)
	}
	l.ropes[key] = out
	return out, nil
}

// rotate turns heads x [B,H,N,hd] into float32: with the pairs (a, b) of each
// direction, (a c - b s, b c + a s) = (a, b) c + (b, a) (-s, s). The pairs are
// swapped before the cast, where they are half as wide.
func (l *lowering) rotate(x *mpsgraph.Tensor, r graph.Rope) (*mpsgraph.Tensor, error) {
	g, s := l.out, x.Shape()
	if err := g.Err(); err != nil {
		return nil, err
	}
	hd := s[3]
	t, err := l.ropeTables(r, hd)
	if err != nil {
		return nil, err
	}
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
	y, err := l.rotate(l.heads(x, o.Heads), o.Rope)
	if err != nil {
		return nil, err
	}
	return l.out.Cast(l.join(y), x.DType()), nil
}

// attention is per head softmax(scale q k^T + mask) v. In half precision q is
// scaled while it is still float32: the scores of unscaled half-precision q can
// exceed 65504, and the product rounds only once.
func (l *lowering) attention(n *graph.Node, o graph.Attention) (*mpsgraph.Tensor, error) {
	g, d := l.out, l.product()
	scale := o.Scale
	var qkv [3]*mpsgraph.Tensor
	for i, rope := range []*graph.Rope{o.QRope, o.KRope, nil} {
		want := d
		switch {
		case rope != nil:
			want = carried
		case i == 0 && l.half:
			want = tensor.F32
		}
		x := l.heads(l.in(n, i, want), o.Heads)
		if rope != nil {
			var err error
			if x, err = l.rotate(x, *rope); err != nil {
				return nil, err
			}
		}
		if i == 0 && l.half {
			x, scale = l.scale(x, float64(scale)), 1
		}
		if l.bf16 {
			x = l.rounded(x)
		}
		qkv[i] = l.cast(x, d)
	}
	var mask *mpsgraph.Tensor
	if o.Mask {
		mask = l.mask(n, d)
	}
	attend := g.Attention
	if l.b.cfg.ManualAttention {
		attend = g.AttentionByHand
	}
	return l.join(attend(qkv[0], qkv[1], qkv[2], mask, scale)), nil
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
