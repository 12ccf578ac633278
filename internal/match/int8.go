// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
)

// The int8 prefilter. A pass over descriptors rounded to bytes costs a quarter
// to a third of the float pass. It leaves, for each row and strip of columns
// (and for each column and block of rows), the largest rounded score. By
// Cauchy-Schwarz the exact score of a pair differs from its rounded score by at
// most
//
//	|a.b - qa.qb| <= |a-qa| |b| + |qa| |b-qb|
//
// so, once the exact score of one good pair is known, whatever lies further
// below it than that bound (plus the rounding of the float scores) cannot be
// the winner or tie with it: first whole strips, by their maximum, then, within
// the strips left, panels of columns, whose rounded scores are computed again.
// The rest is scored exactly. The result is the float pass's for any data
// whatever; only the time depends on how many strips survive, which a sample
// estimates beforehand.

type prefilterMode int

const (
	prefilterAuto prefilterMode = iota
	prefilterOff
	prefilterAlways // whatever the size and the sample; for tests
)

const (
	int8Block    = 1536      // rows per block at most; 2 bytes per column and block are kept
	int8Tasks    = 16        // blocks that a thread should get: the last ends after the others
	int8MaxDim   = 64        // beyond, the bound widens and the maxima need more bits
	int8MinPairs = 1 << 26   // below, the float pass is over in a moment
	int8MaxTable = 256 << 20 // bytes of column maxima
	int8Slab     = 16384     // queries per pass of nearestOf8, which bounds its table
	sampleRows   = blockUnit
	// maxRest is the part of its pairs that a row may have to look at again
	// for the prefilter to pay: one row alone is scored exactly at under half
	// the speed of a tile, and there are two directions.
	maxRest = 0.14
	// stripRest is the part of an exact search of a strip that asking each of
	// its panels costs, when none has to be scored.
	stripRest = 1.0 / 8
	// flatTile is the share of strips beyond which a tile falls back to float
	// tiles.
	flatTile = 0.4
	// smallest is the least magnitude of a side's largest component for which
	// the float32 scale 127/magnitude is finite, with room to spare.
	smallest = 0x1p-100
)

// rounding is a side's descriptors in bytes.
type rounding struct {
	scale float64  // byte = round(value * scale)
	quads int      // depth / 4, rounded up
	words []uint32 // [panels][quads][NR], see kernel.Int8Args
	start []int32
	// Squared norms of value*scale and of what rounding took, and over the
	// side the largest norms, as bounds.
	norm, err       []float32
	maxNorm, maxErr float64
	part            []float32 // largest norm and err of each tile, while rounding
}

// int8Scratch is the state of one prefiltered call.
type int8Scratch struct {
	ready bool     // both sides are rounded
	shift int      // right shift that fits maxima into 16 bits
	block int      // rows per block
	table []uint16 // maxima: [blocks][columns], or [strips][queries] in nearestOf8

	guess float32 // a score that most rows of map 1 reach

	missed atomic.Bool // see errRescan
}

// failure returns errRescan if that has happened.
func (q *int8Scratch) failure() error {
	if q.missed.Swap(false) {
		return errRescan
	}
	return nil
}

// int8Worker is one thread's scratch.
type int8Worker struct {
	args    kernel.Int8Args
	search  kernel.BestArgs
	pack    kernel.PackArgs
	rows    []uint32
	rowMax  []int32
	colMax  []int32
	tmp     []int32
	table   []uint16 // [strips][rows of the tile]
	queries []int32
	row     []uint32 // one query, [quads]
	where   []int32
	best    []float32
	floor   []int32
	floor16 []uint16
	top     []uint16 // the largest entries of the queries
	order   []int32  // the queries, those of one block after the other
	starts  []int32
}

// round rounds both sides unless that is done, and reports whether there is
// something to gain and nothing in the way: pairs is the number of products
// that the call is about to compute.
func (m *Matcher) round(pairs int) bool {
	q := &m.int8
	if q.ready {
		return true
	}
	if m.prefilter == prefilterOff || m.kern.Int8 == nil || m.a.dim > int8MaxDim ||
		m.prefilter == prefilterAuto && pairs < int8MinPairs ||
		m.a.abs < smallest || m.b.abs < smallest {
		return false
	}
	m.roundSide(&m.a)
	m.roundSide(&m.b)
	bound := (m.a.maxNorm + m.a.maxErr) * (m.b.maxNorm + m.b.maxErr)
	q.shift = max(0, bits.Len(uint(bound))-16)
	q.ready = true
	return true
}

