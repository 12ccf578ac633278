// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
)

// The prefilter by cells. On matrix tiles what is multiplied has to be stored and loaded
// again, and to take the maxima of each row and each column takes longer than to multiply.
// So rows get maxima in groups of 16: a cell is 16 rows by 64 columns, as many pairs as a row
// has in a strip of 1024, so that no more of them are left. Columns have their maxima over
// the whole block of rows, as without cells. What a maximum says about one of 16 rows is not
// enough to begin with its largest cell. But most rows reach a score that is known from a
// sample: they ask, cell by cell, for what reaches that. The rows that do not find it, one in
// fifty, begin anew with the largest cells of their group.

const (
	cellStrip = 16  // cells of a call
	cellBlock = 768 // rows of a call, which stay in the first-level cache
	cellFirst = 64  // cells of a group that are put in order
	cellDrop  = 5   // bits of values that are not told apart
)

// cellWorker is one thread's scratch.
type cellWorker struct {
	args   kernel.CellArgs
	packed []uint32 // rows, see kernel.CellArgs
	top    []int32  // of a strip, see kernel.CellArgs
	table  []uint16 // [strips][groups][cellStrip]
	values []uint16 // of one group, [cells]
	count  []int32  // of them, by value, see sum

	ask    kernel.AskArgs
	order  []kernel.AskCell
	found  []kernel.AskFound
	rows   []uint32 // [groups][kernel.CellRows], as ask wants them
	floor  []int32  // of each row, see kernel.AskArgs
	margin []int32
}

// int8Cells scans rows first, first+1, ... of a against b. It leaves the maxima of cells in
// the table and writes those of columns to cols.
func (m *Matcher) int8Cells(w *worker, first, n int, cols []uint16) {
	a, b, t, shift := &m.a, &m.b, &w.cells, m.int8.shift
	panels, quads := b.panelCount(m.kern.NR), b.quads
	cells, groups := ceilDiv(panels, 2), ceilDiv(n, kernel.CellRows)
	stride := kernel.CellStride(quads)
	if need := groups * kernel.CellRows * stride / 4; len(t.packed) < need {
		t.packed = aligned[uint32](need)
	}
	for i := range groups * kernel.CellRows {
		m.copyRow(t.packed[i*stride/4:], 1, 0, a, first+min(i, n-1))
	}
	w.int8.colMax = grow(w.int8.colMax, cellStrip*kernel.CellCols)
	t.table = grow(t.table, ceilDiv(cells, cellStrip)*groups*cellStrip)
	t.top = grow(t.top, cellStrip*(1+groups))
	p := &t.args
	*p = kernel.CellArgs{ColMax: &w.int8.colMax[0], Top: &t.top[0], Tmp: &w.int8.tmp[0], Quads: quads, Stride: stride}
	for s := 0; s*cellStrip < cells; s++ {
		c := s * cellStrip
		p.Cells = min(cellStrip, cells-c)
		p.Cols = &b.words[c*kernel.CellCols*quads]
		clear(w.int8.colMax)
		for g := 0; g < groups; g += cellBlock / kernel.CellRows {
			p.Groups = min(groups-g, cellBlock/kernel.CellRows)
			p.Rows = &t.packed[g*kernel.CellRows*stride/4]
			m.kern.Int8.Cells(p)
			for i := range p.Groups {
				out := t.table[(s*groups+g+i)*cellStrip:][:p.Cells]
				for j := range out {
					out[j] = uint16(t.top[j*(1+p.Groups)+1+i] >> shift)
				}
			}
		}
		lo := c * kernel.CellCols
		out := cols[lo:min(b.n, lo+p.Cells*kernel.CellCols)]
		for i := range out {
			out[i] = uint16(w.int8.colMax[i] >> shift)
		}
	}
}

