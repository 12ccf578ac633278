// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

func signed(r *rand.Rand, n int) []int8 {
	x := make([]int8, n)
	for i := range x {
		x[i] = int8(r.IntN(255) - 127)
	}
	return x
}

func quadWords(x []int8) []uint32 {
	w := make([]uint32, len(x)/4)
	for i, v := range x {
		w[i/4] |= uint32(uint8(v)) << (8 * (i % 4))
	}
	return w
}

// panelWords are columns of depth bytes in panels of 32.
func panelWords(x []int8, depth int) []uint32 {
	w := make([]uint32, len(x)/4)
	for i, v := range x {
		j, d := i/depth, i%depth
		w[(j/32*(depth/4)+d/4)*32+j%32] |= uint32(uint8(v)) << (8 * (d % 4))
	}
	return w
}

func dot8(a, b []int8) (sum int32) {
	for i, v := range a {
		sum += int32(v) * int32(b[i])
	}
	return sum
}

// Cells have the maxima that a plain loop finds.
func TestCells(t *testing.T) {
	forEachInt8(t, func(t *testing.T, k *Kernel) {
		if !k.Int8.HasCells() {
			t.Skip("no cells")
		}
		for _, quads := range []int{1, 6, 7, 9, 16} {
			for _, groups := range []int{1, 2, 7} {
				testCells(t, k, quads, groups)
			}
		}
	})
}

func testCells(t *testing.T, k *Kernel, quads, groups int) {
	const cells = 3
	r := rand.New(rand.NewPCG(uint64(quads), uint64(groups)))
	stride := CellStride(quads)
	rows, cols := signed(r, groups*CellRows*quads*4), signed(r, cells*CellCols*quads*4)
	memory := make([]uint32, groups*CellRows*stride/4)
	for i := range groups * CellRows {
		copy(memory[i*stride/4:], quadWords(rows[i*quads*4:(i+1)*quads*4]))
	}
	packed := panelWords(cols, quads*4)
	colMax, top := make([]int32, cells*CellCols), make([]int32, cells*(1+groups))
	want, wantTop := make([]int32, len(colMax)), make([]int32, len(top))
	for j := range colMax {
		colMax[j] = int32(r.IntN(2) * r.IntN(90000))
		want[j] = colMax[j]
		for i := range groups * CellRows {
			s := dot8(rows[i*quads*4:(i+1)*quads*4], cols[j*quads*4:(j+1)*quads*4])
			want[j] = max(want[j], s)
			most := &wantTop[j/CellCols*(1+groups)+1+i/CellRows]
			*most = max(*most, s)
		}
	}
	tmp := make([]int32, TmpFloats)
	for i := range tmp {
		tmp[i] = math.MaxInt32 // what an earlier call has left
	}
	k.Int8.Cells(&CellArgs{Rows: &memory[0], Groups: groups, Cols: &packed[0], Cells: cells, ColMax: &colMax[0], Top: &top[0],
		Tmp: &tmp[0], Quads: quads, Stride: stride})
	for c := range cells {
		top[c*(1+groups)] = 0
	}
	if !slices.Equal(colMax, want) || !slices.Equal(top, wantTop) {
		t.Fatalf("%d quads, %d groups: maxima differ from a plain loop", quads, groups)
	}
}

// Rows ask the cells that reach their floors, and find what a plain loop finds.
func TestAsk(t *testing.T) {
	forEachInt8(t, func(t *testing.T, k *Kernel) {
		if !k.Int8.HasCells() {
			t.Skip("no cells")
		}
		const cells, groups, depth, shift = 7, 3, UnrolledDim, 2
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 9))
			rows, cols := signed(r, groups*CellRows*depth), signed(r, cells*CellCols*depth)
			offset := make([]int8, len(rows))
			for i, v := range rows {
				offset[i] = int8(int(v) + 128)
			}
			start := make([]int32, cells*CellCols)
			for j := range start {
				for _, v := range cols[j*depth : (j+1)*depth] {
					start[j] -= 128 * int32(v)
				}
			}
			score := func(row, col int) int32 {
				return dot8(rows[row*depth:(row+1)*depth], cols[col*depth:(col+1)*depth])
			}
			floor, margin := make([]int32, groups*CellRows), make([]int32, groups*CellRows)
			for i := range floor {
				floor[i], margin[i] = []int32{math.MinInt32, math.MaxInt32, 30000, 60000, -5}[r.IntN(5)], int32(r.IntN(9000))
			}
			var order []AskCell
			var want []AskFound
			wantFloor := slices.Clone(floor)
			for range 9 {
				cell, group := r.IntN(cells), r.IntN(groups)
				most := int32(0)
				for i := range CellRows * CellCols {
					most = max(most, score(group*CellRows+i/CellCols, cell*CellCols+i%CellCols))
				}
				order = append(order, AskCell{uint16(cell), uint16(most >> shift), uint32(group)})
				for row := group * CellRows; row < (group+1)*CellRows; row++ {
					best, mask := int32(math.MinInt32), uint64(0)
					for j := range CellCols {
						best = max(best, score(row, cell*CellCols+j))
					}
					if best < wantFloor[row] {
						continue
					}
					wantFloor[row] = max(wantFloor[row], best-margin[row])
					for j := range CellCols {
						if score(row, cell*CellCols+j) >= wantFloor[row] {
							mask |= 1 << j
						}
					}
					want = append(want, AskFound{uint16(cell), uint16(row), best, mask})
				}
			}
			n := len(order)
			for range AskAhead {
				order = append(order, order[0])
			}
			row8, col8, found := quadWords(offset), panelWords(cols, depth), make([]AskFound, n*CellRows)
			p := AskArgs{Row8: &row8[0], Cols8: &col8[0], Start: &start[0], Order: &order[0], Cells: n,
				Floor: &floor[0], Margin: &margin[0], Found: &found[0], Shift: shift}
			k.Int8.Ask(&p)
			found = found[:(p.End-uintptr(unsafe.Pointer(&found[0])))/unsafe.Sizeof(found[0])]
			if !slices.Equal(found, want) || !slices.Equal(floor, wantFloor) {
				t.Fatalf("seed %d: %d found, want %d, or other floors", seed, len(found), len(want))
			}
		}
	})
}