// slack widens float32 sums of at most 64 squares, each rounded, and their
// square roots.
const slack = 1 + 0x1p-14

// bounds returns the norm of a column in units of its bytes, and of what
// rounding took, the product with the scale being rounded itself.
func bounds(norm, err float32) (n, e float64) {
	n = math.Sqrt(float64(norm)) * slack
	return n, math.Sqrt(float64(err))*slack + n*0x1p-22
}

func (m *Matcher) roundSide(s *side) {
	const batch = 64
	nr, r := m.kern.NR, &s.rounding
	panels := s.panelCount(nr)
	scale := 127 / s.abs
	r.scale, r.quads = float64(scale), ceilDiv(s.dim, 4)
	even := panels + panels%2 // a cell is two panels
	r.words, r.start = grow(r.words, even*r.quads*nr), grow(r.start, even*nr)
	clear(r.words[panels*r.quads*nr:])
	fill(r.start[panels*nr:], math.MinInt32/2) // no score of the other reaches anything
	r.norm, r.err = grow(r.norm, panels*nr), grow(r.err, panels*nr)
	tiles := ceilDiv(panels, batch)
	r.part = grow(r.part, 2*tiles)
	m.pool.Run(tiles, func(w, tile int) {
		p := &m.workers[w].int8.pack
		first := tile * batch
		*p = kernel.PackArgs{Cols: &s.panels[first*nr*s.dim], Words: &r.words[first*nr*r.quads],
			Panels: min(batch, panels-first), Start: &r.start[first*nr],
			Norm: &r.norm[first*nr], Err: &r.err[first*nr], Dim: s.dim, Scale: scale}
		m.kern.Int8.Pack(p)
		lo, hi := first*nr, (first+p.Panels)*nr
		r.part[2*tile], r.part[2*tile+1] = slices.Max(r.norm[lo:hi]), slices.Max(r.err[lo:hi])
	})
	var norm, err float32
	for i := range tiles {
		norm, err = max(norm, r.part[2*i]), max(err, r.part[2*i+1])
	}
	r.maxNorm, r.maxErr = bounds(norm, err)
}

// copyRow copies the rounded values of a row, stride words apart, with an offset
// added that is 128 or 0: adding 128 to a signed byte flips its highest bit.
func (m *Matcher) copyRow(out []uint32, stride, offset int, s *side, row int) {
	nr := m.kern.NR
	flip := uint32(offset) * 0x01010101
	in := s.words[row/nr*nr*s.quads+row%nr:]
	for k := range s.quads {
		out[k*stride] = in[k*nr] ^ flip
	}
}

// nearestInt8 does the work of scanBoth and locate through the prefilter and
// reports whether it did: not where it cannot run or would not pay.
func (m *Matcher) nearestInt8() bool {
	a, b, q := &m.a, &m.b, &m.int8
	q.block = int8Block
	if a.n < int8Tasks*int8Block*len(m.workers) && 2*ceilDiv(a.n, int8Block/2)*b.n <= int8MaxTable {
		q.block /= 2
	}
	blocks := ceilDiv(a.n, q.block)
	if 2*blocks*b.n > int8MaxTable || !m.round(a.n*b.n) {
		return false
	}
	var rest [2]float64
	m.pool.Run(2, func(w, way int) {
		if way == 0 {
			rest[0] = m.sampleRest(&m.workers[w], a, b, m.nnA)
			q.guess = m.workers[w].int8.guess()
		} else {
			rest[1] = m.sampleRest(&m.workers[w], b, a, m.nnB)
		}
	})
	if m.prefilter != prefilterAlways && rest[0]+rest[1] > 2*maxRest {
		return false
	}
	q.table = grow(q.table, blocks*b.n)
	m.pool.Run(blocks, func(w, tile int) {
		if m.byCells() {
			m.cellTile(&m.workers[w], tile)
		} else {
			m.int8Tile(&m.workers[w], tile)
		}
	})
	const chunk = 768
	m.pool.Run(ceilDiv(b.n, chunk), func(w, tile int) {
		first := tile * chunk
		queries := m.workers[w].int8.list(first, min(chunk, b.n-first))
		m.settle(&m.workers[w], b, a, queries, q.table[first:], b.n, q.block/m.kern.NR, m.nnB[first:])
	})
	return true
}

