// SPDX-License-Identifier: Apache-2.0

package match

import (
	"sync/atomic"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
)

// queryScratch holds the per-chunk maxima of nearestOf.
type queryScratch struct {
	best  []float32 // [chunks][queries]
	where []int32
}

// nearestOf writes to out the compact neighbour in y of each query, a compact
// number of x. y is not empty. hints are as in nearestOfBlocks.
//
// Tiles are groups of queries times chunks of strips: a handful of queries in
// the last rounds of the fast matcher still occupies every thread. Chunk
// results are combined in ascending order, so the cut never shows.
func (m *Matcher) nearestOf(x *side, queries, hints []int32, y *side, out []int32) error {
	nq := len(queries)
	if nq == 0 {
		return nil
	}
	if m.found.ready {
		to := m.found.to[0]
		if x == &m.b {
			to = m.found.to[1]
		}
		for i, q := range queries {
			out[i] = to[q]
		}
		return nil
	}
	if m.blocks.ready {
		m.nearestOfBlocks(x, queries, hints, y, out)
		return nil
	}
	if m.int8.ready {
		return m.nearestOf8(x, queries, y, out)
	}
	nr, sp := m.kern.NR, m.stripPanels(x.dim)
	total := y.panelCount(nr)
	strips := ceilDiv(total, sp)
	per := m.blockRows(nq)
	groups := ceilDiv(nq, per)
	chunks := min(strips, max(1, ceilDiv(4*len(m.workers), groups)))
	m.query.best = grow(m.query.best, chunks*nq)
	m.query.where = grow(m.query.where, chunks*nq)
	fill(m.query.best, negInf)
	m.pool.Run(groups*chunks, func(w, tile int) {
		g, c := tile/chunks, tile%chunks
		lo, hi := c*strips/chunks, (c+1)*strips/chunks
		q := queries[g*per : min(nq, (g+1)*per)]
		at := c*nq + g*per
		m.queryTile(&m.workers[w], x, q, y, sp, lo, hi, m.query.best[at:at+len(q)], m.query.where[at:at+len(q)])
	})
	var missed atomic.Bool
	const batch = 64
	m.pool.Run(ceilDiv(nq, batch), func(_, tile int) {
		for i := tile * batch; i < min(nq, (tile+1)*batch); i++ {
			best, strip := m.query.best[i], m.query.where[i]
			for c := 1; c < chunks; c++ {
				if v := m.query.best[c*nq+i]; v > best {
					best, strip = v, m.query.where[c*nq+i]
				}
			}
			p := int(strip) * sp
			j := m.kern.FirstEqual(&x.row(int(queries[i]))[0], &y.panels[p*nr*y.dim], min(sp, total-p), y.dim, best)
			if j < 0 {
				missed.Store(true)
				return
			}
			out[i] = int32(p*nr + j)
		}
	})
	if missed.Load() {
		return errRescan
	}
	return nil
}

// queryTile scores a group of queries against strips lo..hi-1 of sp panels.
func (m *Matcher) queryTile(w *worker, x *side, queries []int32, y *side, sp, lo, hi int, best []float32, where []int32) {
	mr, nr, dim := m.kern.MR, m.kern.NR, x.dim
	rows := ceilDiv(len(queries), mr) * mr
	w.group = grow(w.group, rows*dim)
	for i := range rows {
		row := x.row(int(queries[min(i, len(queries)-1)]))
		out := w.group[i/mr*mr*dim+i%mr:]
		for k, v := range row {
			out[k*mr] = v
		}
	}
	total := y.panelCount(nr)
	p := &w.args
	*p = kernel.Args{Tmp: &w.tmp[0], RowMax: &w.rowMax[0], Dim: dim}
	for s := lo; s < hi; s++ {
		p.Panels = min(sp, total-s*sp)
		p.Cols = &y.panels[s*sp*nr*dim]
		for g := 0; g < rows; g += mr {
			p.Rows = &w.group[g*dim]
			m.kern.StripRow(p)
			m.raise(best, where, g, w.rowMax, int32(s))
		}
	}
}
