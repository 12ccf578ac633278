// SPDX-License-Identifier: Apache-2.0

package match

import "math"

// side is one map made ready for the kernels. Pixels that are masked or whose
// descriptor is unusable are left out, so the kernels never meet them; the
// rest are numbered 0..n-1 in the order of their pixels. That order is kept on
// purpose: the lowest compact number among ties is the lowest pixel.
type side struct {
	data  []float32 // the caller's map, borrowed for the call
	dim   int
	width int
	n     int
	// index[c] is the pixel of compact number c.
	index []int32
	// panels holds the n descriptors, [n/NR][dim][NR], the last one repeated
	// to fill the last panel.
	panels []float32
	keep   []bool
	mask   []uint8

	abs  float32   // the largest magnitude of a component
	most []float32 // of each tile of pixels, while preparing
	rounding
}

// row returns the descriptor of compact number c.
func (s *side) row(c int) []float32 {
	p := int(s.index[c]) * s.dim
	return s.data[p : p+s.dim : p+s.dim]
}

func (s *side) panelCount(nr int) int { return ceilDiv(s.n, nr) }

// limit bounds usable components: with |x| <= 2^48 a sum of fewer than 2^31
// products stays below 2^127, the largest power of two in float32.
const limit = 0x1p48

// magnitude returns the largest magnitude of a descriptor's components, or
// more than limit where one is not a number. Without their sign, the bits of
// floats ascend with their values, and NaN lies above infinity.
func magnitude(row []float32) float32 {
	var most uint32
	for _, v := range row {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	if most > infinity {
		most = infinity
	}
	return math.Float32frombits(most)
}

const infinity = 0x7f800000 // its bits

// prepare numbers and packs a checked map; mask may be nil, else 0 excludes a pixel.
func (m *Matcher) prepare(s *side, d Map, mask []uint8) {
	m.number(s, d, mask)
	m.pack(s)
}

// number numbers the pixels that are used.
func (m *Matcher) number(s *side, d Map, mask []uint8) {
	s.data, s.dim, s.width, s.n = d.Data, d.Dim, d.Width, 0
	pixels := d.Pixels()
	s.keep = grow(s.keep, pixels)
	m.int8.ready, m.blocks.ready = false, false
	const chunk = 4096
	s.most = grow(s.most, ceilDiv(pixels, chunk))
	m.pool.Run(len(s.most), func(_, tile int) {
		s.most[tile] = 0
		for i := tile * chunk; i < min(pixels, (tile+1)*chunk); i++ {
			most := magnitude(d.Data[i*d.Dim : (i+1)*d.Dim])
			s.keep[i] = (mask == nil || mask[i] != 0) && most <= limit
			if s.keep[i] {
				s.most[tile] = max(s.most[tile], most)
			}
		}
	})
	s.abs = 0
	for _, v := range s.most {
		s.abs = max(s.abs, v)
	}
	s.index = grow(s.index, pixels)
	for i, ok := range s.keep {
		if ok {
			s.index[s.n] = int32(i)
			s.n++
		}
	}
}

// pack lays the descriptors out for the kernels.
func (m *Matcher) pack(s *side) {
	if s.n == 0 {
		return
	}
	nr := m.kern.NR
	panels := s.panelCount(nr)
	s.panels = grow(s.panels, panels*nr*s.dim)
	const batch = 64
	m.pool.Run(ceilDiv(panels, batch), func(_, tile int) {
		for p := tile * batch; p < min(panels, (tile+1)*batch); p++ {
			packGroup(s.panels[p*nr*s.dim:(p+1)*nr*s.dim], s, nr, p*nr, nr)
		}
	})
}

// scatter writes compact neighbours nn, which lie in y, as pixels of y at the
// pixels of s.
func (s *side) scatter(out, nn []int32, y *side) {
	for c, j := range nn {
		out[s.index[c]] = y.index[j]
	}
}
