// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"math/bits"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
)

// The int8 prefilter. A pass over descriptors rounded to bytes costs a quarter
// of the float pass. It leaves, for each row and strip of columns (and for
// each column and block of rows), the largest rounded score. By Cauchy-Schwarz
// the exact score of a pair differs from its rounded score by at most
//
//	|a.b - qa.qb| <= |a-qa| |b| + |qa| |b-qb|
//
// so, once the exact best of one strip is known, every strip whose maximum
// lies further below than that bound (plus the rounding of the float scores)
// cannot hold the winner or a tie with it. The others are scored exactly. The
// result is the float pass's for any data whatever; only the time depends on
// how many strips survive, which a sample estimates beforehand.

type prefilterMode int

const (
	prefilterAuto prefilterMode = iota
	prefilterOff
	prefilterAlways // whatever the size and the sample; for tests
)

const (
	int8Block    = 1536      // rows per block; 2 bytes per column and block are kept
	int8MaxDim   = 64        // beyond, the bound widens and the maxima need more bits
	int8MinPairs = 1 << 28   // below, the float pass is over in a moment
	int8MaxTable = 256 << 20 // bytes of column maxima
	sampleRows   = blockUnit
	// maxSurvivors is the share of strips per row up to which the prefilter
	// pays. Scoring one row against one strip runs at under half the speed of
	// a tile; 0.1 brings the total to about three quarters of the float pass.
	maxSurvivors = 0.1
	// flatTile is the share beyond which a tile falls back to float tiles.
	flatTile = 0.35
)

// int8Scratch is the state of one prefiltered call.
type int8Scratch struct {
	scale float64 // byte = round(value * scale)
	shift int     // right shift that fits maxima into 16 bits
	quads int     // depth / 4, rounded up
	cols  []uint32
	start []int32
	table []uint16 // [blocks][columns] maxima
	stats [2]sideStats
	part  []sideStats // per tile, while reducing
}

// sideStats are the maxima over a side that the bound needs: of the norms, the
// rounding errors' norms, and the components.
type sideStats struct{ norm, err, abs float64 }

func (s *sideStats) merge(o sideStats) {
	s.norm, s.err, s.abs = max(s.norm, o.norm), max(s.err, o.err), max(s.abs, o.abs)
}

// int8Worker is one thread's scratch.
type int8Worker struct {
	args    kernel.Int8Args
	rows    []uint32
	rowMax  []int32
	colMax  []int32
	tmp     []int32
	table   []uint16 // [strips][rows of the tile]
	queries []int32
	floor   []uint16
}

// nearestInt8 does the work of scanBoth through the prefilter and reports
// whether it did: not where it cannot run or would not pay.
func (m *Matcher) nearestInt8() bool {
	a, b, q := &m.a, &m.b, &m.int8
	always := m.prefilter == prefilterAlways
	if m.prefilter == prefilterOff || m.kern.Int8 == nil || a.dim > int8MaxDim ||
		!always && a.n*b.n < int8MinPairs {
		return false
	}
	blocks := ceilDiv(a.n, int8Block)
	if 2*blocks*b.n > int8MaxTable || !m.quantise() {
		return false
	}
	if !always && m.sampleSurvivors() > maxSurvivors {
		return false
	}
	for d, s := range [2]*side{a, b} {
		m.best[d], m.where[d] = grow(m.best[d], s.n), grow(m.where[d], s.n)
	}
	q.table = grow(q.table, blocks*b.n)
	m.pool.Run(blocks, func(w, tile int) { m.int8Tile(&m.workers[w], tile) })
	const chunk = 768
	m.pool.Run(ceilDiv(b.n, chunk), func(w, tile int) {
		first := tile * chunk
		m.workers[w].int8.list(first, min(chunk, b.n-first))
		m.rerank(&m.workers[w], 1, first, q.table[first:], b.n, int8Block/m.kern.NR)
	})
	return true
}

// rowStats returns |x|, |x - q(x)| and |q(x)| for a row.
func (q *int8Scratch) rowStats(row []float32) (norm, err, qnorm float64) {
	for _, v := range row {
		x := float64(v)
		r := math.RoundToEven(x*q.scale) / q.scale
		norm += x * x
		err += (x - r) * (x - r)
		qnorm += r * r
	}
	return math.Sqrt(norm), math.Sqrt(err), math.Sqrt(qnorm)
}

// reduce folds f over the rows of both sides, in parallel.
func (m *Matcher) reduce(f func(row []float32) sideStats) {
	q := &m.int8
	const chunk = 4096
	for d, s := range [2]*side{&m.a, &m.b} {
		q.part = grow(q.part, ceilDiv(s.n, chunk))
		m.pool.Run(len(q.part), func(_, tile int) {
			var acc sideStats
			for i := tile * chunk; i < min(s.n, (tile+1)*chunk); i++ {
				acc.merge(f(s.row(i)))
			}
			q.part[tile] = acc
		})
		q.stats[d] = sideStats{}
		for _, p := range q.part {
			q.stats[d].merge(p)
		}
	}
}

