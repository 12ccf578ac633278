// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// MatMul is C[M][N] = epilogue(A[M][K] · W[N][K]ᵀ), or a batch of such products.
type MatMul struct {
	M   int
	A   []float32
	LDA int // row stride of A; not a multiple of 1024 for best speed
	W   *Packed
	// Fresh is the second operand where it is not packed yet: W comes from Layout,
	// and Run packs into Scratch.
	Fresh *Source
	C     []float32
	LDC   int
	Epilogue

	// Batch > 1 repeats the product with A, C and Res moved on by their strides.
	// W.Batch is 1 (shared weights) or Batch.
	Batch                     int
	StrideA, StrideC, StrideR int

	// Scratch has ScratchBytes(threads) bytes; nil where that is 0.
	Scratch []byte

	fn, packFn, tileFn func(worker, tile int)
	im                 *impl
	part               partition
	bytes              workerBytes
	job                packJob
	data               []byte   // packed
	scratch            []byte   // of the workers
	a16                []byte   // the first operand for tiles
	small              struct { // see splitSmall
		shape [5]int
		part  partition
	}
}

// blockBytes bounds the part of A that one task keeps in the second-level cache
// beside a panel of W. Sizes between 192 and 512 KiB were measured alike.
const blockBytes = 384 << 10

// maxBlockRows bounds the rows of a task where K is small.
const maxBlockRows = 192

// maxSteps bounds the piece of K taken at a time: 1024 steps of a panel are 128
// KiB. Without the bound, K = 4096 would need half a megabyte per panel, read for
// few rows at a time.
const maxSteps = 1024

// wideRows is how many rows a task must have for panels in float16 to be widened
// before they are used: once for all of its rows instead of once for each group of
// rows, which costs 6 % of the multiplications on Zen 4.
const wideRows = 56

// partition is a grid of tasks: mb blocks of mc rows, nb groups of nc panels; K is
// taken in pieces of kc steps.
type partition struct {
	mc, mb, nc, nb, kc int

	way  way  // for weights in bfloat16
	tidy bool // tasks copy their rows of A
	own  bool // tasks pack their panels
	thin bool // and that only in part

	round bool // on tiles: tasks round their rows of A
}

// taskWork is the least work of a task, in cycles: about ten times what it takes
// another thread to join in between two steps of a network.
const taskWork = 40e3

// threadTasks is how many tasks a thread should get, so that the threads end
// within a few hundredths of the time of each other.
const threadTasks = 16

// split cuts a product into tasks of 0.01 to 1 ms that give every thread a few.
// Which elements share a task never changes their value.
func (m *MatMul) split(im *impl, threads int) partition {
	rows := max(m.M, 1)
	mr, panels, batch := im.sizes[0], m.W.panels(), max(m.Batch, 1)
	p := partition{nc: min(8, panels), way: m.way(im)}
	if p.way == wayTiles {
		m.splitTiles(&p, threads)
		return p
	}
	steps := m.steps(p.way)
	p.kc = steps
	p.tidy = p.way != wayVector && rows > thinRows && panels >= tidyPanels && crowded(m.LDA*4, min(rows, mr))
	p.own = m.Fresh != nil && rows <= ownRows && (rows <= 2*mr || panels*batch >= threads)
	switch {
	case p.own:
		p.thin = rows <= thinRows && m.Fresh.columns(m.W)
		p.ownPanels(rows, steps, panels)
	case p.way == wayVector:
		// Each task rounds its rows of A, all of K at once: spread over more columns.
		p.nc = min(16, panels)
	case steps > maxSteps*5/4:
		pieces := (steps + maxSteps - 1) / maxSteps
		p.kc = ((steps+pieces-1)/pieces + 3) &^ 3
	}
	if p.tidy && !p.own {
		p.nc = min(16, panels) // a copied row serves more columns
	}
	mc := rows
	if !p.own {
		mc = min(max(blockBytes/(4*p.kc), 3*mr), maxBlockRows, rows)
	}
	tasks := threadTasks * threads
	if p.thin {
		tasks = threads // long rows matter more
	}
	work := float64(panels) * float64(steps) * float64(batch) * float64(2*max(rows, 4)+8)
	for {
		mb := (rows + mc - 1) / mc
		even := (rows + mb - 1) / mb
		p.mc = min(rows, (even+mr-1)/mr*mr)
		p.mb, p.nb = (rows+p.mc-1)/p.mc, (panels+p.nc-1)/p.nc
		n := p.mb * p.nb * batch
		switch {
		case threads == 1 || n >= tasks || float64(n)*taskWork >= work:
			return p
		case p.nc > 2:
			p.nc = (p.nc + 1) / 2
		case mc > 2*mr && !p.own:
			mc = max(2*mr, mc/2)
		case p.nc > 1:
			p.nc = 1
		default:
			return p
		}
	}
}

