// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
)

// The portable tile is small: Go keeps few floats in registers.
const (
	portableMR = 4
	portableNR = 8
)

var portable = Kernel{
	ISA: isa.Portable, MR: portableMR, NR: portableNR,
	strip: stripGo, stripUnrolled: stripGo,
	stripRow: stripRowGo, stripRowUnrolled: stripRowGo,
	firstEqual: firstEqualGo, firstEqualUnrolled: firstEqualGo,
	rowBest: rowBestGo, rowBestUnrolled: rowBestGo,
}

// FMA32 returns a*b + c with a single rounding to float32.
//
// A float64 holds a*b exactly (24+24 < 53 bits), so only the sum is rounded,
// first to 53 bits and then to 24. Rounding twice goes wrong only when the
// first rounding lands on a midpoint between two float32 values; then the
// discarded part decides, which TwoSum recovers exactly. Below the normal
// range midpoints lie elsewhere, so every tiny sum takes the careful way.
func FMA32(a, b, c float32) float32 {
	s := float64(a)*float64(b) + float64(c)
	if risky(s) {
		return fma32Slow(a, b, c)
	}
	return float32(s)
}

// risky reports whether rounding s to float32 needs the careful path.
func risky(s float64) bool {
	u := math.Float64bits(s)
	return u&(1<<29-1) == 1<<28 || u<<1 < (1023-126)<<53
}

func fma32Slow(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	u := math.Float64bits(s)
	// Knuth's TwoSum: s + e == p + q exactly.
	t := s - p
	e := (p - (s - t)) + (q - t)
	// Round to odd: a value that is not exact must not look like a midpoint.
	if e != 0 && u&1 == 0 && !math.IsInf(s, 0) {
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	return float32(math.Float64frombits(u))
}

// Dot is the score of the contract for two plain vectors of equal length.
func Dot(a, b []float32) float32 {
	s := a[0] * b[0]
	for k := 1; k < len(a); k++ {
		s = FMA32(a[k], b[k], s)
	}
	return s
}

func stripGo(p *Args)    { stripTiles(p, true) }
func stripRowGo(p *Args) { stripTiles(p, false) }

func stripTiles(p *Args, both bool) {
	const mr, nr = portableMR, portableNR
	rows := unsafe.Slice(p.Rows, p.Dim*mr)
	cols := unsafe.Slice(p.Cols, p.Panels*p.Dim*nr)
	rowMax := (*[mr]float32)(unsafe.Pointer(p.RowMax))
	for i := range rowMax {
		rowMax[i] = float32(math.Inf(-1))
	}
	var colMax []float32
	if both {
		colMax = unsafe.Slice(p.ColMax, p.Panels*nr)
	}
	for q := range p.Panels {
		panel := cols[q*p.Dim*nr : (q+1)*p.Dim*nr]
		for i := range mr {
			var s [nr]float32
			scores(&s, rows[i:], mr, panel)
			for j, v := range s {
				rowMax[i] = max(rowMax[i], v)
				if both {
					colMax[q*nr+j] = max(colMax[q*nr+j], v)
				}
			}
		}
	}
}

// scores fills s with the scores of one row, whose values lie stride apart,
// against one panel. Its body is FMA32 written out: the call would cost more
// than the arithmetic, and the compiler does not inline it.
func scores(s *[portableNR]float32, row []float32, stride int, panel []float32) {
	a := row[0]
	for j, b := range panel[:portableNR] {
		s[j] = a * b
	}
	for k := 1; k*portableNR < len(panel); k++ {
		a := row[k*stride]
		a64 := float64(a)
		cols := (*[portableNR]float32)(panel[k*portableNR:])
		for j, b := range cols {
			sum := a64*float64(b) + float64(s[j])
			if risky(sum) {
				s[j] = fma32Slow(a, b, s[j])
			} else {
				s[j] = float32(sum)
			}
		}
	}
}

func firstEqualGo(a, b *float32, panels, dim int, t float32) int {
	row, cols := unsafe.Slice(a, dim), unsafe.Slice(b, panels*dim*portableNR)
	for q := range panels {
		var s [portableNR]float32
		scores(&s, row, 1, cols[q*dim*portableNR:(q+1)*dim*portableNR])
		for j, v := range s {
			if v == t {
				return q*portableNR + j
			}
		}
	}
	return -1
}

func rowBestGo(a, b *float32, panels, dim int) float32 {
	row, cols := unsafe.Slice(a, dim), unsafe.Slice(b, panels*dim*portableNR)
	best := float32(math.Inf(-1))
	for q := range panels {
		var s [portableNR]float32
		scores(&s, row, 1, cols[q*dim*portableNR:(q+1)*dim*portableNR])
		for _, v := range s {
			best = max(best, v)
		}
	}
	return best
}
