// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"math"
	"slices"
)

// Pairs lists matched pixels: Idx1[k] of map 1 with Idx2[k] of map 2.
type Pairs struct {
	Idx1, Idx2 []int32
}

// FastOptions selects the seeds of FastReciprocal.
type FastOptions struct {
	// Subsample S seeds every S-th pixel of every S-th row, from S/2 on, and
	// iterates up to 10 rounds.
	Subsample int
	// Seeds, when not nil, replaces the grid by these pixels of map 1, and
	// makes one round only.
	Seeds []int32
	// PixelTol > 0, with Seeds only, keeps a seed whose round trip ends
	// strictly within this many pixels, and reports the seed itself; 0 keeps
	// exact returns.
	PixelTol float64
	// Basin, when not nil, has one value per pixel of map 1: it receives the
	// pixel where the round trips starting there end, or -1 where none
	// passed.
	Basin []int32
}

// maxRounds bounds the iteration of a seeded grid, as in the reference.
const maxRounds = 10

// fastScratch is the state of one run, one value per seed, in compact numbers.
type fastScratch struct {
	cur1, cur2, old1, old2 []int32
	active                 []int32 // seeds still moving
	query, hints, found    []int32
	known                  [2][]int32 // neighbours found so far, or unknown, pending
	pairs                  []uint64
}

const (
	unknown = -1
	pending = -2 // among the queries of the running hop
)

// FastReciprocal follows each seed of map 1 to its nearest neighbour in map 2,
// back to the nearest neighbour in map 1, and so on, until the pair repeats.
// Every pair of a grid run is therefore mutual: the result is a subset of the
// mutual neighbours of Nearest. The score of the pair grows with every move
// (on a tie the index falls), so the walk cannot cycle.
//
// Pairs are unique, sorted by Idx1, then Idx2.
func (m *Matcher) FastReciprocal(a, b Map, o FastOptions) (Pairs, error) {
	if err := checkPair(a, b); err != nil {
		return Pairs{}, err
	}
	if err := o.check(a); err != nil {
		return Pairs{}, err
	}
	m.prepare(&m.a, a, nil)
	m.prepare(&m.b, b, nil)
	return m.fast(&m.a, &m.b, a, o)
}

func (o FastOptions) check(a Map) error {
	if !(o.PixelTol >= 0) {
		return optionError("pixel tolerance", o.PixelTol, ">= 0")
	}
	if o.Basin != nil {
		if err := checkLen("basin", len(o.Basin), a); err != nil {
			return err
		}
	}
	if o.Seeds == nil {
		if o.Subsample < 1 {
			return optionError("subsample", o.Subsample, ">= 1")
		}
		if o.PixelTol > 0 {
			return optionError("pixel tolerance", o.PixelTol, "0 without explicit seeds")
		}
		return nil
	}
	for _, s := range o.Seeds {
		if s < 0 || int(s) >= a.Pixels() {
			return optionError("seed", s, fmt.Sprintf("a pixel of map 1, 0..%d", a.Pixels()-1))
		}
	}
	return nil
}

// grid appends the seeds of a subsampled map to dst, in ascending order.
func grid(dst []int32, d Map, s int) []int32 {
	for y := s / 2; y < d.Height; y += s {
		for x := s / 2; x < d.Width; x += s {
			dst = append(dst, int32(y*d.Width+x))
		}
	}
	return dst
}

// fast is FastReciprocal on prepared sides; d gives the size of map 1.
func (m *Matcher) fast(x, y *side, d Map, o FastOptions) (Pairs, error) {
	keys, err := m.fastKeys(x, y, d, o)
	if err != nil {
		return Pairs{}, err
	}
	p := Pairs{make([]int32, len(keys)), make([]int32, len(keys))}
	for i, k := range keys {
		p.Idx1[i], p.Idx2[i] = int32(k>>32), int32(uint32(k))
	}
	return p, nil
}