// cellTile is int8Tile by cells.
func (m *Matcher) cellTile(w *worker, tile int) {
	a, b := &m.a, &m.b
	first := tile * m.int8.block
	n := min(m.int8.block, a.n-first)
	m.int8Cells(w, first, n, m.int8.table[tile*b.n:(tile+1)*b.n])
	m.settleCells(w, first, n)
}

// settleCells finds the exact neighbours in map 2 of n rows, from first on. A score that most
// of them reach is known from a sample; the others look for theirs from the largest cell on.
func (m *Matcher) settleCells(w *worker, first, n int) {
	x, y, t, c := &m.a, &m.b, &w.int8, &w.cells
	queries, out := t.list(first, n), m.nnA[first:]
	groups, cells := ceilDiv(n, kernel.CellRows), ceilDiv(y.panelCount(m.kern.NR), 2)
	padded := groups * kernel.CellRows
	c.floor, c.margin, c.rows = grow(c.floor, padded), grow(c.margin, padded), grow(c.rows, padded*y.quads)
	t.best = grow(t.best, n)
	fill(t.best, negInf)
	fill(c.floor, math.MaxInt32) // never asks
	for i, q := range queries {
		c.floor[i], c.margin[i] = m.floorOf(x, q, y, m.int8.guess), m.marginOf(x, q, y)
		m.copyRow(c.rows[i*y.quads:], 1, 128, x, int(q))
	}
	c.found = c.found[:0]
	few := m.askGuess(w, groups, cells)
	if few {
		m.score(w, queries, out)
		few = m.askAgain(w, queries, groups)
	}
	if !few {
		m.settleFloat(w, x, y, queries, m.stripPanels(y.dim), out)
		return
	}
	m.score(w, queries, out)
}

// askGuess asks all cells that may hold what reaches the guess; false if they are too many.
func (m *Matcher) askGuess(w *worker, groups, cells int) bool {
	c, left := &w.cells, int(flatTile*float64(cells*groups))
	for s := 0; s*cellStrip < cells; s++ {
		c.order = c.order[:0]
		for g := range groups {
			lowest := c.lowest(g, m.int8.shift)
			for i, v := range c.table[(s*groups+g)*cellStrip:][:min(cellStrip, cells-s*cellStrip)] {
				if int(v) >= lowest {
					c.order = append(c.order, kernel.AskCell{Cell: uint16(s*cellStrip + i), Value: v, Group: uint32(g)})
				}
			}
		}
		m.askCells(w)
		if left -= len(c.order); left < 0 {
			return false
		}
	}
	return true
}

// askAgain asks for the rows that have not reached the guess; false if too many cells would
// have to be asked.
func (m *Matcher) askAgain(w *worker, queries []int32, groups int) bool {
	x, y, t, c := &m.a, &m.b, &w.int8, &w.cells
	for g := range groups {
		again := false
		for i := g * kernel.CellRows; i < min(len(queries), (g+1)*kernel.CellRows); i++ {
			switch {
			case t.best[i] >= m.int8.guess:
				c.floor[i] = math.MaxInt32
				continue
			case t.best[i] > negInf:
				c.floor[i] = m.floorOf(x, queries[i], y, t.best[i])
			default:
				c.floor[i] = math.MinInt32
			}
			again = true
		}
		if again && !m.askGroup(w, g, groups) {
			return false
		}
	}
	return true
}

// lowest is the least value of a cell in which a row of the group may have its neighbour.
func (c *cellWorker) lowest(g, shift int) int {
	return int(max(0, slices.Min(c.floor[g*kernel.CellRows:][:kernel.CellRows])) >> shift)
}