// way is how the product runs; float32 is the widest.
func (m *MatMul) way(im *impl) way {
	if m.W.kind != kBF16 {
		return wayWide
	}
	return im.bf16(m.W.K)
}

// steps is the number of steps of the kernels over a row.
func (m *MatMul) steps(w way) int {
	if w == wayVector {
		return m.W.steps()
	}
	return m.W.K
}

// ScratchBytes returns the bytes of Scratch that Run needs on a pool of that many
// threads. Scratch holds rounded or re-spaced rows of A, partial sums when K is
// split, and operands packed on the fly; otherwise it is 0. M, LDA, W, Fresh (set
// or not) and Batch must be as in Run.
func (m *MatMul) ScratchBytes(threads int) int {
	p := m.split(active.Load(), threads)
	return m.packedBytes(p) + threads*m.workerBytes(p).total
}

// packedBytes is what Run packs before it multiplies: the second operand, or for
// tiles the first.
func (m *MatMul) packedBytes(p partition) int {
	if p.way == wayTiles && p.round {
		return 0
	}
	if p.way == wayTiles {
		return max(m.Batch, 1) * m.tileBytes()
	}
	if m.Fresh == nil || p.own {
		return 0
	}
	return m.W.stride * m.W.Batch
}

// workerBytes says where a worker's scratch begins for each use.
type workerBytes struct{ tidy, own, wide, total int }

func (m *MatMul) workerBytes(p partition) (w workerBytes) {
	switch p.way {
	case wayTiles:
		w.total = tileSums(1, p.mc) * 4
		if w.own = w.total; p.round {
			w.total += ceil(p.mc, tileRows) * m.W.K * 2
		}
		return w
	case wayVector:
		w.total = p.mc * bf16Row(m.W.K)
		return w
	}
	if p.kc < m.W.K {
		w.total = p.mc * p.nc * panelN * 4
	}
	w.tidy = w.total
	if p.tidy {
		w.total += p.mc * tidyLD(p.kc) * 4
	}
	w.own = w.total
	if p.own {
		w.total += p.nc * p.kc * panelN * 4
	}
	w.wide = w.total
	if m.widens(p) {
		w.total += ceil(p.kc, 2) * panelN * 4
	}
	return w
}

// widens reports whether tasks widen panels: those in bfloat16 always, since there
// are no kernels that read them.
func (m *MatMul) widens(p partition) bool {
	return m.W.kind == kF16 && p.mc >= wideRows || m.W.kind == kBF16 && p.way == wayWide
}

// bf16Row is the row stride in bytes of k values rounded to bfloat16: room for
// whole vectors, and never a multiple of 4096, which would put all rows of a
// tile into one cache set.
func bf16Row(k int) int { return (k+15)/16*32 + 64 }

// Check reports whether the fields fit together.
func (m *MatMul) Check() error {
	if m.W == nil {
		return fmt.Errorf("gemm: product without weights: %w", ErrShape)
	}
	batch := max(m.Batch, 1)
	if m.W.Batch != 1 && m.W.Batch != batch || m.StrideA < 0 || m.StrideC < 0 || m.StrideR < 0 {
		return fmt.Errorf("gemm: batch %d with %d weight matrices: %w", batch, m.W.Batch, ErrShape)
	}
	if !Supports(m.W.Type) {
		return fmt.Errorf("gemm: %v weights with %v: %w", m.W.Type, Active(), ErrUnsupported)
	}
	if (m.W.data == nil) != (m.Fresh != nil) {
		return fmt.Errorf("gemm: second operand packed: %v, to be packed: %v: %w", m.W.data != nil, m.Fresh != nil, ErrShape)
	}
	if m.Fresh != nil {
		if err := m.Fresh.check(m.W); err != nil {
			return err
		}
	}
	for _, x := range []struct {
		what   string
		data   []float32
		n, ld  int
		stride int
	}{
		{"A", m.A, m.W.K, m.LDA, m.StrideA},
		{"C", m.C, m.W.N, m.LDC, m.StrideC},
	} {
		last, ok := product(batch-1, x.stride)
		if !ok || last > len(x.data) {
			return fmt.Errorf("gemm: %s: %d values for %d matrices, %d apart: %w", x.what, len(x.data), batch, x.stride, ErrShape)
		}
		if err := checkRows(x.what, x.data[last:], m.M, x.n, x.ld); err != nil {
			return err
		}
	}
	ep := m.Epilogue
	if last, ok := product(batch-1, m.StrideR); ep.Res != nil {
		if !ok || last > len(ep.Res) {
			return fmt.Errorf("gemm: residual: %d values for %d matrices, %d apart: %w", len(ep.Res), batch, m.StrideR, ErrShape)
		}
		ep.Res = ep.Res[last:]
	}
	return ep.check(m.M, m.W.N)
}