// quantise chooses the scale and packs map 2; it reports false when all
// components are 0, where no scale exists.
func (m *Matcher) quantise() bool {
	q, b := &m.int8, &m.b
	m.reduce(func(row []float32) (s sideStats) {
		for _, v := range row {
			s.abs = max(s.abs, math.Abs(float64(v)))
		}
		return s
	})
	abs := max(q.stats[0].abs, q.stats[1].abs)
	if abs == 0 {
		return false
	}
	q.scale = 127 / abs
	m.reduce(func(row []float32) (s sideStats) {
		s.norm, s.err, _ = q.rowStats(row)
		return s
	})
	q.quads = ceilDiv(b.dim, 4)
	q.shift = max(0, bits.Len(uint(b.dim*127*127))-16)
	const batch = 64
	nr, offset := m.kern.NR, int32(m.kern.Int8.Offset)
	panels := b.panelCount(nr)
	q.cols, q.start = grow(q.cols, panels*q.quads*nr), grow(q.start, panels*nr)
	m.pool.Run(ceilDiv(panels, batch), func(_, tile int) {
		lo, hi := tile*batch*nr, min(panels, (tile+1)*batch)*nr
		for j := lo; j < hi; j++ {
			out := q.cols[j/nr*nr*q.quads+j%nr:]
			q.start[j] = -offset * q.pack(out, b.row(min(j, b.n-1)), nr, 0)
		}
	})
	return true
}

// pack rounds a row to bytes, four to a word with words stride apart, adds
// offset to each, and returns the sum of the bytes without it. Missing values
// of the last word are bytes of 0, or of offset: then 0 times anything.
func (q *int8Scratch) pack(out []uint32, row []float32, stride, offset int) int32 {
	var sum int32
	for k := 0; k < q.quads; k++ {
		var word uint32
		for i := range 4 {
			v := 0
			if 4*k+i < len(row) {
				v = int(math.RoundToEven(float64(row[4*k+i]) * q.scale))
			}
			sum += int32(v)
			word |= uint32(uint8(v+offset)) << (8 * i)
		}
		out[k*stride] = word
	}
	return sum
}

// int8Rows runs the rows listed in w.int8.queries against all strips, filling
// w.int8.table and, where block >= 0, that block of the column table.
func (m *Matcher) int8Rows(w *worker, block int) {
	q, a, b, t := &m.int8, &m.a, &m.b, &w.int8
	mr, nr := m.kern.MR, m.kern.NR
	n := len(t.queries)
	rows := ceilDiv(n, mr) * mr
	sp := m.stripPanels(b.dim)
	total := b.panelCount(nr)
	t.rows, t.colMax = grow(t.rows, rows*q.quads), grow(t.colMax, sp*nr)
	t.table = grow(t.table, ceilDiv(total, sp)*n)
	for i := range rows {
		q.pack(t.rows[i/mr*mr*q.quads+i%mr:], a.row(int(t.queries[min(i, n-1)])), mr, m.kern.Int8.Offset)
	}
	p := &t.args
	*p = kernel.Int8Args{ColMax: &t.colMax[0], Tmp: &t.tmp[0], RowMax: &t.rowMax[0], Quads: q.quads}
	for s := 0; s*sp < total; s++ {
		clear(t.colMax) // a negative maximum counts as 0, still an upper bound
		p.Panels = min(sp, total-s*sp)
		p.Cols, p.Start = &q.cols[s*sp*nr*q.quads], &q.start[s*sp*nr]
		for g := 0; g < rows; g += mr {
			p.Rows = &t.rows[g*q.quads]
			m.kern.Int8.Strip(p)
			out := t.table[s*n+g : s*n+min(n, g+mr)]
			for i := range out {
				out[i] = uint16(t.rowMax[i] >> q.shift)
			}
		}
		if block >= 0 {
			lo := s * sp * nr
			out := q.table[block*b.n+lo : block*b.n+min(b.n, lo+p.Panels*nr)]
			for i := range out {
				out[i] = uint16(t.colMax[i] >> q.shift)
			}
		}
	}
}

// int8Tile scans one block of rows and settles them.
func (m *Matcher) int8Tile(w *worker, tile int) {
	first := tile * int8Block
	n := min(int8Block, m.a.n-first)
	w.int8.list(first, n)
	m.int8Rows(w, tile)
	m.rerank(w, 0, first, w.int8.table, n, m.stripPanels(m.a.dim))
}

// list sets the queries to n consecutive rows.
func (t *int8Worker) list(first, n int) {
	t.queries = grow(t.queries, n)
	for i := range t.queries {
		t.queries[i] = int32(first + i)
	}
}

