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
// A task takes a block of query rows of one head against all keys: the scores of
// the block stay in the second-level cache, so no online softmax is needed and
// nothing of size Nq x Nk exists. Before that, K and V of the head are packed into
// panels. Where they fit into that cache too, most heads are one task each, which
// packs for itself; the rest is packed for all and cut into blocks, so that all
// threads finish together.
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
	// rounds Q, K, V and the weights of the softmax but no sum; where RoundsBF16 of
	// HeadDim is false, it is F32.
	Type tensor.DType

	// Scratch has ScratchBytes(threads) bytes.
	Scratch []byte

	pack, fn func(worker, tile int)
	im       *impl
	g        attPlan
	kp, vp   Packed // describe the packed K and V of any head
	none     Epilogue
}

func (a *Attention) bf16() bool { return a.g.way != wayWide }

// attPlan is everything Run derives from the fields. Sizes are in floats.
type attPlan struct {
	rows, blocks int // query rows per block, blocks per head
	lds, ldq     int // row strides of the scores and of the rotated rows
	kSize, vSize int // packed K and V of one head
	whole        int // heads that are one task each, the first ones
	keys         int // that a packing task takes
	threads      int
	worker       int // scratch of one worker
	sums         int // of it, the sums on tiles
	way          way // float32 is the widest
}

// scoreBytes bounds the scores of a block.
const scoreBytes = 256 << 10

// maxQueryRows bounds the query rows of a block: four of the largest kernels.
const maxQueryRows = 56

// maxLanes is the number of largest scores that are kept of a row, see qargs.
const maxLanes = 8

// headBytes bounds the packed K and V of a head that a worker keeps to itself: with
// the scores, what a second-level cache of a megabyte holds.
const headBytes = 640 << 10

// packKeyRows is the number of keys that a packing task takes at most.
const packKeyRows = 4 * panelN

func (a *Attention) plan(threads int) {
	g, im := &a.g, active.Load()
	g.way, g.sums = wayWide, 0
	if a.Type == tensor.BF16 {
		g.way = im.bf16(a.HeadDim)
	}
	nk := (a.Nk + panelN - 1) / panelN * panelN
	// A stride that is an odd multiple of a cache line never crowds one set.
	g.lds, g.ldq = nk|16, (a.HeadDim+15)&^15|16
	if g.way == wayTiles { // whole groups of rows
		g.rows = max(tileRows, min(2*tileRows, ceil(a.Nq, tileRows), scoreBytes/(4*g.lds)/tileRows*tileRows))
		heads := a.Batch * a.Heads
		most := func(rows int) int { return mostTasks(heads*ceil(a.Nq, rows)/rows, threads) }
		// Half the rows, where that is less for the thread that has most.
		if heads <= threads && g.rows == 2*tileRows && most(tileRows) < 2*most(2*tileRows) {
			g.rows = tileRows
		}
		g.sums = tileSums(1, g.rows)
	} else {
		mr := im.sizes[0]
		g.rows = min(a.Nq, maxQueryRows/mr*mr, max(maxMR, scoreBytes/(4*g.lds))/mr*mr)
	}
	g.blocks = (a.Nq + g.rows - 1) / g.rows
	for g.keys = packKeyRows; g.keys > panelN && a.Batch*a.Heads*ceil(a.Nk, g.keys/2)/(g.keys/2) <= threads; {
		g.keys /= 2
	}
	g.kSize = nk * a.HeadDim
	g.vSize = (a.HeadDim + panelN - 1) / panelN * panelN * a.Nk
	if a.bf16() { // pairs; an odd number of keys is padded
		g.kSize /= 2
		g.vSize = (a.HeadDim + panelN - 1) / panelN * panelN * ((a.valueRows() + 1) / 2)
	}
	// Scores, largest scores, row sums, rotated queries, and one mask row; or rotated
	// keys.
	g.worker = max(g.rows*(g.lds+maxLanes+g.ldq)+(g.rows+15)&^15+nk, panelN*g.ldq)
	g.worker = (g.worker+15)&^15 + g.sums
	g.whole, g.threads = 0, threads
	if kv := g.kSize + g.vSize; 4*kv <= headBytes {
		// What every thread still has to do when the last whole head is taken is as
		// much as one head, in blocks.
		if g.whole = max(0, a.Batch*a.Heads-threads); g.whole > 0 {
			g.worker += kv
		}
	}
}

// mostTasks is how many tasks the thread with most of them has.
func mostTasks(tasks, threads int) int { return (tasks + threads - 1) / threads }

// valueRows is the number of packed rows of V: whole steps for tiles.
func (a *Attention) valueRows() int {
	if a.g.way == wayTiles {
		return ceil(a.Nk, tileK)
	}
	return a.Nk
}

