// SPDX-License-Identifier: Apache-2.0

package match

// Neighbours are nearest neighbours of a map's pixels that something faster than
// this package has found, with its scores and its rule for ties.
type Neighbours struct {
	To    []int32 // pixels of the other map
	Score []float32
	// Used has 0 for pixels that are left out.
	Used []uint8
}

// Finder finds the neighbours of whole maps, both ways, of the pixels that the views'
// masks leave. It may decline.
type Finder func(a, b View) (n [2]Neighbours, ok bool, err error)

// finderPairs is the least number of products for which a Finder is asked: what
// the maps' way there and back is worth.
const finderPairs = 1 << 28

// Find has the next calls of Match ask f first; nil asks nobody.
func (m *Matcher) Find(f Finder) *Matcher {
	m.finder = f
	return m
}

// found are the neighbours of both sides as compact numbers, where a Finder has
// answered.
type found struct {
	ready  bool
	to     [2][]int32
	scores []float32 // of map 1's pixels
	rank   []int32   // of each pixel of a map, its compact number
}

// ask fills in both sides and their neighbours, or leaves that to prepare.
func (m *Matcher) ask(v1, v2 View, maskA, maskB []uint8) error {
	f := &m.found
	f.ready = false
	p1, p2 := v1.Desc.Pixels(), v2.Desc.Pixels()
	if m.finder == nil || p1 == 0 || p2 < finderPairs/p1 {
		return nil
	}
	v1.Mask, v2.Mask = maskA, maskB
	n, ok, err := m.finder(v1, v2)
	if err != nil || !ok {
		return err
	}
	sides := [2]*side{&m.a, &m.b}
	for i, d := range []Map{v1.Desc, v2.Desc} {
		sides[i].adopt(d, n[i].Used)
	}
	m.int8.ready, m.blocks.ready = false, false
	for i, s := range sides {
		other := sides[1-i]
		f.rank = grow(f.rank, max(p1, p2))
		for c, p := range other.index[:other.n] {
			f.rank[p] = int32(c)
		}
		f.to[i] = grow(f.to[i], s.n)
		if other.n == 0 {
			continue // nobody will look
		}
		for c, p := range s.index[:s.n] {
			f.to[i][c] = f.rank[n[i].To[p]]
		}
	}
	f.scores, f.ready = n[0].Score, true
	return nil
}

// adopt numbers the pixels that are used.
func (s *side) adopt(d Map, used []uint8) {
	s.data, s.dim, s.width, s.n = d.Data, d.Dim, d.Width, 0
	s.index = grow(s.index, len(used))
	for i, u := range used {
		if u != 0 {
			s.index[s.n] = int32(i)
			s.n++
		}
	}
}