// Run computes C. It panics if Check or the size of Scratch would report an
// error: both are mistakes of the program, known before its first run.
func (m *MatMul) Run(pool *par.Pool) {
	if err := m.Check(); err != nil {
		panic(err)
	}
	m.im = active.Load()
	m.part = m.split(m.im, pool.Threads())
	m.bytes = m.workerBytes(m.part)
	n := m.packedBytes(m.part)
	checkScratch("product", m.Scratch, n+pool.Threads()*m.bytes.total)
	if m.fn == nil {
		m.fn, m.packFn, m.tileFn = m.tile, m.job.tile, m.spread
	}
	m.data, m.scratch = m.W.data, m.Scratch[n:]
	switch {
	case m.part.round:
	case m.part.way == wayTiles:
		m.a16 = m.Scratch[:n]
		pool.Run(max(m.Batch, 1)*ceil(m.M, tileRows)/tileRows, m.tileFn)
	case n > 0:
		m.data = m.Scratch[:n]
		m.job = newPackJob(m.im, m.W, m.Fresh, m.data)
		pool.Run(m.job.tiles(), m.packFn)
	}
	pool.Run(m.part.mb*m.part.nb*max(m.Batch, 1), m.fn)
}

// tile computes one task. Tasks are numbered row block first: neighbours in time
// share panels of W, the larger operand.
func (m *MatMul) tile(worker, t int) {
	p := &m.part
	r0 := t % p.mb * p.mc
	g := t / p.mb % p.nb
	bi := t / (p.mb * p.nb)
	b := block{
		im: m.im, w: m.W,
		p0: g * p.nc, p1: min(m.W.panels(), (g+1)*p.nc),
		lines: 1, rows: min(p.mc, m.M-r0),
		a:   unsafe.Pointer(&m.A[bi*m.StrideA+r0*m.LDA]),
		lda: m.LDA * 4,
		c:   unsafe.Pointer(&m.C[bi*m.StrideC+r0*m.LDC]),
		ldc: m.LDC * 4,
		off: noOff[:], steps: m.steps(p.way), ep: &m.Epilogue, kc: p.kc,
	}
	scratch := m.scratch[worker*m.bytes.total:][:m.bytes.total]
	if p.kc < b.steps && p.way != wayTiles {
		b.part = unsafe.Slice((*float32)(unsafe.Pointer(&scratch[0])), p.mc*p.nc*panelN)
	}
	if p.tidy {
		b.tidy = unsafe.Pointer(&scratch[m.bytes.tidy])
	}
	if m.widens(*p) {
		b.wide = unsafe.Slice((*float32)(unsafe.Pointer(&scratch[m.bytes.wide])), ceil(p.kc, 2)*panelN)
	}
	if p.own {
		b.fresh = freshPanels{src: m.Fresh, b: bi % m.W.Batch, mem: scratch[m.bytes.own:]}
		b.thin = p.thin
	} else {
		b.wdata = unsafe.Pointer(&m.data[bi%m.W.Batch*m.W.stride])
	}
	if m.Res != nil {
		b.res, b.ldr = unsafe.Pointer(&m.Res[bi*m.StrideR+r0*m.LDR]), m.LDR*4
	}
	switch p.way {
	case wayTiles:
		m.onTiles(&b, bi, r0, scratch)
	case wayVector:
		ld := bf16Row(m.W.K)
		for i := range b.rows {
			roundRow(m.im, scratch[i*ld:][:ld], m.A[bi*m.StrideA+(r0+i)*m.LDA:][:m.W.K])
		}
		b.a, b.lda = unsafe.Pointer(&scratch[0]), ld
	}
	b.run()
}

// splitTiles chooses the tasks of a product on tiles. A task keeps its rows of A, in
// bfloat16, and a panel in the second-level cache.
func (m *MatMul) splitTiles(p *partition, threads int) {
	const least = 2 * tileRows
	rows, panels, batch := max(m.M, 1), m.W.panels(), max(m.Batch, 1)
	p.kc = m.W.K
	if m.splitSmall(p, threads) {
		return
	}
	mc := min(max(tileABytes/(2*m.W.K)/tileRows*tileRows, least), maxBlockRows)
	for {
		mb := (rows + mc - 1) / mc
		p.mc = ceil((rows+mb-1)/mb, tileRows)
		p.mb, p.nb = (rows+p.mc-1)/p.mc, (panels+p.nc-1)/p.nc
		work := float64(p.mc*p.nc) * float64(m.W.K) / tileRate
		switch {
		case threads == 1 || p.mb*p.nb*batch >= tileTasks*threads || work < taskWork:
			return
		case p.nc > 4:
			p.nc = (p.nc + 1) / 2
		case mc > least:
			mc = max(least, mc/2)
		case p.nc > 1:
			p.nc = (p.nc + 1) / 2
		default:
			return
		}
	}
}

