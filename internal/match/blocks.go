// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"math/bits"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
)

// The search by blocks. Neighbouring pixels have descriptors that are alike, so that a
// block of 4 x 4 pixels has a direction from which none of its descriptors is further than
// an angle p. Let a query's score with some pixel be cos q. A pixel that scores as much is
// at most q away from the query, and its block's direction at most p + q: of real
// pictures, where that is so for one block in thirty, the rest need not be looked at.
// Blocks that are left are searched through their bytes, as in the prefilter. Angles want
// descriptors of length 1; of others, and where too many blocks are left, the search is
// that of query.go, or of whole maps the prefilter's. The result is the same for any data
// whatever.

const (
	blockEdge  = 4    // pixels
	unitSlack  = 1e-3 // by which the square of a descriptor's length may differ from 1
	leastScore = 0.3  // below it, angles are too wide to rule out anything
	maxLeft    = 0.25 // share of the blocks beyond which the search does not pay
	maxLeftAll = 0.5  // of whole maps, where half takes two thirds of the prefilter's time
	blockBatch = 32   // queries a tile
)

// blockSide is a side in blocks.
type blockSide struct {
	pixels  side    // block by block, a block with fewer than 16 repeats its last
	compact []int32 // of each of them, its number in the side itself
	centres side    // the blocks' directions
	data    []float32
	cos     []float32 // of the widest angle from the direction
	sin     []float32
	rank    []int32 // of a pixel, its number in the side itself
}

// blocks is the state of a call that searches by blocks.
type blocks struct {
	ready bool
	a, b  blockSide
	guess float32 // a score that most queries reach

	all, hints []int32 // see nearestBothOfBlocks
}

// blockQuery is what one thread needs for WithinRows queries.
type blockQuery struct {
	within kernel.WithinArgs
	among  kernel.AmongArgs
	rows   [kernel.WithinRows * kernel.UnrolledDim / 4]uint32
	limits [3 * kernel.WithinRows]float32
	err    [kernel.WithinRows]float64 // what rounding took from a query
	masks  []uint32
}

// blockUp makes both sides ready for the search by blocks and reports whether that pays;
// pairs is as in round. From few pixels, whole maps on matrix tiles take no longer.
func (m *Matcher) blockUp(pairs, subsample int) bool {
	q := &m.blocks
	if m.kern.Blocks == nil || m.a.dim != kernel.UnrolledDim || m.prefilter == prefilterOff ||
		m.prefilter == prefilterAuto && (pairs < int8MinPairs || subsample > 1 && m.kern.Int8.Tiles) || m.a.n == 0 || m.b.n == 0 {
		return false
	}
	if !m.cutUp(&m.a, &q.a) || !m.cutUp(&m.b, &q.b) {
		return false
	}
	most := maxLeft
	if subsample <= 1 {
		most = maxLeftAll
	}
	q.ready = m.samplePays(most)
	return q.ready
}

// cutUp makes a side's blocks; false where a descriptor's length is not 1.
func (m *Matcher) cutUp(s *side, b *blockSide) bool {
	if s.abs < 0.1 { // of 24 components
		return false
	}
	b.number(s)
	b.pixels.data, b.pixels.dim, b.pixels.width, b.pixels.abs = s.data, s.dim, s.width, s.abs
	m.pack(&b.pixels)
	m.roundSide(&b.pixels)
	unit := float32(b.pixels.scale * b.pixels.scale)
	if r := b.pixels.norm; slices.Max(r) > unit*(1+unitSlack) || slices.Min(r) < unit*(1-unitSlack) {
		return false
	}
	n := b.pixels.n / kernel.BlockSide
	b.data = grow(b.data, n*s.dim)
	padded := ceilDiv(n, kernel.BlockPanel) * kernel.BlockPanel
	b.cos, b.sin = grow(b.cos, padded), grow(b.sin, padded)
	const batch = 256
	m.pool.Run(ceilDiv(n, batch), func(_, tile int) {
		for i := tile * batch; i < min(n, (tile+1)*batch); i++ {
			b.centre(i)
		}
	})
	c := &b.centres
	c.data, c.dim, c.width, c.n, c.abs = b.data, s.dim, 1, n, 0
	c.index = grow(c.index, n)
	for i := range n {
		c.index[i] = int32(i)
	}
	for _, v := range b.data {
		c.abs = max(c.abs, float32(math.Abs(float64(v))))
	}
	m.pack(c)
	m.roundSide(c)
	return true
}