// askGroup asks cells for the rows of group g, from the largest on; false if too many
// would have to be asked.
func (m *Matcher) askGroup(w *worker, g, groups int) bool {
	c, cells := &w.cells, ceilDiv(m.b.panelCount(m.kern.NR), 2)
	c.values = grow(c.values, ceilDiv(cells, cellStrip)*cellStrip)
	for s := 0; s*cellStrip < cells; s++ {
		copy(c.values[s*cellStrip:][:cellStrip], c.table[(s*groups+g)*cellStrip:])
	}
	c.sum(cells)
	beyond, lowest, asked := 1<<16, c.lowest(g, m.int8.shift), 0
	for share := cellFirst; beyond > lowest; share *= 4 {
		least := max(c.reached(share), lowest)
		c.order = c.order[:0]
		for i, v := range c.values[:cells] {
			if int(v) >= least && int(v) < beyond {
				c.order = append(c.order, kernel.AskCell{Cell: uint16(i), Value: v, Group: uint32(g)})
			}
		}
		if asked += len(c.order); share > cellFirst && float64(asked) > flatTile*float64(cells) {
			return false
		}
		if share == cellFirst {
			slices.SortFunc(c.order, func(a, b kernel.AskCell) int { return cmp.Compare(b.Value, a.Value) })
		}
		m.askCells(w)
		beyond, lowest = least, c.lowest(g, m.int8.shift)
	}
	return true
}

// score scores what was found exactly, and forgets it.
func (m *Matcher) score(w *worker, queries, out []int32) {
	x, y, t, c := &m.a, &m.b, &w.int8, &w.cells
	for _, f := range slices.Backward(c.found) { // in a group, the best came late
		i := int(f.Row)
		if f.Score < c.floor[i] {
			continue
		}
		was := t.best[i]
		var score float32
		var at int32
		if f.Cols&(f.Cols-1) == 0 { // one column: two lines of memory and not 48
			at = min(int32(f.Cell)*kernel.CellCols+int32(bits.TrailingZeros64(f.Cols)), int32(y.n)-1)
			score = kernel.Dot(x.row(int(queries[i])), y.row(int(at)))
		} else {
			score, at = m.search(w, x, queries[i], y, int(f.Cell), 2, c.floor[i])
		}
		if score > was || score == was && at >= 0 && at < out[i] {
			t.best[i], out[i] = score, at
		}
		if t.best[i] > was {
			c.floor[i] = max(c.floor[i], m.floorOf(x, queries[i], y, t.best[i]))
		}
	}
	c.found = c.found[:0]
}

// askCells searches the cells in order and adds to what was found.
func (m *Matcher) askCells(w *worker) {
	c, y := &w.cells, &m.b
	cells, had := len(c.order), len(c.found)
	if cells == 0 {
		return
	}
	for range kernel.AskAhead {
		c.order = append(c.order, c.order[cells-1])
	}
	c.found = slices.Grow(c.found, cells*kernel.CellRows)[:had+cells*kernel.CellRows]
	p := &c.ask
	*p = kernel.AskArgs{Row8: &c.rows[0], Cols8: &y.words[0], Start: &y.start[0], Order: &c.order[0], Cells: cells,
		Floor: &c.floor[0], Margin: &c.margin[0], Found: &c.found[had], Shift: m.int8.shift}
	m.kern.Int8.Ask(p)
	c.order = c.order[:cells]
	c.found = c.found[:had+int(p.End-uintptr(unsafe.Pointer(&c.found[had])))/int(unsafe.Sizeof(c.found[0]))]
}

// sum counts the cells of each value or more.
func (c *cellWorker) sum(cells int) {
	c.count = grow(c.count, 1<<(16-cellDrop))
	clear(c.count)
	for _, v := range c.values[:cells] {
		c.count[v>>cellDrop]++
	}
	for i := len(c.count) - 2; i >= 0; i-- {
		c.count[i] += c.count[i+1]
	}
}

// reached is a value that so many cells reach, or all, and not many more.
func (c *cellWorker) reached(cells int) int {
	i := sort.Search(len(c.count)-1, func(i int) bool { return int(c.count[i+1]) < cells })
	return i << cellDrop
}

// byCells reports whether the pass over bytes goes by cells.
func (m *Matcher) byCells() bool {
	return m.kern.Int8.HasCells() && m.b.dim == kernel.UnrolledDim && m.b.n <= kernel.CellCols<<16
}
