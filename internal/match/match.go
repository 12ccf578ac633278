// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
)

// View is one side of Match.
type View struct {
	Desc Map
	// Mask, when not nil, has one value per pixel; 0 excludes the pixel: no
	// match starts or ends there, and it takes no match from another pixel.
	Mask []uint8
	// Weight, when not nil, is the network's confidence in each descriptor
	// (above 0), needed by the options that name it.
	Weight []float32
	// Far, where not nil, has the descriptors in the place of Desc.Data.
	Far Far
}

// Far are descriptors in memory that the host cannot read.
type Far interface {
	// All is the whole map.
	All() ([]float32, error)
	// Rows are the descriptors of pixels, one after the other.
	Rows(pixels []int32) ([]float32, error)
}

// Options of Match. The zero value asks for the nearest neighbour of every pixel,
// of similarity 0 or more.
type Options struct {
	// Reciprocal keeps pairs that choose each other; without it every pixel of map
	// 1 gets its nearest neighbour, whether or not the choice is mutual.
	Reciprocal bool
	// Subsample S > 1 seeds only every S-th pixel of every S-th row of map 1
	// (fastKeys). Reciprocal results are then a subset of those of
	// Subsample 1 under the same masks: each is a mutual pair that some walk
	// ends in, not necessarily at a seed. One-way results are exactly the
	// Subsample 1 results at the seeds.
	Subsample int
	// BothWays seeds map 2 too, with Subsample > 1 and Reciprocal: what is
	// small in picture 1 and large in picture 2 has few seeds in map 1. Of what is
	// found from map 2, a match is kept where the square of Subsample pixels around
	// either of its ends holds no other.
	BothWays bool
	// TopK keeps the first TopK matches in the result's order; 0 keeps all.
	TopK int
	// Spread makes TopK choose matches all over map 1: the best of every part of
	// it come before the second best of any.
	Spread bool
	// Subpixel places the ends in map 2 between pixels: Result.XY2.
	Subpixel bool
	// MinConfidence drops matches whose confidence is below it. It is compared
	// with the value as returned, without any rescaling; -Inf drops nothing.
	MinConfidence float32
	// MinWeight > 0 masks pixels whose Weight is below it, on either side.
	MinWeight float32
	// Weighted multiplies the similarity by the geometric mean of the two
	// pixels' Weight.
	Weighted bool
	// Border drops matches with either end within this many pixels of its
	// map's edge: kept are Border <= x < Width-Border and the same for y.
	// Neighbours are found before the band is cut away, as in the reference.
	Border int
}

// Result lists matches by descending confidence, ties by Idx1, then Idx2.
//
// The confidence is the score itself: the dot product of the descriptors, for
// the network's unit vectors the cosine of their angle, at most 1 up to
// rounding. Options.Weighted multiplies it by sqrt(q1*q2).
type Result struct {
	Idx1, Idx2 []int64 // pixel numbers y*Width + x
	Confidence []float32
	// XY2 [N,2] are places (x, y) in map 2, with Options.Subpixel only.
	XY2 []float32
	// Seeds is how many pixels of map 1 the search started from, masked ones
	// included.
	Seeds int
}

