// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func (o MatMul) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	a, b := in[0], in[1]
	ra, rb := len(a.Shape), len(b.Shape)
	if ra < 2 || rb < 2 {
		return nil, 0, shapeErr("operands need at least 2 dimensions")
	}
	d, err := computeType(a, b)
	if err != nil {
		return nil, 0, err
	}
	kb, n := b.Shape[rb-2], b.Shape[rb-1]
	if o.TransB {
		kb, n = n, kb
	}
	if k := a.Shape[ra-1]; k != kb {
		return nil, 0, shapeErr("inner dimensions %d and %d differ", k, kb)
	}
	lead, err := broadcastShapes(a.Shape[:ra-2], b.Shape[:rb-2])
	return append(lead, a.Shape[ra-2], n), d, err
}

func (o Linear) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2+count(o.Bias, o.Gamma, o.Residual)); err != nil {
		return nil, 0, err
	}
	x, w := in[0], in[1]
	if len(x.Shape) < 1 {
		return nil, 0, shapeErr("x is a scalar")
	}
	if err := rank(w, "W", 2); err != nil {
		return nil, 0, err
	}
	if err := isFloat(w, "W"); err != nil {
		return nil, 0, err
	}
	out := x.Shape.Clone()
	k := out[len(out)-1]
	if w.Shape[1] != k {
		return nil, 0, shapeErr("W is %v, want [out,%d] for x %v", w.Shape, k, x.Shape)
	}
	out[len(out)-1] = w.Shape[0]
	rest := in[2:]
	for _, p := range []struct {
		has  bool
		what string
	}{{o.Bias, "b"}, {o.Gamma, "gamma"}} {
		if !p.has {
			continue
		}
		if err := vector(rest[0], p.what, w.Shape[0]); err != nil {
			return nil, 0, err
		}
		rest = rest[1:]
	}
	if o.Residual {
		if err := same(rest[0], "residual", out); err != nil {
			return nil, 0, err
		}
	}
	return out, x.DType, isFloat(x, "x")
}

func count(flags ...bool) int {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

func (o RoPE) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	if err := rank(x, "x", 3); err != nil {
		return nil, 0, err
	}
	if err := headsFit(x, "x", o.Heads); err != nil {
		return nil, 0, err
	}
	return x.Shape, x.DType, o.Rope.fits(x, "x", o.Heads)
}

// fits checks a grid against tokens: hd/4 frequencies per direction, so the
// head dimension must be a multiple of 4.
func (r Rope) fits(x *Node, what string, heads int) error {
	if r.Rows < 1 || r.Cols < 1 || r.Rows*r.Cols != x.Shape[1] {
		return shapeErr("%s %v: a grid of %dx%d has %d tokens, want %d", what, x.Shape, r.Rows, r.Cols, r.Rows*r.Cols, x.Shape[1])
	}
	if hd := x.Shape[2] / heads; hd%4 != 0 {
		return shapeErr("%s %v: head dimension %d, want a multiple of 4", what, x.Shape, hd)
	}
	if !(r.Base > 0) {
		return shapeErr("rope base %v, want > 0", r.Base)
	}
	return nil
}

func headsFit(x *Node, what string, heads int) error {
	if heads < 1 || x.Shape[2]%heads != 0 {
		return shapeErr("%s %v does not split into %d heads", what, x.Shape, heads)
	}
	return isFloat(x, what)
}

func (o Attention) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 3+count(o.Mask)); err != nil {
		return nil, 0, err
	}
	q, k, v := in[0], in[1], in[2]
	for i, what := range []string{"q", "k", "v"} {
		if err := rank(in[i], what, 3); err != nil {
			return nil, 0, err
		}
		if err := headsFit(in[i], what, o.Heads); err != nil {
			return nil, 0, err
		}
		if in[i].DType != q.DType {
			return nil, 0, dtypeErr("%s is %v, want %v like q", what, in[i].DType, q.DType)
		}
	}
	if k.Shape[0] != q.Shape[0] || k.Shape[2] != q.Shape[2] {
		return nil, 0, shapeErr("k is %v, want [%d,N,%d] for q %v", k.Shape, q.Shape[0], q.Shape[2], q.Shape)
	}
	if v.Shape[0] != k.Shape[0] || v.Shape[1] != k.Shape[1] {
		return nil, 0, shapeErr("v is %v, want [%d,%d,D]", v.Shape, k.Shape[0], k.Shape[1])
	}
	if k.Shape[1] == 0 {
		return nil, 0, shapeErr("k has no tokens")
	}
	if err := o.ropesFit(q, k); err != nil {
		return nil, 0, err
	}
	if o.Mask {
		full := tensor.Shape{q.Shape[0], o.Heads, q.Shape[1], k.Shape[1]}
		if s, err := broadcastShapes(in[3].Shape, full); err != nil || !s.Equal(full) {
			return nil, 0, shapeErr("mask %v does not broadcast to %v", in[3].Shape, full)
		}
	}
	return tensor.Shape{q.Shape[0], q.Shape[1], v.Shape[2]}, q.DType, nil
}

func (o Attention) ropesFit(q, k *Node) error {
	if o.QRope != nil {
		if err := o.QRope.fits(q, "q", o.Heads); err != nil {
			return err
		}
	}
	if o.KRope != nil {
		return o.KRope.fits(k, "k", o.Heads)
	}
	return nil
}

func (o LayerNorm) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 3); err != nil {
		return nil, 0, err
	}
	if err := vector(in[2], "beta", lastDim(in[0])); err != nil {
		return nil, 0, err
	}
	return normShape(in, o.Eps)
}

func (o RMSNorm) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	return normShape(in, o.Eps)
}

func normShape(in []*Node, eps float32) (tensor.Shape, tensor.DType, error) {
	// MPSGraph ends the process over an epsilon that is not above zero.
	if !(eps > 0) || math.IsInf(float64(eps), 1) {
		return nil, 0, shapeErr("epsilon %v, want a finite number above 0", eps)
	}
	if lastDim(in[0]) < 1 {
		return nil, 0, shapeErr("x %v has no last dimension to normalise", in[0])
	}
	if err := vector(in[1], "gamma", lastDim(in[0])); err != nil {
		return nil, 0, err
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}

func lastDim(n *Node) int {
	if len(n.Shape) == 0 {
		return 0
	}
	return n.Shape[len(n.Shape)-1]
}

func (o Softmax) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	a, err := axisIn(o.Axis, len(in[0].Shape))
	if err != nil {
		return nil, 0, err
	}
	if in[0].Shape[a] == 0 {
		return nil, 0, shapeErr("axis %d of %v is empty", o.Axis, in[0])
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}

func (o L2Normalize) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	return vectors(in)
}

func (o ExpPoints) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	return vectors(in)
}

// vectors is the rule of operations on the vectors of the last dimension.
func vectors(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if lastDim(in[0]) < 1 {
		return nil, 0, shapeErr("x %v has no vectors in its last dimension", in[0])
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}