// splitSmall chooses the tasks of a product of which every thread gets one or two: what they
// move takes longer than what they compute, and rows are rounded where they are used, since
// another round of all threads costs more. It reports whether the product is so small.
func (m *MatMul) splitSmall(p *partition, threads int) bool {
	rows, panels, batch := max(m.M, 1), m.W.panels(), max(m.Batch, 1)
	if work := float64(ceil(rows, tileRows)*panels*batch) * float64(m.W.K) / tileRate; threads == 1 || work > float64(threads)*taskWork {
		return false
	}
	shape := [...]int{rows, panels, batch, m.W.K, threads}
	if m.small.shape == shape {
		*p = m.small.part
		return true
	}
	best := math.Inf(1)
	p.round = true
	for mc := tileRows; mc < min(rows, maxBlockRows)+tileRows; mc += tileRows {
		for nc := 1; nc <= panels; nc++ {
			mb, nb := (rows+mc-1)/mc, (panels+nc-1)/nc
			a, w, c := mc*m.W.K*4, nc*panelN*m.W.K*2, mc*nc*panelN*6 // half of them have a residual
			task := float64(mc*nc)*float64(m.W.K)/tileRate + float64(a+c)/dirtyRate + float64(w)/cleanRate + taskWork/20
			if t := float64(mostTasks(mb*nb*batch, threads)) * task; t < best {
				best, p.mc, p.nc, p.mb, p.nb = t, mc, nc, mb, nb
			}
		}
	}
	m.small.shape, m.small.part = shape, *p
	return true
}

// Bytes a cycle that a thread gets of what other cores have just written, and of weights.
const (
	dirtyRate = 4
	cleanRate = 8
)

// tileABytes bounds the rows of A of a task on tiles, tileRate is about the products
// of rows and panels that a thread does in a cycle, and tileTasks the tasks that a
// thread should get.
const (
	tileABytes = 512 << 10
	tileRate   = 8
	tileTasks  = 6
)

// tileBytes are those of the first operand, groups of rows in steps of 32 values.
func (m *MatMul) tileBytes() int { return ceil(m.M, tileRows) * m.W.K * 2 }

// spread rounds a group of rows for tiles: [K/32][32 rows][32].
func (m *MatMul) spread(_, t int) {
	groups := ceil(m.M, tileRows) / tileRows
	b, r0 := t/groups, t%groups*tileRows
	m.spreadRows(m.a16[b*m.tileBytes()+r0*m.W.K*2:], b, r0)
}

// spreadRows rounds the group of rows from r0 on.
func (m *MatMul) spreadRows(dst []byte, b, r0 int) {
	s := spargs{n: m.W.K, step: tileRows * tileK * 2, floor: float32(math.Inf(-1))}
	for i := range min(tileRows, m.M-r0) {
		s.dst = unsafe.Pointer(&dst[i*tileK*2])
		s.src = unsafe.Pointer(&m.A[b*m.StrideA+(r0+i)*m.LDA:][:m.W.K][0])
		spreadBF16(&s)
	}
}

// onTiles points a task at the rounded rows.
func (m *MatMul) onTiles(b *block, bi, r0 int, scratch []byte) {
	b.steps = m.W.steps()
	if m.part.round {
		own := scratch[m.bytes.own:]
		for i := 0; i < b.rows; i += tileRows {
			m.spreadRows(own[i*m.W.K*2:], bi, r0+i)
		}
		b.a = unsafe.Pointer(&own[0])
	} else {
		b.a = unsafe.Pointer(&m.a16[bi*m.tileBytes()+r0*m.W.K*2])
	}
	b.lda = tileK * 2
	b.tile = tileBlock{on: true, kstep: tileRows * tileK * 2, next: tileRows * m.W.K * 2,
		sums: unsafe.Slice((*float32)(unsafe.Pointer(&scratch[0])), tileSums(1, m.part.mc))}
}

// roundRow writes a row as bfloat16, padded with zeros to whole vectors.
func roundRow(im *impl, dst []byte, row []float32) {
	n := len(row) &^ 15
	if n > 0 {
		toBF16(im, unsafe.Pointer(&dst[0]), row[:n])
	}
	if n < len(row) {
		var pad [16]float32
		copy(pad[:], row[n:])
		toBF16(im, unsafe.Pointer(&dst[n*2]), pad[:])
	}
}

// checkScratch panics unless s has n bytes that can hold float32 values.
func checkScratch(what string, s []byte, n int) {
	if n > 0 && (len(s) < n || uintptr(unsafe.Pointer(&s[0]))&3 != 0) {
		panic(fmt.Errorf("gemm: %s: %d bytes of scratch, want %d on a 4-byte boundary", what, len(s), n))
	}
}
