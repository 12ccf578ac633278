// SPDX-License-Identifier: Apache-2.0

//go:build !noasm

package kernel

import "github.com/mast3r-runtime/mast3r-runtime/internal/isa"

// native lists the assembly kernels this processor runs.
func native() []*Kernel {
	var ks []*Kernel
	if isa.AVX512.Usable() {
		k := &Kernel{
			ISA: isa.AVX512, MR: 12, NR: 32,
			strip: stripAVX512, stripUnrolled: stripUnrolledAVX512,
			stripRow: stripRowAVX512, stripRowUnrolled: stripRowUnrolledAVX512,
			firstEqual: firstEqualAVX512, firstEqualUnrolled: firstEqualUnrolledAVX512,
			rowBest: rowBestAVX512, rowBestUnrolled: rowBestUnrolledAVX512,
		}
		if isa.ByteProducts() {
			k.Int8 = &Int8{
				MR: 12, Offset: 128,
				strip: stripInt8AVX512, stripUnrolled: stripInt8UnrolledAVX512,
				stripRow: stripRowInt8AVX512, stripRowUnrolled: stripRowInt8UnrolledAVX512,
				best: bestInt8AVX512, bestUnrolled: bestInt8UnrolledAVX512,
				pack: packInt8AVX512,
			}
			k.Blocks = &Blocks{withinAVX512, amongAVX512}
		}
		if t := tiles(k); t != nil {
			ks = append(ks, t)
		}
		ks = append(ks, k)
	}
	if isa.AVX2.Usable() {
		ks = append(ks, &Kernel{
			ISA: isa.AVX2, MR: 6, NR: 16,
			strip: stripAVX2, stripUnrolled: stripUnrolledAVX2,
			stripRow: stripRowAVX2, stripRowUnrolled: stripRowUnrolledAVX2,
			firstEqual: firstEqualAVX2, firstEqualUnrolled: firstEqualUnrolledAVX2,
			rowBest: rowBestAVX2, rowBestUnrolled: rowBestUnrolledAVX2,
		})
	}
	return ks
}

// tiles is k with strips of bytes on matrix tiles; nil where there are none, or the
// system does not let the process use them.
func tiles(k *Kernel) *Kernel {
	if k.Int8 == nil || !isa.AVX512AMX.Usable() || !isa.ByteTiles() || !isa.Tiles() {
		return nil
	}
	t, i := *k, *k.Int8
	t.ISA, t.Int8 = isa.AVX512AMX, &i
	i.MR, i.Tiles, i.strip, i.stripRow = tileMR, true, stripAMX, stripRowAMX
	i.cells, i.ask = cellsAMX, askCellsAVX512
	if isa.TilesModelled() {
		i.strip, i.stripRow, i.cells = stripAMXGo, stripRowAMXGo, cellsGo
	}
	return &t
}

//go:noescape
func stripAMX(p *Int8Args)

//go:noescape
func stripRowAMX(p *Int8Args)

//go:noescape
func stripAVX512(p *Args)

//go:noescape
func stripUnrolledAVX512(p *Args)

//go:noescape
func stripRowAVX512(p *Args)

//go:noescape
func stripRowUnrolledAVX512(p *Args)

//go:noescape
func firstEqualAVX512(a, b *float32, panels, dim int, t float32) int

//go:noescape
func firstEqualUnrolledAVX512(a, b *float32, panels, dim int, t float32) int

//go:noescape
func rowBestAVX512(a, b *float32, panels, dim int) float32

//go:noescape
func rowBestUnrolledAVX512(a, b *float32, panels, dim int) float32

//go:noescape
func stripAVX2(p *Args)

//go:noescape
func stripUnrolledAVX2(p *Args)

//go:noescape
func stripRowAVX2(p *Args)

//go:noescape
func stripRowUnrolledAVX2(p *Args)

//go:noescape
func firstEqualAVX2(a, b *float32, panels, dim int, t float32) int

//go:noescape
func firstEqualUnrolledAVX2(a, b *float32, panels, dim int, t float32) int

//go:noescape
func rowBestAVX2(a, b *float32, panels, dim int) float32

//go:noescape
func rowBestUnrolledAVX2(a, b *float32, panels, dim int) float32

//go:noescape
func stripInt8AVX512(p *Int8Args)

//go:noescape
func stripInt8UnrolledAVX512(p *Int8Args)

//go:noescape
func stripRowInt8AVX512(p *Int8Args)

//go:noescape
func stripRowInt8UnrolledAVX512(p *Int8Args)

//go:noescape
func bestInt8AVX512(p *BestArgs)

//go:noescape
func bestInt8UnrolledAVX512(p *BestArgs)

//go:noescape
func packInt8AVX512(p *PackArgs)

//go:noescape
func withinAVX512(p *WithinArgs)

//go:noescape
func amongAVX512(p *AmongArgs)
