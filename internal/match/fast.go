// SPDX-License-Identifier: Apache-2.0

package match

import "slices"

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

// grid appends the seeds of a subsampled map to dst, in ascending order.
func grid(dst []int32, d Map, s int) []int32 {
	for y := s / 2; y < d.Height; y += s {
		for x := s / 2; x < d.Width; x += s {
			dst = append(dst, int32(y*d.Width+x))
		}
	}
	return dst
}

// fastKeys follows each seed of map 1, every step-th pixel of every step-th row of d, to its
// nearest neighbour in map 2, back to the nearest neighbour in map 1, and so on, until the
// pair repeats. Every pair is therefore mutual: the result is a subset of the mutual
// neighbours of Nearest. The score of the pair grows with every move (on a tie the index
// falls), so the walk cannot cycle.
//
// The pairs, unique and sorted, are left in m.seeds.pairs, the pixel of map 1 in the upper
// half of a key.
func (m *Matcher) fastKeys(x, y *side, d Map, step int) ([]uint64, error) {
	f := &m.seeds
	f.start(x, d, step)
	f.pairs = f.pairs[:0]
	if len(f.cur1) == 0 || y.n == 0 {
		return nil, nil
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
		if it >= maxRounds {
			break
		}
		copy(f.old1, f.cur1)
		copy(f.old2, f.cur2)
	}
	f.collect(x, y)
	return f.pairs, nil
}

// start sets the state to the usable seeds, in ascending order.
func (f *fastScratch) start(x *side, d Map, step int) {
	f.cur1 = grid(f.cur1[:0], d, step)
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

// collect stores the unique pairs of the seeds that have come to rest, as pixels.
func (f *fastScratch) collect(x, y *side) {
	moving := 0 // f.active is ascending
	for s := range f.cur1 {
		if moving < len(f.active) && int(f.active[moving]) == s {
			moving++
			continue
		}
		f.add(x.index[f.cur1[s]], y.index[f.cur2[s]])
	}
	slices.Sort(f.pairs)
	f.pairs = slices.Compact(f.pairs)
}

func (f *fastScratch) add(i1, i2 int32) { f.pairs = append(f.pairs, uint64(i1)<<32|uint64(i2)) }
