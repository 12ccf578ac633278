// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Rope holds rotation tables, one row of HeadDim/2 values per token: the first
// half belongs to the token's row in the grid and rotates the first half of a
// head, the second half to its column. Within a half of a head, the pairs are
// (j, j+HeadDim/4). Row stride HeadDim/2; the table serves every batch entry.
type Rope struct {
	Cos, Sin []float32
}

// Attention is O = softmax(Scale * rope(Q)·rope(K)ᵀ + Mask) · V for every batch
// entry and head. Row b*Nq+i of Q and O, and row b*Nk+j of K and V, hold the
// heads side by side, HeadDim values each; the strides let them be parts of one
// wider matrix. O may be Q, but not K or V.
//
// First K and V are packed into panels and the rows of Q are rotated and scaled,
// head by head. Then a task takes a block of query rows against all keys: the
// scores of the block stay in the second-level cache, so no online softmax is
// needed and nothing of size Nq x Nk exists.
type Attention struct {
	Batch, Heads, HeadDim int
	Nq, Nk                int
	Q, K, V, O            []float32
	LDQ, LDK, LDV, LDO    int
	Scale                 float32
	RopeQ, RopeK          *Rope
	Mask                  []float32 // [Nq][Nk] or nil; for all batch entries and heads
	LDMask                int
	// Type is the type in which products are computed: F32 (or 0), or BF16, which
	// rounds Q, K, V and the weights of the softmax but no sum.
	Type tensor.DType

	// Scratch has ScratchBytes(threads) bytes.
	Scratch []byte

	pack, fn func(worker, tile int)
	im       *impl
	g        attPlan
	kp, vp   Packed
	none     Epilogue
}

func (a *Attention) bf16() bool { return a.Type == tensor.BF16 }

// attPlan is everything Run derives from the fields. Sizes are in floats.
type attPlan struct {
	rows, blocks        int // query rows per task, tasks per head
	groups              int // of packHeads heads
	lds, ldq            int // row strides of the scores and of the rotated queries
	kSize, vSize, qSize int // packed K and V and rotated Q of one head
	worker              int // scratch of one worker
}

// packHeads is the number of heads that a packing task takes: with their rows side
// by side, several heads make use of whole pages and of the processor's prefetch.
const packHeads = 4

// scoreBytes bounds the scores of a task.
const scoreBytes = 256 << 10

// maxQueryRows bounds the query rows of a task: about four of the largest kernels.
const maxQueryRows = 56

func (a *Attention) plan() {
	g := &a.g
	nk := (a.Nk + panelN - 1) / panelN * panelN
	// A stride that is an odd multiple of a cache line never crowds one set.
	g.lds, g.ldq = nk|16, (a.HeadDim+15)&^15|16
	mr := active.Load().sizes[0]
	g.rows = min(a.Nq, maxQueryRows/mr*mr, max(maxMR, scoreBytes/(4*g.lds))/mr*mr)
	g.blocks = (a.Nq + g.rows - 1) / g.rows
	g.kSize = nk * a.HeadDim
	g.vSize = (a.HeadDim + panelN - 1) / panelN * panelN * a.Nk
	if a.bf16() { // pairs; an odd number of keys is padded
		g.kSize /= 2
		g.vSize = (a.HeadDim + panelN - 1) / panelN * panelN * ((a.Nk + 1) / 2)
	}
	g.qSize = (a.Nq*g.ldq + 15) &^ 15
	g.groups = (a.Heads + packHeads - 1) / packHeads
	// Scores, row factors and one mask row; or the stage for rotated keys.
	g.worker = max(g.rows*g.lds+(g.rows+15)&^15+nk, panelN*g.ldq)
	g.worker = (g.worker + 15) &^ 15
}

// Check reports whether the fields fit together.
func (a *Attention) Check() error {
	if a.Batch < 1 || a.Heads < 1 || a.HeadDim < 8 || a.HeadDim%8 != 0 || a.Nq < 1 || a.Nk < 1 {
		return fmt.Errorf("gemm: attention: batch %d, %d heads of %d, %d queries, %d keys: %w",
			a.Batch, a.Heads, a.HeadDim, a.Nq, a.Nk, ErrShape)
	}
	if a.Type != tensor.Invalid && a.Type != tensor.F32 && !(a.bf16() && Supports(a.Type)) {
		return fmt.Errorf("gemm: attention in %v with %v: %w", a.Type, Active(), ErrUnsupported)
	}
	width, ok := product(a.Heads, a.HeadDim)
	nq, ok1 := product(a.Batch, a.Nq)
	nk, ok2 := product(a.Batch, a.Nk)
	if !ok || !ok1 || !ok2 {
		return fmt.Errorf("gemm: attention: size overflows: %w", ErrShape)
	}
	for _, x := range []struct {
		what     string
		data     []float32
		rows, ld int
	}{{"attention Q", a.Q, nq, a.LDQ}, {"attention K", a.K, nk, a.LDK}, {"attention V", a.V, nk, a.LDV}, {"attention O", a.O, nq, a.LDO}} {
		if err := checkRows(x.what, x.data, x.rows, width, x.ld); err != nil {
			return err
		}
	}
	if a.Mask != nil {
		if err := checkRows("attention mask", a.Mask, a.Nq, a.Nk, a.LDMask); err != nil {
			return err
		}
	}
	if err := a.RopeQ.check(a.Nq, a.HeadDim); err != nil {
		return err
	}
	return a.RopeK.check(a.Nk, a.HeadDim)
}

