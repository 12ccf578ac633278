// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// ropeKey is a grid and a head dimension. All blocks of a network share one
// table; both decoders do too when their pictures have one size.
type ropeKey struct {
	graph.Rope
	headDim int
}

// ropeCache shares the rotation tables of a backend's programs.
type ropeCache struct {
	mu  sync.Mutex
	all map[ropeKey]*gemm.Rope
}

// get lays out the rotations of a row and of a column for each token of a grid.
func (c *ropeCache) get(r graph.Rope, headDim int) *gemm.Rope {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := ropeKey{r, headDim}
	if t := c.all[key]; t != nil {
		return t
	}
	q, tokens := headDim/4, r.Rows*r.Cols
	cos, sin := r.Rotations(headDim)
	t := &gemm.Rope{Cos: make([]float32, tokens*2*q), Sin: make([]float32, tokens*2*q)}
	for i := range tokens {
		for half, pos := range [2]int{i / r.Cols, i % r.Cols} {
			for j := range q {
				t.Cos[(i*2+half)*q+j], t.Sin[(i*2+half)*q+j] = float32(cos[pos*q+j]), float32(sin[pos*q+j])
			}
		}
	}
	if c.all == nil {
		c.all = map[ropeKey]*gemm.Rope{}
	}
	c.all[key] = t
	return t
}

// attentionStep is one gemm.Attention. q, k and v are usually three views of one
// projection's rows; the rotation happens while keys are packed and query rows
// are read, so that neither is written back.
type attentionStep struct {
	at            gemm.Attention
	q, k, v, o, m view
}

func (s *attentionStep) run(e *exec) error {
	a := &s.at
	a.Q, a.LDQ = e.f32(s.q), s.q.ld
	a.K, a.LDK = e.f32(s.k), s.k.ld
	a.V, a.LDV = e.f32(s.v), s.v.ld
	a.O, a.LDO = e.f32(s.o), s.o.ld
	if s.m.c > 0 {
		a.Mask, a.LDMask = e.f32(s.m), s.m.ld
	}
	a.Scratch = e.scratch
	a.Run(e.pool)
	return nil
}

// attention takes gemm's form for whole vectors of head elements and at most one
// mask for all heads.
func (l *lowering) attention(n *graph.Node, o graph.Attention) (step, error) {
	q, k, v := n.In[0].Shape, n.In[1].Shape, n.In[2].Shape
	hd := q[2] / o.Heads
	// One mask for all batch entries and heads is what the fast path knows.
	sharedMask := !o.Mask || n.In[3].Numel() == q[1]*k[1] && len(n.In[3].Shape) >= 2
	if hd < 8 || hd%8 != 0 || v[2] != q[2] || !sharedMask {
		return l.plainAttention(n, o)
	}
	s := &attentionStep{q: l.operand(n.In[0]), k: l.operand(n.In[1]), v: l.operand(n.In[2])}
	s.m = l.operands(n.In[3:], o.Mask)[0]
	s.o = l.result(n)
	s.at = gemm.Attention{Batch: q[0], Heads: o.Heads, HeadDim: hd, Nq: q[1], Nk: k[1], Scale: o.Scale}
	if l.opt.bf16 {
		s.at.Type = tensor.BF16
	}
	if o.QRope != nil {
		s.at.RopeQ = l.b.ropes.get(*o.QRope, hd)
	}
	if o.KRope != nil {
		s.at.RopeK = l.b.ropes.get(*o.KRope, hd)
	}
	l.needScratch(s.at.ScratchBytes(l.b.pool.Threads()))
	return s, nil
}

// plainAttention is attention as loops, one query of one head at a time, for
// head dimensions and masks that the networks do not have. Rotating every key
// again for every query is wasteful and keeps the scratch small.
type plainAttention struct {
	op            graph.Attention
	q, k, v, o, m view
	maskAt        rowMap
	ropeQ, ropeK  *gemm.Rope
	strip         int // scratch floats of a worker
	qd, kd, vd    []float32
	od, md        []float32
	e             *exec
	fn            func(w, t int)
}

