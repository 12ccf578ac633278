// SPDX-License-Identifier: Apache-2.0

package kernel

import "unsafe"

// The shape of a cell.
const (
	CellRows = 16
	CellCols = 64
)

// CellArgs is a block of rows against cells of columns on matrix tiles. The assembly
// reads it by offset.
type CellArgs struct {
	Rows   *uint32 // [Groups][CellRows][Stride/4], signed
	Groups int
	Cols   *uint32 // [Cells][2][Quads][32], signed
	Cells  int
	ColMax *int32 // updated; [Cells*CellCols]
	Top    *int32 // written, never below 0: maxima of cells, [Cells][1+Groups], the first of each of no use
	Tmp    *int32 // TmpFloats values, 64-byte aligned for speed, as Rows
	Quads  int    // depth / 4, rounded up
	Stride int    // bytes of a row, CellStride(Quads)

	config *[64]byte
}

// AskAhead is how many cells Order goes on after its end, with any cells.
const AskAhead = 4

// AskArgs is the search of groups of rows in chosen cells. The assembly reads it by offset.
type AskArgs struct {
	Row8   *uint32   // [groups][CellRows][UnrolledDim/4], Offset of the kernel for vectors added
	Cols8  *uint32   // [cells][2][UnrolledDim/4][32]
	Start  *int32    // as in Int8Args
	Order  *AskCell  // [Cells+AskAhead]
	Cells  int       // 1 or more
	Floor  *int32    // [groups][CellRows], raised: scores of a row below it do not count
	Margin *int32    // [groups][CellRows]: how far below the best score of a row they do not
	Found  *AskFound // written: what counted, in order; room for Cells*CellRows
	Shift  int
	End    uintptr // written: of Found
}

// AskCell is a cell for a group of rows.
type AskCell struct {
	Cell, Value uint16 // Value is the largest score >> Shift
	Group       uint32
}

// AskFound is the best score of a row in a cell.
type AskFound struct {
	Cell, Row uint16
	Score     int32
	Cols      uint64 // a bit a column, of those that count
}

// Ask searches the cells for those rows whose floors they reach.
func (k *Int8) Ask(p *AskArgs) { k.ask(p) }

// CellStride is the stride of rows, in bytes.
func CellStride(quads int) int {
	if quads <= 8 {
		return 32
	}
	return 64
}

// Cells writes the largest score of each cell, and raises the maxima of columns.
func (k *Int8) Cells(p *CellArgs) {
	p.config = &cellConfigs[p.Quads]
	k.cells(p)
}

// HasCells reports whether there is a kernel.
func (k *Int8) HasCells() bool { return k.cells != nil }

// cellConfigs are tiles for Cells: sums in 0 to 2, rows in 3, columns in 4 to 7.
var cellConfigs = tileShapes(3, 4)

// cellsGo is Cells in Go, for tests where there are no tiles.
func cellsGo(p *CellArgs) {
	colMax := unsafe.Slice(p.ColMax, p.Cells*CellCols)
	top := unsafe.Slice(p.Top, p.Cells*(1+p.Groups))
	cols := unsafe.Slice(p.Cols, p.Cells*2*p.Quads*32)
	all := unsafe.Slice(p.Rows, p.Groups*CellRows*p.Stride/4)
	for g := range p.Groups {
		rows := all[g*CellRows*p.Stride/4:]
		for c := range p.Cells {
			most := int32(0)
			for i := range CellRows {
				for j := c * CellCols; j < (c+1)*CellCols; j++ {
					var sum int32
					for q := range p.Quads {
						sum += dotBytes(rows[i*p.Stride/4+q], cols[(j/32*p.Quads+q)*32+j%32])
					}
					most = max(most, sum)
					colMax[j] = max(colMax[j], sum)
				}
			}
			top[c*(1+p.Groups)+1+g] = most
		}
	}
}
