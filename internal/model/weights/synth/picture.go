// SPDX-License-Identifier: Apache-2.0

package synth

import "github.com/mast3r-runtime/mast3r-runtime/internal/par"

// Picture makes a procedural test picture as packed RGB bytes: a gradient, two
// scales of noise, and twelve discs and rectangles. The second view of a pair
// is the same picture seen at an offset (dx, dy), neither negative. It is
// integer arithmetic throughout, and equal to the golden data's pictures.
func Picture(pool *par.Pool, name string, w, h, dx, dy int) []byte {
	p := picture{seed: FNV1a64(name), side: max(w, h), pix: make([]byte, 3*w*h), w: w, dx: dx, dy: dy}
	s := p.side
	for n := range p.shapes {
		mod := func(i, m int) int { return int(Bits(name+"#shape", 16*n+i) % uint64(m)) }
		p.shapes[n] = shape{
			cx: mod(0, s+s/4), cy: mod(1, s+s/4), r: s/24 + mod(2, s/8+1),
			colour: [3]int{mod(3, 256), mod(4, 256), mod(5, 256)},
		}
	}
	// Every pixel is a function of its position alone: rows may run anywhere.
	pool.Run(h, func(_, y int) { p.row(y) })
	return p.pix
}

// shape is a disc of radius r or a rectangle of half-width r.
type shape struct {
	cx, cy, r int
	colour    [3]int
}

type picture struct {
	seed   uint64
	side   int
	pix    []byte
	w      int
	dx, dy int
	shapes [12]shape
}

// cell is the noise of channel k in the square of size s around (x, y).
func (p *picture) cell(x, y, s, k int) int {
	i := ((y/s)*65536+x/s)*8 + k
	return int(mix(p.seed+uint64(i+1)*weyl) >> 56)
}

// covers tests discs (even n) and rectangles twice as wide as high (odd n).
func (s *shape) covers(n, x, y int) bool {
	ax, ay := max(x-s.cx, s.cx-x), max(y-s.cy, s.cy-y)
	if n%2 == 0 {
		return ax*ax+ay*ay <= s.r*s.r
	}
	return ax <= s.r && ay <= s.r/2
}

func (p *picture) row(y int) {
	out := p.pix[3*p.w*y : 3*p.w*(y+1)]
	y += p.dy
	for i := range p.w {
		x := i + p.dx
		var v [3]int
		for k := range v {
			g := (40 + x*(3+k)*64/p.side + y*(5-k)*48/p.side) % 512
			if g > 255 { // a triangle wave
				g = 511 - g
			}
			v[k] = (5*g + 3*p.cell(x, y, 8, k)) / 8
		}
		for n := range p.shapes {
			if s := &p.shapes[n]; s.covers(n, x, y) {
				for k := range v {
					v[k] = (v[k] + 3*s.colour[k]) / 4
				}
			}
		}
		for k := range v {
			fine := v[k] + p.cell(x, y, 1, 4+k%2)>>5 - 4
			out[3*i+k] = byte(min(max(fine, 0), 255))
		}
	}
}
