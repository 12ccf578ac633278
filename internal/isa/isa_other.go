// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !arm64

package isa

// Usable: there are no kernels in assembly for this processor.
func (s Set) Usable() bool { return s == Portable }

// ByteProducts reports whether there are instructions that multiply bytes.
func ByteProducts() bool { return false }

// Tiles reports whether the system lets this process use matrix tiles.
func Tiles() bool { return false }

// TilesRefused is about those that have tiles.
func TilesRefused() bool { return false }

// ModelTiles is for processors that have AVX512AMX.
func ModelTiles() (restore func()) { return func() {} }

// VectorBF16Pays is about AVX512BF16.
func VectorBF16Pays() bool { return false }
