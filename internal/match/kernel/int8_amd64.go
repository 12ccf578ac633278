// SPDX-License-Identifier: Apache-2.0

//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// HasInt8 tells whether StripInt8 can be called on this machine. It runs next
// to the AVX-512 kernel only, whose tile shape it shares.
func HasInt8() bool {
	return cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VNNI
}

// StripInt8 is Strip for quantised descriptors.
func StripInt8(p *Int8Args) {
	if p.Quads == UnrolledDim/4 {
		stripInt8UnrolledAVX512(p)
		return
	}
	stripInt8AVX512(p)
}

//go:noescape
func stripInt8AVX512(p *Int8Args)

//go:noescape
func stripInt8UnrolledAVX512(p *Int8Args)