// Match finds matches between two views.
func (m *Matcher) Match(v1, v2 View, o Options) (*Result, error) {
	if err := o.check(v1, v2); err != nil {
		return nil, err
	}
	mask1, mask2 := o.mask(&m.a, v1), o.mask(&m.b, v2)
	if err := m.ask(v1, v2, mask1, mask2); err != nil {
		return nil, err
	}
	if !m.found.ready {
		for _, v := range []*View{&v1, &v2} {
			if err := v.bring(); err != nil {
				return nil, err
			}
		}
		m.number(&m.a, v1.Desc, mask1)
		m.number(&m.b, v2.Desc, mask2)
		if !(o.Reciprocal && m.blockUp(2*seedCount(v1.Desc, o.Subsample)*m.b.n, o.Subsample)) {
			m.pack(&m.a)
			m.pack(&m.b)
		}
	}
	defer func() { m.found.ready = false }()
	m.seeds.pairs = m.seeds.pairs[:0]
	if m.a.n > 0 && m.b.n > 0 {
		if err := m.candidates(v1, v2, o); err != nil {
			return nil, err
		}
	}
	r := m.rank(v1, v2, o)
	if o.Spread && o.TopK > 0 && len(r.Idx1) > o.TopK {
		r = r.choose(Spread(r.Idx1, nil, v1.Desc, o.TopK))
	}
	r.Seeds = seedCount(v1.Desc, o.Subsample)
	if o.Subpixel {
		var err error
		if r.XY2, err = subpixel(v1, v2, r.Idx1, r.Idx2); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// bring brings descriptors that are far.
func (v *View) bring() (err error) {
	if v.Far == nil {
		return nil
	}
	if v.Desc.Data, err = v.Far.All(); err != nil {
		return err
	}
	v.Far = nil
	return v.Desc.check("map")
}

// choose keeps the matches at the given positions.
func (r *Result) choose(positions []int) *Result {
	out := &Result{}
	for _, k := range positions {
		out.Idx1, out.Idx2 = append(out.Idx1, r.Idx1[k]), append(out.Idx2, r.Idx2[k])
		out.Confidence = append(out.Confidence, r.Confidence[k])
	}
	return out
}

func (o Options) bothWays() bool { return o.BothWays && o.Subsample > 1 && o.Reciprocal }

// seedCount is how many seeds a map has; see grid.
func seedCount(d Map, subsample int) int {
	s := max(1, subsample)
	along := func(n int) int { return (n - s/2 + s - 1) / s }
	return max(0, along(d.Height)) * max(0, along(d.Width))
}

func (o Options) check(v1, v2 View) error {
	if err := checkViews(v1, v2); err != nil {
		return err
	}
	needConf := o.Weighted || o.MinWeight != 0
	for i, v := range [2]View{v1, v2} {
		side := [2]string{"1", "2"}[i]
		if v.Mask != nil {
			if err := checkLen("mask "+side, len(v.Mask), v.Desc); err != nil {
				return err
			}
		}
		if v.Weight != nil || needConf {
			if err := checkLen("descriptor confidence "+side, len(v.Weight), v.Desc); err != nil {
				return err
			}
		}
	}
	switch {
	case o.Subsample < 0:
		return optionError("subsample", o.Subsample, ">= 0")
	case o.TopK < 0:
		return optionError("top_k", o.TopK, ">= 0")
	case o.Border < 0:
		return optionError("border", o.Border, ">= 0")
	case o.MinConfidence != o.MinConfidence:
		return optionError("confidence threshold", o.MinConfidence, "a number")
	case !(o.MinWeight >= 0):
		return optionError("descriptor confidence threshold", o.MinWeight, ">= 0")
	}
	return nil
}

// mask is a view's mask narrowed by the descriptor confidence.
func (o Options) mask(s *side, v View) []uint8 {
	if !(o.MinWeight > 0) {
		return v.Mask
	}
	s.mask = grow(s.mask, len(v.Weight))
	for i, q := range v.Weight {
		s.mask[i] = 0
		if q >= o.MinWeight && (v.Mask == nil || v.Mask[i] != 0) {
			s.mask[i] = 1
		}
	}
	return s.mask
}

// candidates fills m.seeds.pairs with the matches, as pixels in ascending
// order, before any filter on their values.
func (m *Matcher) candidates(v1, v2 View, o Options) error {
	f := &m.seeds
	switch {
	case o.Subsample > 1 && o.Reciprocal:
		return m.seeded(v1, v2, o)
	case !o.Reciprocal:
		f.start(&m.a, v1.Desc, max(1, o.Subsample))
		if !m.found.ready {
			m.round(len(f.cur1) * m.b.n)
		}
		if err := m.nearestOf(&m.a, f.cur1, nil, &m.b, f.cur2); err != nil {
			return err
		}
		for s, c := range f.cur1 {
			f.add(m.a.index[c], m.b.index[f.cur2[s]])
		}
		return nil
	}
	if err := m.nearestBoth(); err != nil {
		return err
	}
	for i, j := range m.nnA {
		if int(m.nnB[j]) == i {
			f.add(m.a.index[i], m.b.index[j])
		}
	}
	return nil
}

// seeded fills m.seeds.pairs from the seeds of map 1 and, on request, of map 2.
func (m *Matcher) seeded(v1, v2 View, o Options) error {
	f := &m.seeds
	m.back = m.back[:0]
	if o.bothWays() {
		back, err := m.fastKeys(&m.b, &m.a, v2.Desc, o.Subsample)
		if err != nil {
			return err
		}
		m.back = append(m.back, back...)
	}
	if _, err := m.fastKeys(&m.a, &m.b, v1.Desc, o.Subsample); err != nil {
		return err
	}
	if len(m.back) == 0 {
		return nil
	}
	one, two := newSquares(v1.Desc, o.Subsample), newSquares(v2.Desc, o.Subsample)
	for _, key := range f.pairs {
		one.take(int(key >> 32))
		two.take(int(uint32(key)))
	}
	for _, key := range m.back {
		p, q := int(uint32(key)), int(key>>32)
		if free1, free2 := one.take(p), two.take(q); free1 || free2 {
			f.pairs = append(f.pairs, uint64(p)<<32|uint64(q))
		}
	}
	slices.Sort(f.pairs)
	f.pairs = slices.Compact(f.pairs)
	return nil
}

// squares notes which squares of a map hold a match.
type squares struct {
	side, width, cols int
	taken             []bool
}

func newSquares(d Map, side int) squares {
	cols := ceilDiv(d.Width, side)
	return squares{side, d.Width, cols, make([]bool, cols*ceilDiv(d.Height, side))}
}

// take reports whether the square of a pixel was free, and takes it.
func (s squares) take(pixel int) bool {
	at := pixel/s.width/s.side*s.cols + pixel%s.width/s.side
	free := !s.taken[at]
	s.taken[at] = true
	return free
}

// rank filters the candidates and sorts them. The sort key holds the
// confidence, inverted, above the candidate's position: candidates are in the
// order of their pixels, so equal confidences stay in that order.
func (m *Matcher) rank(v1, v2 View, o Options) *Result {
	f := &m.seeds
	m.order = grow(m.order, len(f.pairs))
	const chunk, dropped = 4096, math.MaxUint64
	m.pool.Run(ceilDiv(len(f.pairs), chunk), func(_, tile int) {
		for i := tile * chunk; i < min(len(f.pairs), (tile+1)*chunk); i++ {
			m.order[i] = dropped
			p, q := int32(f.pairs[i]>>32), int32(uint32(f.pairs[i]))
			if !v1.Desc.inside(p, o.Border) || !v2.Desc.inside(q, o.Border) {
				continue
			}
			if c := m.confidence(v1, v2, p, q, o.Weighted); c >= o.MinConfidence {
				m.order[i] = uint64(descending(c))<<32 | uint64(i)
			}
		}
	})
	m.order = slices.DeleteFunc(m.order, func(key uint64) bool { return key == dropped })
	m.spare = grow(m.spare, len(m.order))
	keep := sorted(m.order, m.spare)
	if o.TopK > 0 && len(keep) > o.TopK && !o.Spread {
		keep = keep[:o.TopK]
	}
	r := &Result{Idx1: make([]int64, len(keep)), Idx2: make([]int64, len(keep)), Confidence: make([]float32, len(keep))}
	for k, key := range keep {
		pair := f.pairs[uint32(key)]
		r.Idx1[k], r.Idx2[k] = int64(pair>>32), int64(uint32(pair))
		r.Confidence[k] = fromDescending(uint32(key >> 32))
	}
	return r
}

// sorted sorts keys whose lower 32 bits ascend, and returns them in one of the two slices,
// which have equal lengths: by 11 of the upper bits at a time, the lowest first.
func sorted(keys, spare []uint64) []uint64 {
	const bits = 11
	if len(keys) < 1<<bits {
		slices.Sort(keys)
		return keys
	}
	for shift := 32; shift < 64; shift += bits {
		var start [1 << bits]int
		for _, k := range keys {
			start[k>>shift&(1<<bits-1)]++
		}
		at := 0
		for i, n := range start {
			start[i], at = at, at+n
		}
		for _, k := range keys {
			p := &start[k>>shift&(1<<bits-1)]
			spare[*p] = k
			*p++
		}
		keys, spare = spare, keys
	}
	return keys
}

// confidence is the score of a pair, weighted on request. A weight that is not
// a number gives NaN, which no threshold lets through. Every candidate ends at its
// pixel's nearest neighbour, so that a Finder's scores are those wanted.
func (m *Matcher) confidence(v1, v2 View, p, q int32, weighted bool) float32 {
	var c float32
	if m.found.ready {
		c = m.found.scores[p]
	} else {
		dim := v1.Desc.Dim
		c = kernel.Dot(v1.Desc.Data[int(p)*dim:][:dim], v2.Desc.Data[int(q)*dim:][:dim])
	}
	if weighted {
		c *= float32(math.Sqrt(float64(v1.Weight[p] * v2.Weight[q])))
	}
	return c + 0 // -0 becomes 0, which it equals and must tie with
}

// inside reports whether a pixel lies outside the border band.
func (d Map) inside(pixel int32, border int) bool {
	x, y := int(pixel)%d.Width, int(pixel)/d.Width
	return x >= border && x < d.Width-border && y >= border && y < d.Height-border
}

// descending maps floats to integers in the opposite order: the bits of
// positive floats ascend with their values, those of negative ones descend.
func descending(c float32) uint32 {
	u := math.Float32bits(c)
	if u>>31 == 0 {
		return ^(u | 1<<31)
	}
	return u
}

func fromDescending(u uint32) float32 {
	if u>>31 == 0 {
		return math.Float32frombits(^u &^ (1 << 31))
	}
	return math.Float32frombits(u)
}
