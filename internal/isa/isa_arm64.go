// SPDX-License-Identifier: Apache-2.0

package isa

import "golang.org/x/sys/cpu"

// Usable: NEON with fused multiply-add and half-precision conversion is part of
// every arm64 that Go runs on.
func (s Set) Usable() bool {
	switch s {
	case Portable, NEON:
		return true
	case NEONMMLA:
		return cpu.ARM64.HasASIMDDP && cpu.ARM64.HasI8MM && matrixBF16
	}
	return false
}

// matrixBF16: x/sys/cpu does not know FEAT_BF16.
var matrixBF16 = hasBF16()

// ByteProducts reports whether there are instructions that multiply bytes and add
// the products to 32 bits: those of ARMv8.2.
func ByteProducts() bool { return cpu.ARM64.HasASIMDDP }

// Tiles reports whether the system lets this process use matrix tiles.
func Tiles() bool { return false }

// TilesRefused is about those that have tiles.
func TilesRefused() bool { return false }

// ModelTiles is for processors that have AVX512AMX.
func ModelTiles() (restore func()) { return func() {} }

// VectorBF16Pays is about AVX512BF16.
func VectorBF16Pays() bool { return false }
