// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// Matcher holds a thread pool and all scratch memory of the package: after the
// first call on maps of some size, calls on maps up to that size allocate
// nothing that grows with the maps except their results. It is not safe for
// concurrent use.
type Matcher struct {
	pool    *par.Pool
	kern    *kernel.Kernel
	workers []worker
	a, b    side // the two maps of the running call

	// Nearest neighbours as compact numbers, see side.
	nnA, nnB []int32

	// Best score of each query so far, and the block of the other side in
	// which it lies. Index 0 is the direction 1 -> 2.
	best  [2][]float32
	where [2][]int32

	query  queryScratch
	int8   int8Scratch
	blocks blocks
	seeds  fastScratch
	order  []uint64 // see rank
	spare  []uint64
	back   []uint64 // pairs found from map 2's seeds

	finder Finder
	found  found

	prefilter prefilterMode // auto but in tests
}

// worker is the scratch of one thread of the pool.
type worker struct {
	args   kernel.Args
	group  []float32 // rows of the current tile, in groups
	tmp    []float32
	rowMax []float32
	colMax []float32
	// Column maxima over the row blocks this worker has done.
	colBest  []float32
	colBlock []int32
	used     bool

	int8   int8Worker
	cells  cellWorker
	blocks blockQuery
}

// New returns a Matcher that runs on pool, with the fastest kernel of this
// machine.
func New(pool *par.Pool) *Matcher { return newWith(pool, kernel.Best()) }

func newWith(pool *par.Pool, k *kernel.Kernel) *Matcher {
	m := &Matcher{pool: pool, kern: k, workers: make([]worker, pool.Threads())}
	for i := range m.workers {
		w := &m.workers[i]
		w.tmp = aligned[float32](kernel.TmpFloats)
		w.rowMax = make([]float32, k.MR)
		w.int8.tmp = aligned[int32](kernel.TmpFloats)
		if k.Int8 != nil {
			w.int8.rowMax = make([]int32, k.Int8.MR)
		}
	}
	return m
}

// On has the calls from now on work on another view of the pool.
func (m *Matcher) On(pool *par.Pool) *Matcher {
	m.pool = pool
	return m
}

// errRescan would mean that two kernels disagree on the bits of a score.
var errRescan = errors.New("match: internal error: a winning score was not found again")

// aligned returns n values that start on a 64-byte line: vectors of the row
// maxima are loaded and stored once per tile, and each split line would cost
// twice.
func aligned[T float32 | int32 | uint32](n int) []T {
	s := make([]T, n+15)
	skip := -(uintptr(unsafe.Pointer(&s[0])) / 4) & 15
	return s[skip : int(skip)+n : int(skip)+n]
}

// grow returns s with length n; old contents are not kept when it must move.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

func fill[T any](s []T, v T) {
	for i := range s {
		s[i] = v
	}
}

var negInf = float32(math.Inf(-1))

// Blocks are whole numbers of groups and panels of every kernel: their widths
// divide 96. A row block of 768 and a strip of 1024 columns, both of 24 values,
// fit the second-level cache together.
const (
	blockUnit = 96
	maxBlock  = 768
	stripCols = 1024
)

// stripPanels returns the panels in a strip for descriptors of the given
// length: longer ones get narrower strips, to stay in the cache.
func (m *Matcher) stripPanels(dim int) int {
	return max(1, min(stripCols, stripCols*kernel.UnrolledDim/dim)/m.kern.NR)
}

// blockRows returns the rows per tile: small maps are cut finer so that every
// thread gets several tiles. The cut never shows in a result.
func (m *Matcher) blockRows(n int) int {
	per := n/(4*len(m.workers)) + blockUnit - 1
	return max(blockUnit, min(maxBlock, per/blockUnit*blockUnit))
}