// Check reports whether the fields fit together.
func (a *Attention) Check() error {
	if a.Batch < 1 || a.Heads < 1 || a.HeadDim < 8 || a.HeadDim%8 != 0 || a.Nq < 1 || a.Nk < 1 {
		return fmt.Errorf("gemm: attention: batch %d, %d heads of %d, %d queries, %d keys: %w",
			a.Batch, a.Heads, a.HeadDim, a.Nq, a.Nk, ErrShape)
	}
	if a.Type != tensor.Invalid && a.Type != tensor.F32 && a.Type != tensor.BF16 {
		return fmt.Errorf("gemm: attention in %v: %w", a.Type, ErrUnsupported)
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
	a.plan(threads)
	return 4 * ((a.Batch*a.Heads-a.g.whole)*(a.g.kSize+a.g.vSize) + threads*a.g.worker)
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
	shared := a.Batch*a.Heads - a.g.whole
	pool.Run(shared*((a.Nk-1)/a.g.keys+1), a.pack)
	pool.Run(a.g.whole+shared*a.g.blocks, a.fn)
}

// setPacked describes the packed operands of a head.
func (a *Attention) setPacked() {
	a.kp = Packed{Type: tensor.F32, N: a.Nk, K: a.HeadDim, Batch: 1, kind: kF32, stepSize: 1}
	if a.bf16() {
		a.kp.Type, a.kp.kind, a.kp.stepSize = tensor.BF16, kBF16, 2
	}
	a.vp = a.kp
	a.vp.N, a.vp.K = a.HeadDim, a.valueRows()
	a.kp.panel, a.vp.panel = 4*a.g.kSize/a.kp.panels(), 4*a.g.vSize/a.vp.panels()
}

// floats returns n floats of Scratch from float o on.
func (a *Attention) floats(o, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&a.Scratch[o*4])), n)
}

// memory returns the scratch of a worker and the packed K and V of a head.
func (a *Attention) memory(w, head int) (mem, k, v []float32) {
	g := &a.g
	kv := g.kSize + g.vSize
	mem = a.floats((a.Batch*a.Heads-g.whole)*kv+w*g.worker, g.worker)
	switch {
	case head >= g.whole:
		k = a.floats((head-g.whole)*kv, kv)
	default:
		k, mem = mem[:kv], mem[kv:]
	}
	return mem, k[:g.kSize], k[g.kSize:]
}

// packTile packs some keys of a head for all.
func (a *Attention) packTile(w, t int) {
	tiles := (a.Nk-1)/a.g.keys + 1
	a.packKeys(w, a.g.whole+t/tiles, t%tiles*a.g.keys, a.g.keys)
}

// tile computes a head that is a task of its own, or a block of query rows.
func (a *Attention) tile(w, t int) {
	g := &a.g
	if t >= g.whole {
		t -= g.whole
		a.block(w, g.whole+t/g.blocks, t%g.blocks*g.rows)
		return
	}
	a.packKeys(w, t, 0, a.Nk)
	for q0 := 0; q0 < a.Nq; q0 += g.rows {
		a.block(w, t, q0)
	}
}

// packKeys packs up to n keys of a head from j0 on: panels of K, and those rows of
// every panel of V.
func (a *Attention) packKeys(w, head, j0, n int) {
	b, h := head/a.Heads, head%a.Heads
	mem, k, v := a.memory(w, head)
	hd, ld := a.HeadDim, a.g.ldq
	st := mem[:panelN*ld]
	kb, vb := Bytes(k), Bytes(v)
	for end := min(a.Nk, j0+n); j0 < end; j0 += panelN {
		n := min(panelN, a.Nk-j0)
		if n < panelN {
			clear(st)
		}
		rotate(a.im, st, ld, a.K[(b*a.Nk+j0)*a.LDK+h*hd:], a.LDK, n, hd, a.RopeK, j0, 1)
		to := ld
		if a.bf16() {
			// All at once: the rows come to lie half as far apart, and a pair of
			// bfloat16 transposes like a float32.
			toBF16(a.im, unsafe.Pointer(&st[0]), st)
			to /= 2
		}
		transpose(a.im, kF32, kb[j0/panelN*a.kp.panel:], st, to, a.kp.steps())
		for p := range a.vp.panels() {
			src := a.V[(b*a.Nk+j0)*a.LDV+h*hd+p*panelN:]
			a.packValues(vb[p*a.vp.panel+j0/a.vp.stepSize*panelN*4:], src, n, min(panelN, hd-p*panelN))
		}
	}
}

