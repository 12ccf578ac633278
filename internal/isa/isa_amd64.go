// SPDX-License-Identifier: Apache-2.0

package isa

import "golang.org/x/sys/cpu"

// Usable asks the processor and, for the size of the registers that a context
// switch saves, the operating system: x/sys/cpu checks XCR0 before it reports AVX
// or AVX-512.
func (s Set) Usable() bool {
	x := &cpu.X86
	avx2 := x.HasAVX && x.HasAVX2 && x.HasFMA && x.HasF16C
	avx512 := avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL
	switch s {
	case Portable:
		return true
	case AVX2:
		return avx2
	case AVX512:
		return avx512
	case AVX512BF16:
		return avx512 && x.HasAVX512BF16
	case AVX512AMX:
		return avx512 && x.HasAVX512BF16 && (tilesModelled || x.HasAMXTile && x.HasAMXBF16 && tilesKnown())
	}
	return false
}

// ByteProducts reports whether there are instructions that multiply bytes and add
// the products to 32 bits: VNNI.
func ByteProducts() bool { return AVX512.Usable() && cpu.X86.HasAVX512VNNI }
