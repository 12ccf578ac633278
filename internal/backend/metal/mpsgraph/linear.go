// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// maxScores bounds B*H*Nq*Nkv: MPS corrupts silently once the scores of an
// attention reach 2^31 elements.
const maxScores = 1 << 31

// maxK bounds the inner dimension of a product: from 32767 on, M1 and M2 GPUs
// read past the operands in the last tile.
const maxK = 32766

// maxProductRank bounds the dimensions of a product: with five MPSGraph has ended
// the process while compiling (PyTorch issues 114942, 147443, 187201).
const maxProductRank = 4

// MatMul is the batched product a[...,M,K] x b[...,K,N]; leading dimensions
// broadcast. Reordered operands must come from a Transpose node of the graph,
// never from strides of the data: the compiler folds the node into the product,
// strided data has given wrong products on several systems. Apple does not say
// in which type half precision is summed.
func (g *Graph) MatMul(a, b *Tensor) *Tensor {
	const op = "matmul"
	if !g.ready(op, a, b) {
		return g.dead()
	}
	in := []*Tensor{a, b}
	ra, rb := len(a.shape), len(b.shape)
	if ra < 2 || rb < 2 || a.dtype != b.dtype || !a.dtype.Float() {
		return g.failf(op, in, "want two matrices of one float type")
	}
	if ra > maxProductRank || rb > maxProductRank {
		return g.failf(op, in, "%d and %d dimensions, want at most %d", ra, rb, maxProductRank)
	}
	k := a.shape[ra-1]
	if k != b.shape[rb-2] {
		return g.failf(op, in, "inner dimensions %d and %d differ", k, b.shape[rb-2])
	}
	if k > maxK {
		return g.failf(op, in, "inner dimension %d, MPS is right up to %d", k, maxK)
	}
	lead, ok := broadcastShape(a.shape[:ra-2], b.shape[:rb-2])
	if !ok {
		return g.failf(op, in, "leading dimensions do not broadcast")
	}
	out := append(lead, a.shape[ra-2], b.shape[rb-1])
	if !g.mayMake(op, in, out, a.dtype) {
		return g.dead()
	}
	if out[len(out)-2] == 1 {
		return g.oneRow(a, b)
	}
	return g.done(op, in, matmul.Send(g.id, a.id, b.id, 0), out, a.dtype)
}

// oneRow multiplies the row twice and drops the second: on macOS 26 a product of
// one row and the bias added to it become one kernel, which forgets the bias
// (PyTorch issue 188438). A slice between the two keeps them apart.
func (g *Graph) oneRow(a, b *Tensor) *Tensor {
	twice := a.shape.Clone()
	twice[len(twice)-2] = 2
	y := g.MatMul(g.Broadcast(a, twice...), b)
	if g.err != nil {
		return g.dead()
	}
	begin, step := make([]int, len(y.shape)), make([]int, len(y.shape))
	for i := range step {
		step[i] = 1
	}
	end := y.shape.Clone()
	end[len(end)-2] = 1
	return g.Slice(y, begin, end, step)
}

// checkAttention verifies q [B,H,Nq,hd], k [B,H,Nk,hd], v [B,H,Nk,hv] and an
// optional mask. Equal head counts are demanded: MPSGraph's product aborts on a
// broadcast of heads (PyTorch issue 149132), and on five dimensions (147443).
func (g *Graph) checkAttention(op string, in []*Tensor) bool {
	q, k, v := in[0], in[1], in[2]
	if len(q.shape) != 4 || len(k.shape) != 4 || len(v.shape) != 4 {
		g.failf(op, in, "want q, k, v of 4 dimensions")
		return false
	}
	if k.dtype != q.dtype || v.dtype != q.dtype || !q.dtype.Float() {
		g.failf(op, in, "want one float type")
		return false
	}
	b, h, nq, nk := q.shape[0], q.shape[1], q.shape[2], k.shape[2]
	if !k.shape.Equal(tensor.Shape{b, h, nk, q.shape[3]}) || !v.shape.Equal(tensor.Shape{b, h, nk, v.shape[3]}) {
		g.failf(op, in, "want k [%d,%d,N,%d] and v [%d,%d,N,D]", b, h, q.shape[3], b, h)
		return false
	}
	scores := tensor.Shape{b, h, nq, nk}
	if scores.Check(1) != nil || int64(scores.Numel()) >= maxScores {
		g.failf(op, in, "%d x %d x %d x %d scores, MPS is right below 2^31", b, h, nq, nk)
		return false
	}
	if len(in) == 4 {
		s, ok := broadcastShape(in[3].shape, scores)
		if !ok || !s.Equal(scores) || in[3].dtype != q.dtype {
			g.failf(op, in, "mask does not broadcast to %v%v", q.dtype, scores)
			return false
		}
	}
	return true
}

// withMask lists the operands; the mask is optional.
func withMask(q, k, v, mask *Tensor) []*Tensor {
	if mask == nil {
		return []*Tensor{q, k, v}
	}
	return []*Tensor{q, k, v, mask}
}

// Attention is the native softmax(scale*q k^T + mask) v of macOS 15, which holds
// no scores in memory. The mask is additive, of q's type, and may be nil; a
// boolean one has no documented meaning. The operands are [B,H,N,hd]: split the
// heads of [B,N,H*hd] by a reshape to [B,N,H,hd] and a transpose.
func (g *Graph) Attention(q, k, v, mask *Tensor, scale float32) *Tensor {
	const op = "attention"
	in := withMask(q, k, v, mask)
	if !g.ready(op, in...) || !g.checkAttention(op, in) {
		return g.dead()
	}
	out := tensor.Shape{q.shape[0], q.shape[1], q.shape[2], v.shape[3]}
	if !g.mayMake(op, in, out, q.dtype) {
		return g.dead()
	}
	if mask == nil {
		return g.done(op, in, attentionUnmasked.Send(g.id, q.id, k.id, v.id, scale, 0), out, q.dtype)
	}
	return g.done(op, in, attention.Send(g.id, q.id, k.id, v.id, mask.id, scale, 0), out, q.dtype)
}

// AttentionByHand is Attention from products and a softmax in float32, whatever
// the operands' type: on GPUs of the M5, products of more than two dimensions in
// half precision are wrong and differ from run to run (PyTorch issues 180776,
// 181466, 182350); in two dimensions, and in float32, none is reported.
func (g *Graph) AttentionByHand(q, k, v, mask *Tensor, scale float32) *Tensor {
	const op = "attention by hand"
	in := withMask(q, k, v, mask)
	if !g.ready(op, in...) || !g.checkAttention(op, in) {
		return g.dead()
	}
	d := q.dtype
	wide := func(t *Tensor) *Tensor {
		if d == tensor.F32 {
			return t
		}
		return g.Cast(t, tensor.F32)
	}
	q = wide(q)
	if scale != 1 { // or it is in q already
		q = g.Mul(q, g.Scalar(float64(scale), tensor.F32))
	}
	s := g.MatMul(q, g.Transpose(wide(k), 0, 1, 3, 2))
	if mask != nil {
		s = g.Add(s, wide(mask))
	}
	// MPSGraph would recognise this pattern and put its fused kernel in place, which
	// leaks memory on macOS 15; PyTorch breaks the match with this number, too small
	// to change any score that matters.
	s = g.Add(s, g.Scalar(1e-20, tensor.F32))
	y := g.MatMul(g.Softmax(s, -1), wide(v))
	if d == tensor.F32 {
		return y
	}
	return g.Cast(y, d)
}