func (r *Rope) check(tokens, headDim int) error {
	if r == nil {
		return nil
	}
	if n := tokens * headDim / 2; len(r.Cos) < n || len(r.Sin) < n {
		return fmt.Errorf("gemm: rope tables of %d and %d values for %d tokens, want %d: %w",
			len(r.Cos), len(r.Sin), tokens, n, ErrShape)
	}
	return nil
}

// ScratchBytes returns the bytes of Scratch that Run needs on a pool of that many
// threads. The shape fields must be set.
func (a *Attention) ScratchBytes(threads int) int {
	a.plan()
	return 4 * (a.Batch*a.Heads*(a.g.kSize+a.g.vSize+a.g.qSize) + threads*a.g.worker)
}

// Run computes O. It panics if Check or the size of Scratch would report an
// error: both are mistakes of the program, known before its first run.
func (a *Attention) Run(pool *par.Pool) {
	if err := a.Check(); err != nil {
		panic(err)
	}
	checkScratch("attention", a.Scratch, a.ScratchBytes(pool.Threads()))
	if a.fn == nil {
		a.pack, a.fn = a.packTile, a.tile
	}
	a.im = active.Load()
	a.setPacked()
	pool.Run(a.Batch*a.g.groups*(a.kp.panels()+(a.Nq-1)/panelN+1), a.pack)
	pool.Run(a.Batch*a.Heads*a.g.blocks, a.fn)
}

// setPacked describes the packed operands in Scratch.
func (a *Attention) setPacked() {
	heads := a.Batch * a.Heads
	kb, vb := 4*a.g.kSize, 4*a.g.vSize
	a.kp = Packed{Type: tensor.F32, N: a.Nk, K: a.HeadDim, Batch: heads, data: a.Scratch[:heads*kb],
		stride: kb, kind: kF32, stepSize: 1}
	if a.bf16() {
		a.kp.Type, a.kp.kind, a.kp.stepSize = tensor.BF16, kBF16, 2
	}
	a.vp = a.kp
	a.vp.N, a.vp.K, a.vp.data, a.vp.stride = a.HeadDim, a.Nk, a.Scratch[heads*kb:][:heads*vb], vb
	a.kp.panel, a.vp.panel = kb/a.kp.panels(), vb/a.vp.panels()
}

// floats returns n floats of Scratch from float o on.
func (a *Attention) floats(o, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&a.Scratch[o*4])), n)
}

// workerFloats returns the scratch of one worker.
func (a *Attention) workerFloats(w int) []float32 {
	heads := a.Batch * a.Heads
	return a.floats(heads*(a.g.kSize+a.g.vSize+a.g.qSize)+w*a.g.worker, a.g.worker)
}

// queries returns the rotated rows of Q of one head.
func (a *Attention) queries(head int) []float32 {
	heads := a.Batch * a.Heads
	return a.floats(heads*(a.g.kSize+a.g.vSize)+head*a.g.qSize, a.g.qSize)
}

// packTile prepares 32 keys, or 32 queries, of some heads of a batch entry.
func (a *Attention) packTile(w, t int) {
	group := t % a.g.groups
	t /= a.g.groups
	b, t := t%a.Batch, t/a.Batch
	for h := group * packHeads; h < min(a.Heads, (group+1)*packHeads); h++ {
		if t < a.kp.panels() {
			a.packKeys(w, b, h, t)
		} else {
			a.rotateQueries(b, h, (t-a.kp.panels())*panelN)
		}
	}
}

// rotateQueries prepares up to 32 rows of Q from q0 on.
func (a *Attention) rotateQueries(b, h, q0 int) {
	scale := float32(float64(a.Scale) * math.Log2E) // see sargs
	q := a.queries(b*a.Heads + h)
	for i := q0; i < min(a.Nq, q0+panelN); i++ {
		src := a.Q[(b*a.Nq+i)*a.LDQ+h*a.HeadDim:][:a.HeadDim]
		row := q[i*a.g.ldq:][:a.g.ldq]
		rotate(a.im, row[:a.HeadDim], src, a.RopeQ, i, scale)
		if a.bf16() {
			a.roundRow(row)
		}
	}
}