// int8Tile scans one block of rows and settles them.
func (m *Matcher) int8Tile(w *worker, tile int) {
	a, b, t := &m.a, &m.b, &w.int8
	first := tile * m.int8.block
	queries := t.list(first, min(m.int8.block, a.n-first))
	n, sp := len(queries), m.stripPanels(a.dim)
	strips := ceilDiv(b.panelCount(m.kern.NR), sp)
	t.table = grow(t.table, strips*n)
	m.int8Rows(w, a, queries, b, 0, strips, t.table, n, m.int8.table[tile*b.n:(tile+1)*b.n])
	m.settle(w, a, b, queries, t.table, n, sp, m.nnA[first:])
}

// list sets the queries to n consecutive rows.
func (t *int8Worker) list(first, n int) []int32 {
	t.queries = grow(t.queries, n)
	for i := range t.queries {
		t.queries[i] = int32(first + i)
	}
	return t.queries
}

// int8Rows runs rows of x against the strips lo..hi-1 of y. It writes the
// maxima of the i-th row over strip s to table[s*stride+i] and, where cols is
// not nil, the maxima of the columns there.
func (m *Matcher) int8Rows(w *worker, x *side, queries []int32, y *side, lo, hi int, table []uint16, stride int, cols []uint16) {
	t, shift := &w.int8, m.int8.shift
	mr, nr, sp, quads := m.kern.Int8.MR, m.kern.NR, m.stripPanels(y.dim), y.quads
	n, total := len(queries), y.panelCount(m.kern.NR)
	rows := ceilDiv(n, mr) * mr
	t.rows, t.colMax = grow(t.rows, rows*quads), grow(t.colMax, sp*nr)
	for i := range rows {
		row := int(queries[min(i, n-1)])
		if m.kern.Int8.Tiles {
			m.copyRow(t.rows[i*quads:], 1, 0, x, row)
		} else {
			m.copyRow(t.rows[i/mr*mr*quads+i%mr:], mr, m.kern.Int8.Offset, x, row)
		}
	}
	p := &t.args
	*p = kernel.Int8Args{ColMax: &t.colMax[0], Tmp: &t.tmp[0], RowMax: &t.rowMax[0], Quads: quads}
	strip := m.kern.Int8.Strip
	if cols == nil {
		strip = m.kern.Int8.StripRow
	}
	for s := lo; s < hi; s++ {
		clear(t.colMax) // a negative maximum counts as 0, still an upper bound
		p.Panels = min(sp, total-s*sp)
		p.Cols, p.Start = &y.words[s*sp*nr*quads], &y.start[s*sp*nr]
		for g := 0; g < rows; g += mr {
			p.Rows = &t.rows[g*quads]
			strip(p)
			out := table[s*stride+g : s*stride+min(n, g+mr)]
			for i := range out {
				out[i] = uint16(t.rowMax[i] >> shift)
			}
		}
		if cols != nil {
			first := s * sp * nr
			out := cols[first:min(y.n, first+p.Panels*nr)]
			for i := range out {
				out[i] = uint16(t.colMax[i] >> shift)
			}
		}
	}
}

// apart returns by how much the rounded score of row i of x with a descriptor of y, and two
// float scores, may differ from what they stand for.
func (m *Matcher) apart(x *side, i int32, y *side) (rounded, blur float64) {
	norm, err := bounds(x.norm[i], x.err[i])
	// Float scores: dim roundings of relative size 2^-24, or 2^-150 each in
	// the subnormal range (Higham, Accuracy and Stability, section 3.1). They
	// blur both the best score and its rivals, hence twice.
	blur = 2 * float64(x.dim) * (0x1.01p-24*norm*y.maxNorm + 0x1p-149*x.scale*y.scale)
	return err*y.maxNorm + (norm+err)*y.maxErr, blur
}

// floorOf returns the rounded score below which nothing reaches best, an exact
// score of row i of x with some descriptor of y.
func (m *Matcher) floorOf(x *side, i int32, y *side, best float32) int32 {
	rounded, blur := m.apart(x, i, y)
	// The float64 roundings here are far below the widening by 2^-20.
	t := float64(best) * (x.scale * y.scale)
	t -= (rounded+blur)*(1+0x1p-20) + math.Abs(t)*0x1p-20 + 0x1p-40
	return int32(max(math.Floor(t), math.MinInt32)) // scores that underflow say nothing
}