// number lists the pixels of the side block by block.
func (b *blockSide) number(s *side) {
	pixels := len(s.keep)
	b.rank = grow(b.rank, pixels)
	for c, p := range s.index[:s.n] {
		b.rank[p] = int32(c)
	}
	b.pixels.index, b.compact = b.pixels.index[:0], b.compact[:0]
	height := pixels / max(1, s.width)
	for top := 0; top < height; top += blockEdge {
		for left := 0; left < s.width; left += blockEdge {
			first := len(b.compact)
			for y := top; y < min(height, top+blockEdge); y++ {
				for p := y*s.width + left; p < y*s.width+min(s.width, left+blockEdge); p++ {
					if s.keep[p] {
						b.pixels.index, b.compact = append(b.pixels.index, int32(p)), append(b.compact, b.rank[p])
					}
				}
			}
			for n := len(b.compact); n > first && n < first+kernel.BlockSide; n++ {
				b.pixels.index, b.compact = append(b.pixels.index, b.pixels.index[n-1]), append(b.compact, b.compact[n-1])
			}
		}
	}
	b.pixels.n = len(b.compact)
}

// centre sets the direction of block i and the widest angle from it.
func (b *blockSide) centre(i int) {
	const dim, lanes = kernel.UnrolledDim, kernel.BlockSide
	first := i * lanes
	block := b.pixels.panels[first/kernel.BlockPanel*kernel.BlockPanel*dim+first%kernel.BlockPanel:]
	out := b.data[i*dim : (i+1)*dim]
	square := float32(0)
	for k := range out {
		sum := float32(0)
		for _, v := range block[k*kernel.BlockPanel:][:lanes] {
			sum += v
		}
		out[k] = sum
		square += sum * sum
	}
	if square < 1 { // they point everywhere
		clear(out)
		out[0], square = 1, 1
	}
	var along [lanes]float32
	length := float32(math.Sqrt(float64(square)))
	for k := range out {
		out[k] /= length
		for c, v := range block[k*kernel.BlockPanel:][:lanes] {
			along[c] += out[k] * v
		}
	}
	// The lengths differ from 1 by half of unitSlack.
	cos := float64(slices.Min(along[:]))*(1-unitSlack) - 1e-5
	b.cos[i], b.sin[i] = float32(cos), float32(math.Sqrt(max(0, 1-cos*cos)))
	if cos <= 0 { // the sum of angles may be more than a half turn
		b.cos[i], b.sin[i] = -1e6, 0
	}
}

// samplePays looks for the neighbours of a few pixels of map 1, takes the guess from their
// scores, and reports whether no more than that share of the blocks is left with it.
func (m *Matcher) samplePays(most float64) bool {
	q, w := &m.blocks, &m.workers[0].blocks
	q.guess = leastScore
	const n = 16 * kernel.WithinRows
	sample := func(tried float32) (scores []float32, left int) {
		for first := 0; first < n; first += kernel.WithinRows {
			var group [kernel.WithinRows]blockAsk
			for r := range group {
				group[r] = blockAsk{query: int32((first + r) * m.a.n / n), tried: tried}
			}
			left += m.searchGroup(w, &m.a, &q.b, group[:])
			for _, a := range group {
				if a.done() {
					scores = append(scores, a.score)
				}
			}
		}
		return scores, left
	}
	scores, _ := sample(leastScore)
	if len(scores) < n*3/4 {
		return m.prefilter == prefilterAlways
	}
	slices.Sort(scores)
	q.guess = scores[len(scores)/8]
	_, left := sample(q.guess)
	return m.prefilter == prefilterAlways || float64(left) <= most*float64(n*q.b.centres.n)
}

// blockAsk is a query.
type blockAsk struct {
	index int     // of the caller's queries
	query int32   // as a number
	tried float32 // a score below which it need not look
	known float32 // a score that there is, or less than any
	score float32 // what was found
	found int32   // the pixel, as a number; negative: none
}

// done reports whether what was found is the best there is.
func (a *blockAsk) done() bool { return a.found >= 0 && a.score >= a.tried }