// packKeys packs 32 keys of one head: a panel of K, and those rows of every panel
// of V.
func (a *Attention) packKeys(w, b, h, pi int) {
	head := b*a.Heads + h
	j0 := pi * panelN
	n := min(panelN, a.Nk-j0)
	hd, ld := a.HeadDim, a.g.ldq
	st := a.workerFloats(w)[:panelN*ld]
	for j := range n {
		src := a.K[(b*a.Nk+j0+j)*a.LDK+h*hd:][:hd]
		rotate(a.im, st[j*ld:][:hd], src, a.RopeK, j0+j, 1)
	}
	clear(st[n*ld:])
	steps := a.kp.steps()
	if a.bf16() {
		for j := range n {
			a.roundRow(st[j*ld:][:ld])
		}
	}
	// A pair of bfloat16 transposes like a float32.
	transpose(a.im, kF32, a.kp.data[head*a.kp.stride+pi*a.kp.panel:], st, ld, steps)
	for p := range a.vp.panels() {
		cols := min(panelN, hd-p*panelN)
		src := a.V[(b*a.Nk+j0)*a.LDV+h*hd+p*panelN:]
		dst := a.vp.data[head*a.vp.stride+p*a.vp.panel+j0/a.vp.stepSize*panelN*4:]
		if a.bf16() {
			a.packPairs(dst, src, n, cols)
			continue
		}
		rows := unsafe.Slice((*float32)(unsafe.Pointer(&dst[0])), n*panelN)
		for j := range n {
			row := rows[j*panelN:][:panelN]
			copy(row[:cols], src[j*a.LDV:])
			clear(row[cols:])
		}
	}
}

// roundRow rounds a row of Q or K to bfloat16 in place.
func (a *Attention) roundRow(row []float32) {
	n := (a.HeadDim + 15) &^ 15
	clear(row[a.HeadDim:n])
	toBF16(a.im, unsafe.Pointer(&row[0]), row[:n])
}

// packPairs interleaves the rows 2i and 2i+1 of a panel of V as bfloat16.
func (a *Attention) packPairs(dst []byte, src []float32, n, cols int) {
	for j := 0; j < n; j += 2 {
		var rows [2 * panelN]float32
		copy(rows[:cols], src[j*a.LDV:])
		if j+1 < n {
			copy(rows[panelN:][:cols], src[(j+1)*a.LDV:])
		}
		pairBF16(a.im, dst[j/2*panelN*4:][:panelN*4], &rows)
	}
}

// tile computes a block of query rows of one head.
func (a *Attention) tile(w, t int) {
	g := &a.g
	q0, head := t%g.blocks*g.rows, t/g.blocks
	b, h := head/a.Heads, head%a.Heads
	n := min(g.rows, a.Nq-q0)
	hd := a.HeadDim
	mem := a.workerFloats(w)
	s, mem := mem[:g.rows*g.lds], mem[g.rows*g.lds:]
	inv, mem := mem[:(g.rows+15)&^15], mem[(g.rows+15)&^15:]
	qk := block{
		im: a.im, w: &a.kp, wdata: unsafe.Pointer(&a.kp.data[head*a.kp.stride]), p1: a.kp.panels(),
		lines: 1, rows: n, a: unsafe.Pointer(&a.queries(head)[q0*g.ldq]), lda: g.ldq * 4, c: unsafe.Pointer(&s[0]), ldc: g.lds * 4,
		off: noOff[:], steps: a.kp.steps(), ep: &a.none,
	}
	qk.run()
	for i := range n {
		inv[i] = 1 / a.softmax(s[i*g.lds:], mem, q0+i)
	}
	pv := block{
		im: a.im, w: &a.vp, wdata: unsafe.Pointer(&a.vp.data[head*a.vp.stride]), p1: a.vp.panels(),
		lines: 1, rows: n, a: unsafe.Pointer(&s[0]), lda: g.lds * 4,
		c: unsafe.Pointer(&a.O[(b*a.Nq+q0)*a.LDO+h*hd]), ldc: a.LDO * 4,
		off: noOff[:], steps: a.vp.steps(), ep: &a.none, scale: inv,
	}
	pv.run()
}

// softmax turns the scores of query i into weights and returns their sum.
func (a *Attention) softmax(s, pad []float32, i int) float32 {
	nk := (a.Nk + panelN - 1) / panelN * panelN
	for j := a.Nk; j < nk; j++ {
		s[j] = float32(math.Inf(-1))
	}
	e := sargs{x: unsafe.Pointer(&s[0]), n: nk}
	if a.Mask != nil {
		m := a.Mask[i*a.LDMask:][:a.Nk]
		if a.Nk < nk {
			copy(pad, m)
			clear(pad[a.Nk:nk])
			m = pad
		}
		e.mask = unsafe.Pointer(&m[0])
	}
	softmax(a.im, &e)
	if a.bf16() {
		toBF16(a.im, e.x, s[:nk])
	}
	return e.sum
}

// rotate copies a head's row to dst, rotated by token's angles and scaled.
func rotate(im *impl, dst, src []float32, r *Rope, token int, scale float32) {
	if r == nil {
		scaleRow(im, dst, src, scale)
		return
	}
	half := len(src) / 2
	cos, sin := r.Cos[token*half:][:half], r.Sin[token*half:][:half]
	if rotateFast(im, dst, src, cos, sin, scale) {
		return
	}
	q := half / 2
	for h := 0; h < 2; h++ {
		for j := range q {
			u, v := src[h*half+j], src[h*half+q+j]
			c, s := cos[h*q+j], sin[h*q+j]
			dst[h*half+j] = float32(u*c-float32(v*s)) * scale
			dst[h*half+q+j] = float32(v*c+float32(u*s)) * scale
		}
	}
}