// packGroup stores the rows first, first+1, ... of s (count of them, a
// multiple of MR; beyond the end the last one repeats) in the kernel's groups.
func packGroup(dst []float32, s *side, mr, first, count int) {
	for i := range count {
		row := s.row(min(first+i, s.n-1))
		out := dst[i/mr*mr*s.dim+i%mr:]
		for k, v := range row {
			out[k*mr] = v
		}
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// scanBoth finds, for both directions at once, the best score of every
// descriptor and the block that holds it: m.best and m.where.
func (m *Matcher) scanBoth() {
	a, b := &m.a, &m.b
	m.best[0], m.where[0] = grow(m.best[0], a.n), grow(m.where[0], a.n)
	m.best[1], m.where[1] = grow(m.best[1], b.n), grow(m.where[1], b.n)
	fill(m.best[0], negInf)
	for i := range m.workers {
		m.workers[i].used = false
	}
	block := m.blockRows(a.n)
	m.pool.Run(ceilDiv(a.n, block), func(w, tile int) {
		m.scanTile(&m.workers[w], tile, block)
	})
	m.mergeColumns()
}

// scanTile runs one block of rows against all columns.
func (m *Matcher) scanTile(w *worker, tile, block int) {
	a, b, mr, nr := &m.a, &m.b, m.kern.MR, m.kern.NR
	first := tile * block
	rows := min(block, ceilDiv(a.n-first, mr)*mr)
	sp := m.stripPanels(a.dim)
	if !w.used {
		w.used = true
		w.colBest, w.colBlock = grow(w.colBest, b.n), grow(w.colBlock, b.n)
		fill(w.colBest, negInf)
		fill(w.colBlock, math.MaxInt32)
	}
	w.group = grow(w.group, block*a.dim)
	w.colMax = grow(w.colMax, sp*nr)
	packGroup(w.group, a, mr, first, rows)
	p := &w.args
	*p = kernel.Args{ColMax: &w.colMax[0], Tmp: &w.tmp[0], RowMax: &w.rowMax[0], Dim: a.dim}
	total := b.panelCount(nr)
	for s := 0; s*sp < total && !m.pool.Stopped(); s++ {
		fill(w.colMax, negInf)
		p.Panels = min(sp, total-s*sp)
		p.Cols = &b.panels[s*sp*nr*a.dim]
		for g := 0; g < rows; g += mr {
			p.Rows = &w.group[g*a.dim]
			m.kern.Strip(p)
			m.raise(m.best[0], m.where[0], first+g, w.rowMax, int32(s))
		}
		// One worker sees its tiles in ascending order today; comparing the
		// block on equal scores keeps the result right if that changes.
		lo := s * sp * nr
		hi := min(b.n, lo+p.Panels*nr)
		best, blk := w.colBest[lo:hi], w.colBlock[lo:hi]
		for i, v := range w.colMax[:hi-lo] {
			if v > best[i] || v == best[i] && int32(tile) < blk[i] {
				best[i], blk[i] = v, int32(tile)
			}
		}
	}
}

// raise folds the maxima of a group over strip s into the best of its rows.
// Strips come in ascending order, so a strict comparison keeps the first.
func (m *Matcher) raise(best []float32, where []int32, first int, rowMax []float32, s int32) {
	end := min(first+len(rowMax), len(best))
	for i := first; i < end; i++ {
		if v := rowMax[i-first]; v > best[i] {
			best[i], where[i] = v, s
		}
	}
}

// mergeColumns combines the workers' column maxima: the largest score, and of
// equal ones the lowest block. This is the one place where threads meet.
func (m *Matcher) mergeColumns() {
	best, where := m.best[1], m.where[1]
	const chunk = 8192
	m.pool.Run(ceilDiv(len(best), chunk), func(_, tile int) {
		lo, hi := tile*chunk, min(len(best), (tile+1)*chunk)
		fill(best[lo:hi], negInf)
		for i := range m.workers {
			w := &m.workers[i]
			if !w.used {
				continue
			}
			for j := lo; j < hi; j++ {
				if v := w.colBest[j]; v > best[j] || v == best[j] && w.colBlock[j] < where[j] {
					best[j], where[j] = v, w.colBlock[j]
				}
			}
		}
	})
}

// locate turns best scores and their blocks into neighbours: the first column
// in the block (of blockPanels panels of y) with exactly that score.
func (m *Matcher) locate(nn []int32, x, y *side, best []float32, where []int32, blockPanels int) error {
	nr := m.kern.NR
	total := y.panelCount(nr)
	var missed atomic.Bool
	const chunk = 512
	m.pool.Run(ceilDiv(x.n, chunk), func(_, tile int) {
		for i := tile * chunk; i < min(x.n, (tile+1)*chunk); i++ {
			p := int(where[i]) * blockPanels
			j := m.kern.FirstEqual(&x.row(i)[0], &y.panels[p*nr*y.dim], min(blockPanels, total-p), y.dim, best[i])
			if j < 0 {
				missed.Store(true)
				return
			}
			nn[i] = int32(p*nr + j)
		}
	})
	if missed.Load() {
		return errRescan
	}
	return nil
}

// nearestBoth fills nnA and nnB with compact neighbours; both sides are
// prepared and not empty.
func (m *Matcher) nearestBoth() error {
	m.nnA, m.nnB = grow(m.nnA, m.a.n), grow(m.nnB, m.b.n)
	if m.found.ready {
		copy(m.nnA, m.found.to[0])
		copy(m.nnB, m.found.to[1])
		return nil
	}
	if m.blocks.ready {
		m.nearestBothOfBlocks()
		return nil
	}
	if m.nearestInt8() {
		return m.int8.failure()
	}
	m.scanBoth()
	colPanels := m.blockRows(m.a.n) / m.kern.NR
	if err := m.locate(m.nnA, &m.a, &m.b, m.best[0], m.where[0], m.stripPanels(m.a.dim)); err != nil {
		return err
	}
	return m.locate(m.nnB, &m.b, &m.a, m.best[1], m.where[1], colPanels)
}

// Nearest computes the exact nearest neighbours of both directions: nnA[i] is
// the pixel of b with the largest score for pixel i of a, nnB[j] the reverse;
// -1 where a pixel is excluded or the other map has nothing to offer.
func (m *Matcher) Nearest(a, b Map, nnA, nnB []int32) error {
	if err := m.prepareNearest(a, b, nnA, nnB); err != nil {
		return err
	}
	if m.a.n == 0 || m.b.n == 0 {
		return nil
	}
	if err := m.nearestBoth(); err != nil {
		return err
	}
	m.a.scatter(nnA, m.nnA, &m.b)
	m.b.scatter(nnB, m.nnB, &m.a)
	return nil
}

// prepareNearest validates the arguments of Nearest, packs both maps and
// presets the outputs to -1.
func (m *Matcher) prepareNearest(a, b Map, nnA, nnB []int32) error {
	if err := checkPair(a, b); err != nil {
		return err
	}
	if err := checkLen("neighbours 1", len(nnA), a); err != nil {
		return err
	}
	if err := checkLen("neighbours 2", len(nnB), b); err != nil {
		return err
	}
	fill(nnA, -1)
	fill(nnB, -1)
	m.prepare(&m.a, a, nil)
	m.prepare(&m.b, b, nil)
	return nil
}