// nearestOfBlocks is nearestOf through blocks. hints are pixels of y, as numbers, that the
// queries are known to be alike to, or negative; nil: there are none.
func (m *Matcher) nearestOfBlocks(x *side, queries, hints []int32, y *side, out []int32) {
	b := &m.blocks.b
	if y == &m.a {
		b = &m.blocks.a
	}
	m.pool.Run(ceilDiv(len(queries), blockBatch), func(worker, tile int) {
		w := &m.workers[worker].blocks
		lo, hi := tile*blockBatch, min(len(queries), (tile+1)*blockBatch)
		again := make([]blockAsk, 0, blockBatch) // these were guessed too high
		var group [kernel.WithinRows]blockAsk
		for first := lo; first < hi; first += len(group) {
			asks := group[:min(len(group), hi-first)]
			for r := range asks {
				i := first + r
				hint := int32(-1)
				if hints != nil {
					hint = hints[i]
				}
				if hint < 0 && first > lo && out[first-1] >= 0 {
					hint = b.beside(x, queries[i], queries[first-1], y, out[first-1])
				}
				known := negInf
				if hint >= 0 {
					known = kernel.Dot(x.row(int(queries[i])), y.row(int(hint)))
				}
				asks[r] = blockAsk{index: i, query: queries[i], known: known, tried: max(known, m.blocks.guess)}
			}
			m.searchGroup(w, x, b, asks)
			for _, a := range asks {
				out[a.index] = a.found
				if !a.done() {
					a.tried = max(a.known, a.score)
					again = append(again, a)
				}
			}
		}
		for first := 0; first < len(again); first += len(group) {
			asks := again[first:min(len(again), first+len(group))]
			m.searchGroup(w, x, b, asks)
			for _, a := range asks {
				out[a.index] = a.found
			}
		}
	})
}

// nearestBothOfBlocks is nearestBoth through blocks. Whoever was found from map 1 is a good
// guess for the way back.
func (m *Matcher) nearestBothOfBlocks() {
	q := &m.blocks
	q.all = grow(q.all, max(m.a.n, m.b.n))
	for i := range q.all {
		q.all[i] = int32(i)
	}
	m.nearestOfBlocks(&m.a, q.all[:m.a.n], nil, &m.b, m.nnA)
	q.hints = grow(q.hints, m.b.n)
	fill(q.hints, -1)
	for i, j := range m.nnA {
		q.hints[j] = int32(i)
	}
	m.nearestOfBlocks(&m.b, q.all[:m.b.n], q.hints, &m.a, m.nnB)
}

// searchGroup looks for the neighbours of up to WithinRows queries, and returns how many
// blocks it had to look into.
func (m *Matcher) searchGroup(w *blockQuery, x *side, y *blockSide, group []blockAsk) (left int) {
	for r := range group {
		m.ask8(w, r, x, group[r].query, y)
		m.limit(w, r, group[r].tried, x, y)
	}
	m.choose(w, y)
	for r := range group {
		a := &group[r]
		chosen := w.chosen(r, y)
		if a.tried < leastScore {
			for i := range chosen {
				chosen[i] = math.MaxUint32
			}
			a.tried = -2 // less than any
		}
		if rest := y.centres.n % 32; rest > 0 {
			chosen[len(chosen)-1] &= 1<<rest - 1
		}
		for _, mask := range chosen {
			left += bits.OnesCount32(mask)
		}
		a.score, a.found = m.searchChosen(w, r, x, a.query, y, a.tried)
	}
	return left
}

// beside guesses a pixel of y, as a number, like query c, from the neighbour of another
// query: the one that lies as far from that, or one next to it; negative where there is none.
func (b *blockSide) beside(x *side, c, other int32, y *side, neighbour int32) int32 {
	p, o, n := int(x.index[c]), int(x.index[other]), int(y.index[neighbour])
	left, top := n%y.width+p%x.width-o%x.width, n/y.width+p/x.width-o/x.width
	row, best, at := x.row(int(c)), negInf, int32(-1)
	for v := max(0, top-1); v <= min(len(y.keep)/y.width-1, top+1); v++ {
		for u := max(0, left-1); u <= min(y.width-1, left+1); u++ {
			pixel := v*y.width + u
			if !y.keep[pixel] {
				continue
			}
			sum := float32(0)
			for k, d := range y.data[pixel*y.dim:][:y.dim] {
				sum += row[k] * d
			}
			if sum > best {
				best, at = sum, b.rank[pixel]
			}
		}
	}
	return at
}

