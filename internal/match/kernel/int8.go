// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
)

// Int8 is the quantised companion of a Kernel, with the same NR.
type Int8 struct {
	// MR is the number of rows of a strip.
	MR int
	// Offset is added to the bytes of rows: 128 where the instruction
	// multiplies unsigned by signed bytes, else 0.
	Offset int
	// Tiles says that strips run on matrix tiles. Their rows lie one after the other,
	// without an offset, and Quads is at most 16.
	Tiles bool

	strip, stripUnrolled       func(*Int8Args)
	stripRow, stripRowUnrolled func(*Int8Args)
	best, bestUnrolled         func(*BestArgs)
	pack                       func(*PackArgs)
	cells                      func(*CellArgs) // nil but on tiles
	ask                        func(*AskArgs)
}

// Int8Args is one strip of quantised work, in the layout of Args. Values are
// packed four to a word along the depth.
type Int8Args struct {
	Rows   *uint32 // [Quads][MR], Offset added; on tiles [MR][Quads], signed
	Cols   *uint32 // [Panels][Quads][NR], signed
	Panels int
	ColMax *int32 // updated; never below 0
	Tmp    *int32 // TmpFloats values
	RowMax *int32 // written; never below 0
	Quads  int    // depth / 4, rounded up, padded with zero products
	Start  *int32 // -Offset * (sum of the column's values), [Panels*NR]

	config *[64]byte // of tiles
}

// Strip is Kernel.Strip for quantised descriptors. Its integer sums are exact.
func (k *Int8) Strip(p *Int8Args) {
	if k.Tiles {
		p.config = &tileConfigs[p.Quads]
		k.strip(p)
		return
	}
	if p.Quads == UnrolledDim/4 {
		k.stripUnrolled(p)
		return
	}
	k.strip(p)
}

// StripRow is Strip without the column maxima.
func (k *Int8) StripRow(p *Int8Args) {
	if k.Tiles {
		p.config = &tileConfigs[p.Quads]
		k.stripRow(p)
		return
	}
	if p.Quads == UnrolledDim/4 {
		k.stripRowUnrolled(p)
		return
	}
	k.stripRow(p)
}

// mmlaPays measures, once, whether strips by SMMLA are faster than those by SDOT on this
// processor, by a tenth at least: nobody has run both for us.
func mmlaPays(all []*Kernel) bool {
	mmlaOnce.Do(func() { mmlaFaster = 10*stripTime(all, isa.NEONMMLA) <= 9*stripTime(all, isa.NEON) })
	return mmlaFaster
}

var (
	mmlaOnce   sync.Once
	mmlaFaster bool
)

// stripTime is the shortest of some runs of a strip, of some microseconds each.
func stripTime(all []*Kernel, set isa.Set) time.Duration {
	const panels, rounds = 128, 7
	i := slices.IndexFunc(all, func(k *Kernel) bool { return k.ISA == set })
	k := all[i]
	words := make([]uint32, UnrolledDim/4*max(k.Int8.MR, panels*k.NR))
	sums := make([]int32, panels*k.NR)
	var tmp, rowMax [TmpFloats]int32
	p := Int8Args{Rows: &words[0], Cols: &words[0], Panels: panels, ColMax: &sums[0], Tmp: &tmp[0], RowMax: &rowMax[0],
		Quads: UnrolledDim / 4, Start: &sums[0]}
	best := time.Duration(math.MaxInt64 / 10)
	for range rounds {
		start := time.Now()
		k.Int8.Strip(&p)
		best = min(best, time.Since(start))
	}
	return best
}

// BestArgs is the search of one row, with its descriptors both rounded and as
// they are. The assembly reads it by offset.
type BestArgs struct {
	Row8   *uint32 // [Quads], Offset added
	Cols8  *uint32 // [Panels][Quads][NR], signed
	Panels int
	Row    *float32 // [Dim]
	Cols   *float32 // [Panels][Dim][NR]
	Start  *int32   // as in Int8Args
	Quads  int
	Dim    int
	Floor  int32
	Score  float32 // written
	At     int     // written
	Hits   int     // panels scored exactly, added up over calls
}

// Best scores a row exactly against those panels in which a rounded score
// reaches Floor. It writes the largest score and the first column that has it,
// or -Inf and -1 when no panel qualifies.
func (k *Int8) Best(p *BestArgs) {
	if p.Dim == UnrolledDim {
		k.bestUnrolled(p)
		return
	}
	k.best(p)
}

// PackArgs is the rounding of panels to bytes. The assembly reads it by offset.
type PackArgs struct {
	Cols   *float32 // [Panels][Dim][NR]
	Words  *uint32  // written; [Panels][Quads][NR]
	Panels int
	Start  *int32   // written, as in Int8Args
	Norm   *float32 // written: sums of the squares of value*Scale, [Panels*NR]
	Err    *float32 // written: sums of the squares of what rounding took
	Dim    int
	Scale  float32 // of every value, which must end within -127..127
}

// Pack rounds value*Scale to the nearest byte, ties to even. Sums are taken in
// float32 in no particular order of operations: they serve as bounds, which
// the caller widens.
func (k *Int8) Pack(p *PackArgs) { k.pack(p) }

// packGo is Pack for any kernel.
func packGo(p *PackArgs, nr, offset int) {
	quads := (p.Dim + 3) / 4
	n := p.Panels * nr
	cols, words := unsafe.Slice(p.Cols, n*p.Dim), unsafe.Slice(p.Words, n*quads)
	start, norm, rest := unsafe.Slice(p.Start, n), unsafe.Slice(p.Norm, n), unsafe.Slice(p.Err, n)
	clear(words)
	clear(start)
	clear(norm)
	clear(rest)
	// Adding 1.5 * 2^23 leaves the rounded integer in the low bits. The
	// conversions keep the compiler from fusing, which would not round.
	const magic = 0x1.8p23
	for q := range p.Panels {
		for d := range p.Dim {
			from := cols[(q*p.Dim+d)*nr:][:nr]
			to := words[(q*quads+d/4)*nr:][:nr]
			for j, v := range from {
				t := float32(v * p.Scale)
				m := float32(t + magic)
				b := int32(int8(math.Float32bits(m)))
				e := t - float32(m-magic)
				to[j] |= uint32(uint8(b)) << (8 * (d % 4))
				start[q*nr+j] -= int32(offset) * b
				norm[q*nr+j] += t * t
				rest[q*nr+j] += e * e
			}
		}
	}
}
