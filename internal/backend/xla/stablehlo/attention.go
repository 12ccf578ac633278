// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// heads is x [B,N,H*hd] as [B,N,H,hd].
func (l *lowering) heads(x value, h int) value {
	s := x.shape
	return l.reshape(x, tensor.Shape{s[0], s[1], h, s[2] / h})
}

// tables are cosines and signed sines of a rope as weights [N,1,hd]: with the
// pairs (a, b) of each direction, (a c - b s, b c + a s) = (a, b) c + (b, a) (-s, s).
func (l *lowering) tables(r graph.Rope, hd int) [2]value {
	key := fmt.Sprint(r, hd)
	if t, ok := l.ropes[key]; ok {
		return t // every block of a network has the same
	}
	n, q := r.Rows*r.Cols, hd/4
	c, s := r.Rotations(hd)
	var cos, sin []float32
	for t := range n {
		for _, pos := range []int{t / r.Cols, t % r.Cols} {
			for _, sign := range []float64{-1, 1} {
				for j := range q {
					cos, sin = append(cos, float32(c[pos*q+j])), append(sin, float32(sign*s[pos*q+j]))
				}
			}
		}
	}
	shape := tensor.Shape{n, 1, hd}
	t := [2]value{
		l.weight(Weight{Table: cos, Shape: shape, DType: tensor.F32}),
		l.weight(Weight{Table: sin, Shape: shape, DType: tensor.F32}),
	}
	l.ropes[key] = t
	return t
}

// rotate turns heads x [B,N,H,hd], in float32.
func (l *lowering) rotate(x value, r graph.Rope) value {
	s := x.shape
	q := s[3] / 4
	t := l.tables(r, s[3])
	swapped := l.concat(3, l.cut(x, 3, q, 2*q), l.cut(x, 3, 0, q), l.cut(x, 3, 3*q, 4*q), l.cut(x, 3, 2*q, 3*q))
	turn := func(v value, table value) value {
		return l.binary("multiply", l.convert(v, tensor.F32), l.fit(table, s))
	}
	return l.binary("add", turn(x, t[0]), turn(swapped, t[1]))
}

func (l *lowering) rope(n *graph.Node, o graph.RoPE) value {
	y := l.rotate(l.heads(l.in(n, 0), o.Heads), o.Rope)
	return l.convert(l.reshape(y, n.Shape), l.result(n))
}

// attention is per head softmax(scale q k^T + mask) v.
func (l *lowering) attention(n *graph.Node, o graph.Attention) value {
	d := l.half()
	var qkv [3]value
	for i, r := range []*graph.Rope{o.QRope, o.KRope, nil} {
		x := l.heads(l.in(n, i), o.Heads)
		if r != nil {
			x = l.rotate(x, *r)
		}
		qkv[i] = l.rounded(l.convert(x, d))
	}
	q, k, v := qkv[0], qkv[1], qkv[2]
	if l.opt.FusedAttention && !o.Mask && q.shape[3] == v.shape[3] && q.shape[3]%8 == 0 && q.shape[3] <= 128 {
		return l.reshape(l.fusedAttention(q, k, v, float64(o.Scale)), n.Shape)
	}
	// [B,Nq,H,hd] x [B,Nk,H,hd] -> [B,H,Nq,Nk]
	by := contraction{batchA: []int{0, 2}, batchB: []int{0, 2}, sumA: []int{3}, sumB: []int{3}}
	s := l.dot(q, k, by, tensor.F32, l.opt.Exact)
	s = l.binary("multiply", s, l.like(float64(o.Scale), s))
	if o.Mask {
		s = l.binary("add", s, l.fit(l.f32(n, 3), s.shape))
	}
	p := l.rounded(l.convert(l.softmax(s, 3), d))
	// [B,H,Nq,Nk] x [B,Nk,H,hv] -> [B,H,Nq,hv]
	y := l.dot(p, v, contraction{batchA: []int{0, 1}, batchB: []int{0, 2}, sumA: []int{3}, sumB: []int{1}}, l.result(n), l.opt.Exact)
	return l.reshape(l.transpose(y, 0, 2, 1, 3), n.Shape)
}

// softmax is exp(x-max)/sum along an axis.
func (l *lowering) softmax(x value, axis int) value {
	var rest []int
	for i := range x.shape {
		if i != axis {
			rest = append(rest, i)
		}
	}
	top := l.reduce("maximum", math.Inf(-1), x, axis)
	e := l.unary("exponential", l.binary("subtract", x, l.broadcast(top, x.shape, rest...)))
	sum := l.reduce("add", 0, e, axis)
	return l.binary("divide", e, l.broadcast(sum, x.shape, rest...))
}
