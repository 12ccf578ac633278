// SPDX-License-Identifier: Apache-2.0

package kernel

import "unsafe"

// tileMR is the number of rows of a strip on matrix tiles.
const tileMR = 32

// tileConfigs are those of strips: sums in tiles 0 to 3, rows in 4 and 5, columns in 6 and 7.
var tileConfigs = tileShapes(4, 6)

// tileShapes are configurations for a number of quads, which LDTILECFG reads: palette 1, sums of
// 16 x 16 words in the first tiles, then rows, then columns.
func tileShapes(rows, cols int) (c [17][64]byte) {
	for quads := 1; quads < len(c); quads++ {
		x := &c[quads]
		x[0] = 1
		for t := range 8 {
			width, height := byte(64), byte(16)
			switch {
			case t >= cols:
				height = byte(quads)
			case t >= rows:
				width = byte(4 * quads)
			}
			x[16+2*t], x[48+t] = width, height
		}
	}
	return c
}

// dotBytes is the product of four signed bytes with four others.
func dotBytes(a, b uint32) (sum int32) {
	for s := 0; s < 32; s += 8 {
		sum += int32(int8(a>>s)) * int32(int8(b>>s))
	}
	return sum
}

// stripAMXGo is a strip on tiles in Go, for tests where there are none. Its sums are
// exact, as the processor's.
func stripAMXGo(p *Int8Args) {
	bothOnTiles(p, unsafe.Slice(p.ColMax, p.Panels*32))
}

func stripRowAMXGo(p *Int8Args) { bothOnTiles(p, nil) }

func bothOnTiles(p *Int8Args, colMax []int32) {
	rows, cols := unsafe.Slice(p.Rows, tileMR*p.Quads), unsafe.Slice(p.Cols, p.Panels*p.Quads*32)
	rowMax := unsafe.Slice(p.RowMax, tileMR)
	for i := range tileMR {
		rowMax[i] = 0
		for j := range p.Panels * 32 {
			var sum int32
			for q := range p.Quads {
				sum += dotBytes(rows[i*p.Quads+q], cols[(j/32*p.Quads+q)*32+j%32])
			}
			rowMax[i] = max(rowMax[i], sum)
			if colMax != nil {
				colMax[j] = max(colMax[j], sum)
			}
		}
	}
}
