// SPDX-License-Identifier: Apache-2.0

//go:build !noasm

package kernel

// native lists the assembly kernels: NEON with fused multiply-add is part of
// every ARMv8-A processor, so there is nothing to ask.
func native() []*Kernel {
	return []*Kernel{{
		Name: "neon", MR: 8, NR: 12,
		strip: stripNEON, stripUnrolled: stripUnrolledNEON,
		stripRow: stripRowNEON, stripRowUnrolled: stripRowUnrolledNEON,
		firstEqual: firstEqualNEON, firstEqualUnrolled: firstEqualNEON,
		rowBest: rowBestNEON, rowBestUnrolled: rowBestNEON,
	}}
}

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
