// SPDX-License-Identifier: Apache-2.0

package isa

var tilesModelled bool

// ModelTiles makes AVX512AMX usable where the processor rounds to bfloat16, with or
// without tiles. It is for tests, whose kernels then run tile programs in Go.
func ModelTiles() { tilesModelled = true }

// Tiles reports whether the system lets this process use matrix tiles. The first call
// asks for them.
func Tiles() bool { return tilesModelled || askForTiles() }