// packValues packs n rows of a panel of V; as bfloat16, the rows 2i and 2i+1 are
// interleaved.
func (a *Attention) packValues(dst []byte, src []float32, n, cols int) {
	_ = src[(n-1)*a.LDV+cols-1]
	p := pargs{dst: unsafe.Pointer(&dst[0]), src: unsafe.Pointer(&src[0]), lds: uintptr(a.LDV * 4), n: n}
	if a.g.way == wayTiles && n < tileK {
		p.n = n
		a.packPadded(p, src, cols)
		return
	}
	if cols < panelN || a.bf16() && n%2 > 0 {
		a.packPadded(p, src, cols)
		return
	}
	a.packRows(&p)
}

// packPadded packs rows after it has filled them up with zeros.
func (a *Attention) packPadded(p pargs, src []float32, cols int) {
	var pad [panelN * panelN]float32
	for j := range p.n {
		copy(pad[j*panelN:][:cols], src[j*a.LDV:])
	}
	p.src, p.lds = unsafe.Pointer(&pad), panelN*4
	if a.g.way == wayTiles {
		p.n = tileK
	}
	a.packRows(&p)
}

func (a *Attention) packRows(p *pargs) {
	if a.bf16() {
		p.n = (p.n + 1) / 2
		pairBF16(p)
		return
	}
	copyRows(a.im, p)
}

// block computes the query rows of a head from q0 on.
func (a *Attention) block(w, head, q0 int) {
	g := &a.g
	b, h := head/a.Heads, head%a.Heads
	n := min(g.rows, a.Nq-q0)
	hd := a.HeadDim
	mem, k, v := a.memory(w, head)
	s, mem := mem[:g.rows*g.lds], mem[g.rows*g.lds:]
	top, mem := mem[:g.rows*maxLanes], mem[g.rows*maxLanes:]
	inv, mem := mem[:(g.rows+15)&^15], mem[(g.rows+15)&^15:]
	q, pad := mem[:g.rows*g.ldq], mem[g.rows*g.ldq:]
	pad, sums := pad[:len(pad)-g.sums], pad[len(pad)-g.sums:]
	scale := float32(float64(a.Scale) * math.Log2E) // see sargs
	rotate(a.im, q, g.ldq, a.Q[(b*a.Nq+q0)*a.LDQ+h*hd:], a.LDQ, n, hd, a.RopeQ, q0, scale)
	ldq := g.ldq * 4
	if a.bf16() {
		toBF16(a.im, unsafe.Pointer(&q[0]), q[:n*g.ldq])
		ldq /= 2
	}
	known := a.scores(s, top, unsafe.Pointer(&q[0]), ldq, unsafe.Pointer(&k[0]), head, q0, n)
	a.softmax(s, top, inv, pad, q0, n, known)
	pv := block{
		im: a.im, w: &a.vp, wdata: unsafe.Pointer(&v[0]), p1: a.vp.panels(),
		lines: 1, rows: n, a: unsafe.Pointer(&s[0]), lda: g.lds * 4,
		c: unsafe.Pointer(&a.O[(b*a.Nq+q0)*a.LDO+h*hd]), ldc: a.LDO * 4,
		off: noOff[:], steps: a.vp.steps(), ep: &a.none, scale: inv,
		tile: tileBlock{on: g.way == wayTiles, kstep: tileK * 2, next: tileRows * g.lds * 4, sums: sums},
	}
	pv.run()
}

// scores multiplies n rows of Q, ldq bytes apart, with all keys. It returns the
// number of rows for which top has the largest scores.
func (a *Attention) scores(s, top []float32, q unsafe.Pointer, ldq int, k unsafe.Pointer, head, q0, n int) (known int) {
	lds := a.g.lds * 4
	if a.g.way == wayTiles {
		a.tileScores(s, q, ldq, k, n)
		return 0
	}
	done := 0
	if groups := n / scoreRows; groups > 0 {
		for i := range top {
			top[i] = float32(math.Inf(-1))
		}
		args := qargs{lda: uintptr(ldq), ldc: uintptr(lds), steps: a.kp.steps(), groups: groups}
		for p := range a.kp.panels() {
			args.a, args.max = uintptr(q), uintptr(unsafe.Pointer(&top[0]))
			args.b, args.c = unsafe.Add(k, p*a.kp.panel), unsafe.Pointer(&s[p*panelN])
			args.next, args.ldn = a.ahead(head, q0, p, 2*groups)
			if !scores(a.im, a.kp.kind, &args) {
				break
			}
			done = groups * scoreRows
		}
	}
	if a.Mask == nil && a.Nk%panelN == 0 { // a mask changes scores, padding adds some
		known = done
	}
	if done == n {
		return known
	}
	qk := block{
		im: a.im, w: &a.kp, wdata: k, p1: a.kp.panels(), lines: 1, rows: n - done,
		a: unsafe.Add(q, done*ldq), lda: ldq, c: unsafe.Pointer(&s[done*a.g.lds]), ldc: lds,
		off: noOff[:], steps: a.kp.steps(), ep: &a.none,
	}
	qk.run()
	return known
}

