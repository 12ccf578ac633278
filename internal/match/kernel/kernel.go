// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
)

// UnrolledDim is the descriptor length with kernels of its own, that of every
// released model. Other lengths run the same tiles with a loop over the depth.
const UnrolledDim = 24

// Args is one strip of work: MR rows against Panels panels. The assembly reads
// it by offset, so the order of the first eight fields is fixed. It is a
// structure that callers keep, not a parameter list, because pointers passed
// through a function value escape and would be allocated per call.
type Args struct {
	Rows   *float32 // one group, [Dim][MR]
	Cols   *float32 // Panels panels, [Dim][NR]
	Panels int
	ColMax *float32 // running maximum of each column, updated; [Panels*NR]
	Tmp    *float32 // TmpFloats values of scratch, 64-byte aligned for speed
	RowMax *float32 // maximum of each row over this strip, written; [MR]
	Dim    int
	_      *int32 // the int8 kernel's start values
}

// Kernel is one implementation.
type Kernel struct {
	ISA    isa.Set
	MR, NR int
	// Int8 is nil where no instruction multiplies bytes fast enough to make a
	// prefilter pay.
	Int8 *Int8
	// Blocks is nil where there is none; where there is, NR is BlockPanel.
	Blocks *Blocks

	strip, stripUnrolled       func(*Args)
	stripRow, stripRowUnrolled func(*Args)
	firstEqual                 func(a, b *float32, panels, dim int, t float32) int
	firstEqualUnrolled         func(a, b *float32, panels, dim int, t float32) int
	rowBest, rowBestUnrolled   func(a, b *float32, panels, dim int) float32
}

// TmpFloats is the largest scratch any kernel needs: two tiles of 16 x 16.
const TmpFloats = 2 * 16 * 16

// Strip scores MR rows against a strip and keeps the maxima of both directions.
func (k *Kernel) Strip(p *Args) {
	if p.Dim == UnrolledDim {
		k.stripUnrolled(p)
		return
	}
	k.strip(p)
}

// StripRow is Strip without the column maxima.
func (k *Kernel) StripRow(p *Args) {
	if p.Dim == UnrolledDim {
		k.stripRowUnrolled(p)
		return
	}
	k.stripRow(p)
}

// FirstEqual returns the first column whose score with row a equals t, or -1.
// The row is a plain [dim] vector, the columns are panels.
func (k *Kernel) FirstEqual(a, b *float32, panels, dim int, t float32) int {
	if dim == UnrolledDim {
		return k.firstEqualUnrolled(a, b, panels, dim, t)
	}
	return k.firstEqual(a, b, panels, dim, t)
}

// RowBest returns the largest score of row a.
func (k *Kernel) RowBest(a, b *float32, panels, dim int) float32 {
	if dim == UnrolledDim {
		return k.rowBestUnrolled(a, b, panels, dim)
	}
	return k.rowBest(a, b, panels, dim)
}

// All lists the implementations this machine can run, fastest first. The
// portable one is always there, last.
func All() []*Kernel { return append(native(), &portable) }

// Best is the implementation that this machine and MAST3R_CPU_ISA ask for.
func Best() *Kernel {
	all := All()
	slices.Reverse(all)
	var have []isa.Set
	for _, k := range all {
		have = append(have, k.ISA)
	}
	return all[slices.Index(have, isa.Pick(have, func() bool { return mmlaPays(all) }))]
}