// ask8 rounds query c to row r of a group.
func (m *Matcher) ask8(w *blockQuery, r int, x *side, c int32, y *blockSide) {
	scale, err := 127/float64(x.abs), 0.0
	words := w.rows[r*kernel.UnrolledDim/4:][:kernel.UnrolledDim/4]
	clear(words)
	for k, v := range x.row(int(c)) {
		t := float64(v) * scale
		n := math.RoundToEven(t)
		err += (t - n) * (t - n)
		words[k/4] |= uint32(uint8(int8(n))^128) << (8 * (k % 4))
	}
	w.err[r] = math.Sqrt(err) / scale
	w.masks = grow(w.masks, kernel.WithinRows*ceilDiv(y.centres.n, 32))
}

// limit asks for the blocks that may hold a score of so much, for row r.
func (m *Matcher) limit(w *blockQuery, r int, score float32, x *side, y *blockSide) {
	// Both lengths may exceed 1 by half of unitSlack, and the score is rounded.
	cos := min(1, float64(score)/(1+unitSlack)-1e-5)
	scale := 127 / float64(x.abs) * y.centres.scale
	off := y.centres.maxErr / y.centres.scale
	slack := unitSlack + w.err[r] + (1+unitSlack+w.err[r])*off
	w.limits[3*r], w.limits[3*r+1] = float32(scale*cos), float32(scale*math.Sqrt(1-cos*cos))
	w.limits[3*r+2] = float32(scale * slack)
}

// choose sets the masks of the group.
func (m *Matcher) choose(w *blockQuery, y *blockSide) {
	p, c := &w.within, &y.centres
	panels := ceilDiv(c.n, kernel.BlockPanel)
	*p = kernel.WithinArgs{Rows: &w.rows[0], Cols: &c.words[0], Start: &c.start[0], Cos: &y.cos[0], Sin: &y.sin[0],
		Panels: panels, Limits: &w.limits[0], Out: &w.masks[0]}
	m.kern.Blocks.Within(p)
}

// chosen are the masks of row r.
func (w *blockQuery) chosen(r int, y *blockSide) []uint32 {
	words := ceilDiv(y.centres.n, 32)
	return w.masks[r*words : (r+1)*words]
}

// searchChosen returns the best score of row r, query c, in the chosen blocks, and the
// first pixel, as a number, that has it. A score below the one that is known may not be
// the best, or be missing.
func (m *Matcher) searchChosen(w *blockQuery, r int, x *side, c int32, y *blockSide, known float32) (float32, int32) {
	p, s := &w.among, &y.pixels
	scale := 127 / float64(x.abs) * s.scale
	off, long := s.maxErr/s.scale, 1+unitSlack
	margin := scale*(w.err[r]*long+(long+w.err[r])*off+1e-4) + 2 // scores are rounded, too
	chosen := w.chosen(r, y)
	*p = kernel.AmongArgs{Row8: &w.rows[r*kernel.UnrolledDim/4], Cols8: &s.words[0], Start: &s.start[0],
		Row: &x.row(int(c))[0], Cols: &s.panels[0], Chosen: &chosen[0], Words: len(chosen),
		Floor: int32(math.Floor(scale*float64(known) - margin)), Scale: float32(scale), Margin: float32(margin)}
	m.kern.Blocks.Among(p)
	if p.At < 0 {
		return p.Score, -1
	}
	best := y.compact[p.At]
	if p.Ties > 0 {
		best = y.first(x.row(int(c)), chosen, p.Score)
	}
	return p.Score, best
}

// first is the first pixel, as a number, among the chosen blocks with that score.
func (y *blockSide) first(row []float32, chosen []uint32, score float32) int32 {
	best := int32(math.MaxInt32)
	for i, mask := range chosen {
		for ; mask != 0; mask &= mask - 1 {
			at := (32*i + bits.TrailingZeros32(mask)) * kernel.BlockSide
			for k := at; k < at+kernel.BlockSide; k++ {
				if y.compact[k] < best && kernel.Dot(row, y.pixels.row(k)) == score {
					best = y.compact[k]
				}
			}
		}
	}
	return best
}