// fastKeys leaves the pairs in m.seeds.pairs, Idx1 in the upper half of a key.
func (m *Matcher) fastKeys(x, y *side, d Map, o FastOptions) ([]uint64, error) {
	if o.Basin != nil {
		fill(o.Basin, -1)
	}
	f := &m.seeds
	f.start(x, d, o)
	f.pairs = f.pairs[:0]
	if len(f.cur1) == 0 || y.n == 0 {
		return nil, nil
	}
	rounds := maxRounds
	if o.Seeds != nil {
		rounds = 1
	}
	if !m.found.ready && !m.blocks.ready {
		m.round(2 * len(f.cur1) * y.n)
	}
	for d, s := range [2]*side{x, y} {
		f.known[d] = grow(f.known[d], s.n)
		fill(f.known[d], unknown)
	}
	for it := 1; len(f.active) > 0; it++ {
		if err := m.hop(x, y, f.known[0], f.cur1, f.cur2, f.old2); err != nil {
			return nil, err
		}
		if err := m.hop(y, x, f.known[1], f.cur2, f.cur1, f.old1); err != nil {
			return nil, err
		}
		if o.Basin != nil {
			for s, from := range f.old1 { // a seed that has stopped notes itself
				o.Basin[x.index[from]] = x.index[f.cur1[s]]
			}
		}
		if it >= rounds {
			break
		}
		copy(f.old1, f.cur1)
		copy(f.old2, f.cur2)
	}
	resolveBasin(o.Basin)
	f.collect(x, y, o.PixelTol)
	return f.pairs, nil
}

// start sets the state to the usable seeds, sorted and unique.
func (f *fastScratch) start(x *side, d Map, o FastOptions) {
	f.cur1 = f.cur1[:0]
	if o.Seeds != nil {
		f.cur1 = append(f.cur1, o.Seeds...)
		slices.Sort(f.cur1)
		f.cur1 = slices.Compact(f.cur1)
	} else {
		f.cur1 = grid(f.cur1, d, o.Subsample)
	}
	n, c := 0, 0 // both lists ascend, so one walk translates pixels
	for _, pixel := range f.cur1 {
		for c < x.n && x.index[c] < pixel {
			c++
		}
		if c < x.n && x.index[c] == pixel {
			f.cur1[n] = int32(c)
			n++
		}
	}
	f.cur1 = f.cur1[:n]
	f.cur2, f.old1, f.old2 = grow(f.cur2, n), grow(f.old1, n), grow(f.old2, n)
	f.active = grow(f.active, n)
	f.query, f.hints, f.found = grow(f.query, n), grow(f.hints, n), grow(f.found, n)
	copy(f.old1, f.cur1)
	fill(f.old2, -1)
	fill(f.cur2, -1)
	for i := range f.active {
		f.active[i] = int32(i)
	}
}

// hop sets to[s] to the neighbour in y of from[s] for the active seeds s, and
// drops those that arrive where they were a round ago. Walks meet, so each
// pixel's neighbour is looked for once in a run. Where a walk came from is a hint.
func (m *Matcher) hop(x, y *side, known, from, to, old []int32) error {
	f := &m.seeds
	q, hints := f.query[:0], f.hints[:0]
	for _, s := range f.active {
		if c := from[s]; known[c] == unknown {
			known[c] = pending
			q, hints = append(q, c), append(hints, to[s])
		}
	}
	found := f.found[:len(q)]
	if err := m.nearestOf(x, q, hints, y, found); err != nil {
		return err
	}
	for i, c := range q {
		known[c] = found[i]
	}
	n := 0
	for _, s := range f.active {
		to[s] = known[from[s]]
		if to[s] != old[s] {
			f.active[n] = s
			n++
		}
	}
	f.active = f.active[:n]
	return nil
}

// resolveBasin replaces single steps by where the walk ends, a pixel that
// leads to itself or one whose walk was cut off.
func resolveBasin(basin []int32) {
	for i := range basin {
		if basin[i] < 0 {
			continue
		}
		end := int32(i)
		for basin[end] >= 0 && basin[end] != end {
			end = basin[end]
		}
		basin[i] = end
	}
}

// collect applies the keeping rule and stores the unique pairs, as pixels.
func (f *fastScratch) collect(x, y *side, tol float64) {
	if tol > 0 {
		for s := range f.cur1 {
			p, q := int(x.index[f.old1[s]]), int(x.index[f.cur1[s]])
			dx, dy := float64(p%x.width-q%x.width), float64(p/x.width-q/x.width)
			if math.Sqrt(dx*dx+dy*dy) < tol {
				f.add(x.index[f.old1[s]], y.index[f.cur2[s]])
			}
		}
	} else {
		moving := 0 // f.active is ascending
		for s := range f.cur1 {
			if moving < len(f.active) && int(f.active[moving]) == s {
				moving++
				continue
			}
			f.add(x.index[f.cur1[s]], y.index[f.cur2[s]])
		}
	}
	slices.Sort(f.pairs)
	f.pairs = slices.Compact(f.pairs)
}

func (f *fastScratch) add(i1, i2 int32) { f.pairs = append(f.pairs, uint64(i1)<<32|uint64(i2)) }