func (l *lowering) plainAttention(n *graph.Node, o graph.Attention) (step, error) {
	s := &plainAttention{op: o, q: l.operand(n.In[0]), k: l.operand(n.In[1]), v: l.operand(n.In[2])}
	s.m = l.operands(n.In[3:], o.Mask)[0]
	s.o = l.result(n)
	hd := n.In[0].Shape[2] / o.Heads
	nk := n.In[1].Shape[1]
	if o.QRope != nil {
		s.ropeQ = l.b.ropes.get(*o.QRope, hd)
	}
	if o.KRope != nil {
		s.ropeK = l.b.ropes.get(*o.KRope, hd)
	}
	if o.Mask {
		s.maskAt = newRowMap(n.In[3].Shape, []int{n.Shape[0], o.Heads, n.Shape[1], nk})
	}
	s.strip = roundUp(nk+2*hd, 16)
	l.needScratch(l.b.pool.Threads() * s.strip * 4)
	s.fn = s.query
	return s, nil
}

func (s *plainAttention) run(e *exec) error {
	s.e = e
	s.qd, s.kd, s.vd, s.od = e.f32(s.q), e.f32(s.k), e.f32(s.v), e.f32(s.o)
	if s.op.Mask {
		s.md = e.f32(s.m)
	}
	e.pool.Run(s.q.rows*s.op.Heads, s.fn)
	return nil
}

// query computes one output row of one head.
func (s *plainAttention) query(w, t int) {
	heads, nq, nk := s.op.Heads, s.q.shape[1], s.k.shape[1]
	h, r := t%heads, t/heads
	b, i := r/nq, r%nq
	hd, hv := s.q.c/heads, s.v.c/heads
	mem := floats(s.e.scratch)[w*s.strip:][:s.strip]
	scores, q, k := mem[:nk], mem[nk:][:hd], mem[nk+hd:][:hd]
	turn(q, s.q.row(s.qd, r)[h*hd:][:hd], s.ropeQ, i)
	for j := range scores {
		turn(k, s.k.row(s.kd, b*nk+j)[h*hd:][:hd], s.ropeK, j)
		scores[j] = vec.Dot(q, k) * s.op.Scale
	}
	if s.op.Mask {
		m := s.m.row(s.md, s.maskAt.at((b*heads+h)*nq+i))
		for j := range scores {
			scores[j] += m[j%len(m)] // a mask row of one element repeats
		}
	}
	sum := vec.SoftmaxExp(scores, scores, 1)
	out := s.o.row(s.od, r)[h*hv:][:hv]
	clear(out)
	for j, p := range scores {
		vec.Axpy(out, s.v.row(s.vd, b*nk+j)[h*hv:][:hv], p)
	}
	vec.Scale(out, out, 1/sum)
}

// turn copies a head's row, rotated where there is a table.
func turn(dst, src []float32, r *gemm.Rope, token int) {
	if r == nil {
		copy(dst, src)
		return
	}
	q := len(src) / 4
	c, s := r.Cos[token*2*q:][:2*q], r.Sin[token*2*q:][:2*q]
	vec.RoPE2D(dst, src, c[:q], s[:q], c[q:], s[q:])
}

// ropeStep is a rotation on its own, where a graph wants to see rotated values.
type ropeStep struct {
	overTiles
	table     *gemm.Rope
	tokens, q int // q is a quarter of a head
	t         tiling
}

func (l *lowering) rope(n *graph.Node, o graph.RoPE) (step, error) {
	hd := n.Shape[2] / o.Heads
	s := &ropeStep{overTiles: l.from(n), tokens: n.Shape[1], q: hd / 4, table: l.b.ropes.get(o.Rope, hd)}
	s.t = newTiling(s.src.rows, s.src.c)
	s.tiles, s.fn = s.t.tiles, s.tile
	return s, nil
}

func (s *ropeStep) tile(_, t int) {
	q := s.q
	from, to := s.t.span(t)
	for r := from; r < to; r++ {
		i := r % s.tokens * 2 * q
		c, si := s.table.Cos[i:][:2*q], s.table.Sin[i:][:2*q]
		vec.RoPE2D(s.dst.row(s.y, r), s.src.row(s.x, r), c[:q], si[:q], c[q:], si[q:])
	}
}