// tileScores is scores on tiles: whole groups of rows, the last with what there is in
// memory after the others.
func (a *Attention) tileScores(s []float32, q unsafe.Pointer, ldq int, k unsafe.Pointer, n int) {
	lds := a.g.lds * 4
	tileProduct(&tkargs{
		a: q, lda: uintptr(ldq), kstep: tileK * 2, nexta: uintptr(tileRows * ldq),
		b: k, nextb: uintptr(a.kp.panel),
		c: unsafe.Pointer(&s[0]), ldc: uintptr(lds), nextc: uintptr(tileRows * lds),
		ini: unsafe.Pointer(&zeroRow), steps: a.HeadDim / tileK, groups: ceil(n, tileRows) / tileRows, panels: a.kp.panels(),
	}, tileRows)
}

// ahead returns the address to prefetch. While the scores of a block are computed,
// panel by panel, the queries of the next block are fetched, and the keys and values
// that this worker is likely to pack next: packing reads faster than memory delivers.
func (a *Attention) ahead(head, q0, p, n int) (next, ld uintptr) {
	third := (a.kp.panels() + 2) / 3
	x, stride, rows, row := a.Q, a.LDQ, a.Nq, q0+p%third*n
	if p < third {
		row += a.g.rows
	} else {
		if head += a.g.threads; head >= a.g.whole {
			return uintptr(unsafe.Pointer(&a.Q[0])), 0
		}
		if x, stride, rows = a.K, a.LDK, a.Nk; p >= 2*third {
			x, stride = a.V, a.LDV
		}
	}
	if row >= rows {
		return uintptr(unsafe.Pointer(&a.Q[0])), 0
	}
	return uintptr(unsafe.Pointer(&x[(head/a.Heads*rows+row)*stride+head%a.Heads*a.HeadDim])), uintptr(stride * 4)
}

// softmaxRows is the number of rows whose scores are in the first-level cache
// between the search for their largest and the exponentials.
const softmaxRows = 4

// softmax turns the scores of n queries from q0 on into weights, and inv into the
// inverse of their sums. The largest scores of the first known rows are in top.
func (a *Attention) softmax(s, top, inv, pad []float32, q0, n, known int) {
	nk := (a.Nk + panelN - 1) / panelN * panelN
	for i := 0; a.Nk < nk && i < n; i++ {
		for j := a.Nk; j < nk; j++ {
			s[i*a.g.lds+j] = float32(math.Inf(-1))
		}
	}
	for i := 0; i < n; {
		e := sargs{x: unsafe.Pointer(&s[i*a.g.lds]), n: nk, sum: unsafe.Pointer(&inv[i]), rows: min(softmaxRows, n-i),
			ld: uintptr(a.g.lds * 4), short: a.bf16()}
		switch {
		case a.Mask != nil:
			m := a.Mask[(q0+i)*a.LDMask:][:a.Nk]
			if a.Nk < nk {
				copy(pad, m)
				clear(pad[a.Nk:nk])
				m = pad
			}
			e.mask, e.rows = unsafe.Pointer(&m[0]), 1
		case i < known:
			e.max, e.rows = unsafe.Pointer(&top[i*maxLanes]), known-i
		}
		softmax(a.im, &e)
		i += e.rows
	}
	for i, sum := range inv[:n] {
		inv[i] = 1 / sum
	}
}

// rotate copies n rows of a head to dst, rotated by the angles of the tokens from
// token on and scaled.
func rotate(im *impl, dst []float32, ldd int, src []float32, lds, n, hd int, r *Rope, token int, scale float32) {
	_, _ = dst[(n-1)*ldd+hd-1], src[(n-1)*lds+hd-1]
	if r == nil {
		for i := range n {
			scaleRow(im, dst[i*ldd:][:hd], src[i*lds:][:hd], scale)
		}
		return
	}
	half := hd / 2
	cos, sin := r.Cos[token*half:][:n*half], r.Sin[token*half:][:n*half]
	if rotateFast(im, &rargs{dst: unsafe.Pointer(&dst[0]), src: unsafe.Pointer(&src[0]), cos: unsafe.Pointer(&cos[0]),
		sin: unsafe.Pointer(&sin[0]), q: hd / 4, scale: scale, rows: n, ldd: uintptr(ldd * 4), lds: uintptr(lds * 4)}) {
		return
	}
	for i := range n {
		rotateRow(dst[i*ldd:][:hd], src[i*lds:][:hd], cos[i*half:][:half], sin[i*half:][:half], scale)
	}
}

func rotateRow(dst, src, cos, sin []float32, scale float32) {
	half := len(src) / 2
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
