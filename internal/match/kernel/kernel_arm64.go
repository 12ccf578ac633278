// SPDX-License-Identifier: Apache-2.0

//go:build !noasm

package kernel

import "github.com/mast3r-runtime/mast3r-runtime/internal/isa"

// native lists the assembly kernels: NEON with fused multiply-add is part of
// every ARMv8-A processor, so only the byte
// products of ARMv8.2 are asked for.
func native() []*Kernel {
	k := &Kernel{
		ISA: isa.NEON, MR: 8, NR: 12,
		strip: stripNEON, stripUnrolled: stripUnrolledNEON,
		stripRow: stripRowNEON, stripRowUnrolled: stripRowUnrolledNEON,
		firstEqual: firstEqualNEON, firstEqualUnrolled: firstEqualNEON,
		rowBest: rowBestNEON, rowBestUnrolled: rowBestNEON,
	}
	if isa.ByteProducts() {
		k.Int8 = &Int8{
			MR:    8,
			strip: stripInt8NEON, stripUnrolled: stripInt8UnrolledNEON,
			stripRow: stripRowInt8NEON, stripRowUnrolled: stripRowInt8UnrolledNEON,
			best: bestInt8NEON, bestUnrolled: bestInt8NEON,
			pack: func(p *PackArgs) { packGo(p, k.NR, 0) },
		}
	}
	if !isa.NEONMMLA.Usable() {
		return []*Kernel{k}
	}
	m, i := *k, *k.Int8
	m.ISA, m.Int8 = isa.NEONMMLA, &i
	i.strip, i.stripUnrolled = stripInt8MMLA, stripInt8UnrolledMMLA
	i.stripRow, i.stripRowUnrolled = stripRowInt8MMLA, stripRowInt8UnrolledMMLA
	return []*Kernel{&m, k}
}

//go:noescape
func stripInt8MMLA(p *Int8Args)

//go:noescape
func stripInt8UnrolledMMLA(p *Int8Args)

//go:noescape
func stripRowInt8MMLA(p *Int8Args)

//go:noescape
func stripRowInt8UnrolledMMLA(p *Int8Args)

//go:noescape
func stripNEON(p *Args)

//go:noescape
func stripUnrolledNEON(p *Args)

//go:noescape
func stripRowNEON(p *Args)

//go:noescape
func stripRowUnrolledNEON(p *Args)

//go:noescape
func firstEqualNEON(a, b *float32, panels, dim int, t float32) int

//go:noescape
func rowBestNEON(a, b *float32, panels, dim int) float32

//go:noescape
func stripInt8NEON(p *Int8Args)

//go:noescape
func stripInt8UnrolledNEON(p *Int8Args)

//go:noescape
func stripRowInt8NEON(p *Int8Args)

//go:noescape
func stripRowInt8UnrolledNEON(p *Int8Args)

//go:noescape
func bestInt8NEON(p *BestArgs)