// marginOf returns how far below the best rounded score of row i of x those of its
// neighbours in y are at most.
func (m *Matcher) marginOf(x *side, i int32, y *side) int32 {
	rounded, blur := m.apart(x, i, y)
	return int32(min(math.Ceil((2*rounded+blur)*(1+0x1p-20)), 1<<30))
}

// setFloor notes the floor of the i-th query that follows from its best score.
func (m *Matcher) setFloor(t *int8Worker, i int, x *side, query int32, y *side) {
	t.floor[i] = m.floorOf(x, query, y, t.best[i])
	t.floor16[i] = uint16(min(max(0, t.floor[i])>>m.int8.shift, math.MaxUint16))
}

// settle finds the exact neighbours in y of rows of x. table[s*stride+i] is the
// rounded maximum of the i-th over block s of y, blockPanels panels each.
func (m *Matcher) settle(w *worker, x, y *side, queries []int32, table []uint16, stride, blockPanels int, out []int32) {
	t := &w.int8
	n := len(queries)
	blocks := ceilDiv(y.panelCount(m.kern.NR), blockPanels)
	m.leaders(w, x, y, queries, table, stride, blockPanels, out)
	if float64(t.survivors(table, stride, blocks)) > flatTile*float64(blocks*n) {
		m.settleFloat(w, x, y, queries, blockPanels, out)
		return
	}
	m.searchAll(w, x, y, queries, table, stride, blockPanels, out)
}

// searchAll searches the blocks whose maxima reach the floors.
func (m *Matcher) searchAll(w *worker, x, y *side, queries []int32, table []uint16, stride, blockPanels int, out []int32) {
	t, n := &w.int8, len(queries)
	for s := range ceilDiv(y.panelCount(m.kern.NR), blockPanels) {
		for i, v := range table[s*stride : s*stride+n] {
			if v < t.floor16[i] {
				continue
			}
			score, at := m.search(w, x, queries[i], y, s, blockPanels, t.floor[i])
			switch {
			case score > t.best[i]:
				t.best[i], out[i] = score, at
				m.setFloor(t, i, x, queries[i], y)
			case score == t.best[i] && at >= 0:
				out[i] = min(out[i], at)
			}
		}
	}
}

// settleFloat is settle by float tiles, for rows that the maxima tell little
// about.
func (m *Matcher) settleFloat(w *worker, x, y *side, queries []int32, blockPanels int, out []int32) {
	t, nr := &w.int8, m.kern.NR
	total := y.panelCount(nr)
	t.best, t.where = grow(t.best, len(queries)), grow(t.where, len(queries))
	fill(t.best, negInf)
	m.queryTile(w, x, queries, y, blockPanels, 0, ceilDiv(total, blockPanels), t.best, t.where)
	for i, c := range queries {
		p := int(t.where[i]) * blockPanels
		j := m.kern.FirstEqual(&x.row(int(c))[0], &y.panels[p*nr*y.dim], min(blockPanels, total-p), y.dim, t.best[i])
		if j < 0 {
			m.int8.missed.Store(true)
			return
		}
		out[i] = int32(p*nr + j)
	}
}

// leaders sets where to the block of the largest table entry of each query,
// best and out to the best pair among the panels of that block that reach this
// entry, and the floors that follow.
func (m *Matcher) leaders(w *worker, x, y *side, queries []int32, table []uint16, stride, blockPanels int, out []int32) {
	t := &w.int8
	n := len(queries)
	blocks := ceilDiv(y.panelCount(m.kern.NR), blockPanels)
	t.where, t.best = grow(t.where, n), grow(t.best, n)
	t.floor, t.floor16 = grow(t.floor, n), grow(t.floor16, n)
	t.top = grow(t.top, n)
	clear(t.where)
	copy(t.top, table[:n])
	for s := 1; s < blocks; s++ {
		for i, v := range table[s*stride : s*stride+n] {
			if v > t.top[i] {
				t.top[i], t.where[i] = v, int32(s)
			}
		}
	}
	t.sort(blocks)
	for _, i := range t.order {
		c, s := queries[i], int(t.where[i])
		floor := int32(table[s*stride+int(i)]) << m.int8.shift
		if floor == 0 {
			floor = math.MinInt32 // the maximum may have been negative
		}
		t.best[i], out[i] = m.search(w, x, c, y, s, blockPanels, floor)
		m.setFloor(t, int(i), x, c, y)
	}
}

