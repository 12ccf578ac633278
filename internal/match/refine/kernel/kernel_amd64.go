// SPDX-License-Identifier: Apache-2.0

//go:build !noasm

package kernel

import (
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
)

// native lists the assembly kernels that this processor runs. Wider registers gain
// nothing: rows and patches are short.
func native() []*Kernel {
	if !isa.AVX2.Usable() {
		return nil
	}
	return []*Kernel{{
		ISA: isa.AVX2,
		halveColours: func(out, a, b []byte) int {
			// A block of 8 reads 4 bytes of the next pixels.
			blocks := max(0, (len(out)-1)/8)
			halveColoursAVX2(first(out), first(a), first(b), blocks)
			return 8 * blocks
		},
		halveGrey: func(out, a, b []byte) int {
			blocks := len(out) / 16
			halveGreyAVX2(first(out), first(a), first(b), blocks)
			return 16 * blocks
		},
		grey: func(out []float32, rgb []byte) int {
			blocks := max(0, (len(out)-2)/8)
			greyAVX2(first(out), first(rgb), blocks)
			return 8 * blocks
		},
		five: func(out, a, b, c, d, e []float32, s *[3]float32) int {
			blocks := len(out) / 8
			fiveAVX2(first(out), first(a), first(b), first(c), first(d), first(e), s, blocks)
			return 8 * blocks
		},
		prefetch: prefetchAVX2,
		read:     readAVX2,
		fit:      fitAVX2,
	}}
}

func first[T any](s []T) *T { return unsafe.SliceData(s) }

//go:noescape
func halveColoursAVX2(out, a, b *byte, blocks int)

//go:noescape
func halveGreyAVX2(out, a, b *byte, blocks int)

//go:noescape
func greyAVX2(out *float32, rgb *byte, blocks int)

//go:noescape
func fiveAVX2(out, a, b, c, d, e *float32, s *[3]float32, blocks int)

//go:noescape
func prefetchAVX2(p *byte, stride, rows, lines int)

//go:noescape
func readAVX2(p *readArgs)

//go:noescape
func fitAVX2(p *fitArgs)
