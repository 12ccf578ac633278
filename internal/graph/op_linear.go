// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// MatMul is a batched matrix product a[...,M,K] x b[...,K,N]; with TransB the
// second operand is [...,N,K]. Leading dimensions broadcast.
type MatMul struct{ TransB bool }

func (MatMul) Kind() string { return "matmul" }

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

// Activation is the function a fused operation applies to its result.
type Activation uint8

// The fused activations.
const (
	ActNone Activation = iota
	ActRelu
	ActGelu
)

func (a Activation) String() string {
	return enumName(actNames[:], a)
}

// Linear is y = gamma * act(x W^T + b) + residual for x [...,in], W [out,in].
// Operands: x, W, then those that the flags name, in this order: b [out],
// gamma [out], residual (the shape of y).
//
// Networks are built with Bias only; passes.Fuse sets the rest.
type Linear struct {
	Bias, Gamma, Residual bool
	Act                   Activation
}

func (Linear) Kind() string { return "linear" }

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

// Rope describes rotary position embedding in two dimensions on a grid of
// Rows x Cols tokens, row-major; a token's row turns the first half of a head,
// its column the second (network.md 4.1).
type Rope struct {
	Rows, Cols int
	Base       float32
}

// Rotations are cosines and sines of the angles position * Base^(-j/q), q = headDim/4, at
// position*q + j, for the positions of all rows and columns. They are in float64, to be
// rounded once: angles in less than float32 cost accuracy (network.md 4.1). A grid's tables
// are copies of them: computed for each of the 49152 tokens of a picture of 4096 x 3072 they
// would take a third of a second, in which nobody asks whether the work is still wanted.
func (r Rope) Rotations(headDim int) (cos, sin []float64) {
	q, side := headDim/4, max(r.Rows, r.Cols)
	cos, sin = make([]float64, side*q), make([]float64, side*q)
	for j := range q {
		frequency := math.Pow(float64(r.Base), -float64(j)/float64(q))
		for pos := range side {
			sin[pos*q+j], cos[pos*q+j] = math.Sincos(float64(pos) * frequency)
		}
	}
	return cos, sin
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

// RoPE applies Rope to x [B,N,Heads*hd].
type RoPE struct {
	Heads int
	Rope
}

func (RoPE) Kind() string { return "rope" }

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

// Attention is softmax(Scale * q k^T + mask) v per head, for q [B,Nq,H*hd],
// k [B,Nk,H*hd], v [B,Nk,H*hd], heads side by side in the last dimension.
// Operands: q, k, v and, with Mask, an additive mask that broadcasts to
// [B,H,Nq,Nk]. QRope and KRope are set by passes.Fuse.
type Attention struct {
	Heads        int
	Scale        float32
	Mask         bool
	QRope, KRope *Rope
}

func (Attention) Kind() string { return "attention" }

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

var actNames = [...]string{ActNone: "none", ActRelu: "relu", ActGelu: "gelu"}

func headsFit(x *Node, what string, heads int) error {
	if heads < 1 || x.Shape[2]%heads != 0 {
		return shapeErr("%s %v does not split into %d heads", what, x.Shape, heads)
	}
	return isFloat(x, what)
}

var linearOps = []Operation{
	{"matmul", "a, b", "float; a weight takes the other's type", "a b, or a b^T; leading dimensions broadcast.", func(g *Graph) *Node {
		return g.Add(MatMul{}, floats(g, 2, 3, 4), floats(g, 4, 5))
	}, nil},
	{"linear", "x, w, b?, gamma?, residual?", "float; weights of any float type", "gamma * activation(x w^T + b) + residual, w [out,in].", func(g *Graph) *Node {
		return g.Linear(floats(g, 3, 4), floats(g, 5, 4), floats(g, 5))
	}, nil},
	{"rope", "x", "float", "Rotary position embedding of x [B,rows*cols,heads*d] on a grid.", func(g *Graph) *Node {
		return g.RoPE(floats(g, 1, 6, 16), 2, Rope{Rows: 2, Cols: 3, Base: 100})
	}, nil},
	{"attention", "q, k, v, mask?", "float", "softmax(scale q k^T + mask) v per head, heads side by side.", func(g *Graph) *Node {
		return g.Attention(floats(g, 2, 3, 16), floats(g, 2, 5, 16), floats(g, 2, 5, 16), 2, 0.3)
	}, nil},
}