// sort puts the queries into the order of their blocks: a block is read from memory once,
// not for each query.
func (t *int8Worker) sort(blocks int) {
	t.order, t.starts = grow(t.order, len(t.where)), grow(t.starts, blocks+1)
	clear(t.starts)
	for _, s := range t.where {
		t.starts[s+1]++
	}
	for s := range blocks {
		t.starts[s+1] += t.starts[s]
	}
	for i, s := range t.where {
		t.order[t.starts[s]] = int32(i)
		t.starts[s]++
	}
}

// search returns the best score of a row among the panels of one block of y
// that reach the floor, and the first column with it.
func (m *Matcher) search(w *worker, x *side, row int32, y *side, block, blockPanels int, floor int32) (float32, int32) {
	t, nr := &w.int8, m.kern.NR
	first := block * blockPanels
	t.row = grow(t.row, x.quads)
	m.copyRow(t.row, 1, m.kern.Int8.Offset, x, int(row))
	p := &t.search
	p.Row8, p.Cols8, p.Start = &t.row[0], &y.words[first*nr*y.quads], &y.start[first*nr]
	p.Row, p.Cols = &x.row(int(row))[0], &y.panels[first*nr*y.dim]
	p.Panels = min(blockPanels, y.panelCount(nr)-first)
	p.Quads, p.Dim, p.Floor = x.quads, x.dim, floor
	m.kern.Int8.Best(p)
	if p.At < 0 {
		return p.Score, -1
	}
	return p.Score, int32(first*nr + p.At)
}

// survivors counts the entries that reach their query's floor.
func (t *int8Worker) survivors(table []uint16, stride, blocks int) int {
	count := 0
	for s := range blocks {
		for i, v := range table[s*stride : s*stride+len(t.floor16)] {
			if v >= t.floor16[i] {
				count++
			}
		}
	}
	return count
}

// sampleRest estimates from rows spread evenly over x which part of its pairs
// with y a row has to look at again: panels scored exactly, and strips that are
// asked. found receives neighbours of no use.
func (m *Matcher) sampleRest(w *worker, x, y *side, found []int32) float64 {
	n := min(sampleRows, x.n)
	t := &w.int8
	queries := t.list(0, n)
	for i := range queries {
		queries[i] = int32(i * x.n / n)
	}
	sp, total := m.stripPanels(x.dim), y.panelCount(m.kern.NR)
	strips := ceilDiv(total, sp)
	t.table = grow(t.table, strips*n)
	m.int8Rows(w, x, queries, y, 0, strips, t.table, n, nil)
	m.leaders(w, x, y, queries, t.table, n, sp, found)
	asked := float64(t.survivors(t.table, n, strips)-n) / float64(strips*n)
	if asked > flatTile {
		return 1
	}
	t.search.Hits = 0
	m.searchAll(w, x, y, queries, t.table, n, sp, found)
	return float64(t.search.Hits)/float64(total*n) + asked*stripRest
}

// guess is a score that most queries have reached.
func (t *int8Worker) guess() float32 {
	slices.Sort(t.best)
	return t.best[len(t.best)/48]
}

// nearestOf8 is nearestOf through the prefilter, on rounded sides.
func (m *Matcher) nearestOf8(x *side, queries []int32, y *side, out []int32) error {
	sp := m.stripPanels(x.dim)
	strips := ceilDiv(y.panelCount(m.kern.NR), sp)
	for first := 0; first < len(queries); first += int8Slab {
		q := queries[first:min(len(queries), first+int8Slab)]
		nq := len(q)
		per := m.blockRows(nq)
		groups := ceilDiv(nq, per)
		chunks := min(strips, max(1, ceilDiv(4*len(m.workers), groups)))
		table := grow(m.int8.table, strips*nq)
		m.int8.table = table
		m.pool.Run(groups*chunks, func(w, tile int) {
			g, c := tile/chunks, tile%chunks
			lo, hi := g*per, min(nq, (g+1)*per)
			m.int8Rows(&m.workers[w], x, q[lo:hi], y, c*strips/chunks, (c+1)*strips/chunks, table[lo:], nq, nil)
		})
		const batch = 96
		m.pool.Run(ceilDiv(nq, batch), func(w, tile int) {
			lo, hi := tile*batch, min(nq, (tile+1)*batch)
			m.settle(&m.workers[w], x, y, q[lo:hi], table[lo:], nq, sp, out[first+lo:first+hi])
		})
	}
	return m.int8.failure()
}