// floorOf returns the smallest table entry of a block that may hold a score
// equal to or above best, for a row of side d.
func (m *Matcher) floorOf(d int, row []float32, best float32) uint16 {
	q := &m.int8
	other := q.stats[1-d]
	norm, err, qnorm := q.rowStats(row)
	// Float scores: dim roundings of relative size 2^-24, or 2^-150 each in
	// the subnormal range (Higham, Accuracy and Stability, section 3.1). They
	// blur both the best score and its rivals, hence twice.
	dim := float64(len(row))
	blur := 2 * dim * (0x1.01p-24*norm*other.norm + 0x1p-149)
	margin := err*other.norm + qnorm*other.err + blur
	// The float64 roundings here are far below the widening by 2^-20.
	t := (float64(best) - margin*(1+0x1p-20)) * q.scale * q.scale
	t -= math.Abs(t) * 0x1p-20
	if t <= 0 {
		return 0
	}
	return uint16(min(uint64(t)>>q.shift, math.MaxUint16))
}

// rerank finds the exact best score, and its block, of the rows of side d that
// w.int8.queries lists, which start at first. table[s*stride+i] is the rounded
// maximum of the i-th over block s of the other side, blockPanels panels each.
func (m *Matcher) rerank(w *worker, d, first int, table []uint16, stride, blockPanels int) {
	x, y := &m.a, &m.b
	if d == 1 {
		x, y = y, x
	}
	t := &w.int8
	n := len(t.queries)
	best, where := m.best[d][first:first+n], m.where[d][first:first+n]
	blocks := ceilDiv(y.panelCount(m.kern.NR), blockPanels)
	m.leaders(w, d, table, stride, blockPanels, best, where)
	if float64(survivors(table, stride, blocks, t.floor, where)) > flatTile*float64(blocks*n) {
		fill(best, negInf)
		m.queryTile(w, x, t.queries, y, blockPanels, 0, blocks, best, where)
		return
	}
	for s := range blocks {
		for i, v := range table[s*stride : s*stride+n] {
			if v < t.floor[i] || int(where[i]) == s {
				continue
			}
			row := x.row(int(t.queries[i]))
			c := m.rowBest(row, y, s, blockPanels)
			switch {
			case c > best[i]:
				best[i], where[i] = c, int32(s)
				t.floor[i] = m.floorOf(d, row, c)
			case c == best[i]:
				where[i] = min(where[i], int32(s))
			}
		}
	}
}

// leaders sets where to the block of the largest table entry of each query,
// best to the exact maximum over that block, and the floors that follow.
func (m *Matcher) leaders(w *worker, d int, table []uint16, stride, blockPanels int, best []float32, where []int32) {
	x, y := &m.a, &m.b
	if d == 1 {
		x, y = y, x
	}
	t := &w.int8
	n := len(t.queries)
	blocks := ceilDiv(y.panelCount(m.kern.NR), blockPanels)
	clear(where)
	for s := 1; s < blocks; s++ {
		for i, v := range table[s*stride : s*stride+n] {
			if v > table[int(where[i])*stride+i] {
				where[i] = int32(s)
			}
		}
	}
	t.floor = grow(t.floor, n)
	for i, c := range t.queries {
		row := x.row(int(c))
		best[i] = m.rowBest(row, y, int(where[i]), blockPanels)
		t.floor[i] = m.floorOf(d, row, best[i])
	}
}

// rowBest returns a row's best score within one block of y.
func (m *Matcher) rowBest(row []float32, y *side, block, blockPanels int) float32 {
	nr := m.kern.NR
	p := block * blockPanels
	return m.kern.RowBest(&row[0], &y.panels[p*nr*y.dim], min(blockPanels, y.panelCount(nr)-p), y.dim)
}

// survivors counts the entries, outside each query's leading block, that reach
// the query's floor.
func survivors(table []uint16, stride, blocks int, floor []uint16, where []int32) int {
	count := 0
	for s := range blocks {
		for i, v := range table[s*stride : s*stride+len(floor)] {
			if v >= floor[i] && int(where[i]) != s {
				count++
			}
		}
	}
	return count
}

// sampleSurvivors returns the share of strips that survive for rows spread
// evenly over map 1. It runs on the caller's thread, with worker 0's scratch.
func (m *Matcher) sampleSurvivors() float64 {
	w := &m.workers[0]
	n := min(sampleRows, m.a.n)
	w.int8.queries = grow(w.int8.queries, n)
	for i := range w.int8.queries {
		w.int8.queries[i] = int32(i * m.a.n / n)
	}
	m.int8Rows(w, -1)
	m.query.best, m.query.where = grow(m.query.best, n), grow(m.query.where, n)
	sp := m.stripPanels(m.a.dim)
	blocks := ceilDiv(m.b.panelCount(m.kern.NR), sp)
	m.leaders(w, 0, w.int8.table, n, sp, m.query.best, m.query.where)
	return float64(survivors(w.int8.table, n, blocks, w.int8.floor, m.query.where)) / float64(blocks*n)
}
