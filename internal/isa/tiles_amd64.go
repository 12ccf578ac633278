// SPDX-License-Identifier: Apache-2.0

package isa

import (
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

var tilesModelled bool

// ModelTiles makes AVX512AMX usable where the processor rounds to bfloat16, with or
// without tiles, until restore is called. It is for tests, whose kernels then run tile
// programs in Go.
func ModelTiles() (restore func()) {
	was := tilesModelled
	tilesModelled = true
	return func() { tilesModelled = was }
}

// TilesModelled reports whether that was called.
func TilesModelled() bool { return tilesModelled }

// ByteTiles reports whether tiles multiply bytes too.
func ByteTiles() bool { return tilesModelled || cpu.X86.HasAMXInt8 }

// Tiles reports whether the system lets this process use matrix tiles. The first call
// asks for them.
func Tiles() bool {
	if tilesModelled {
		return true
	}
	ok := askForTiles()
	tilesRefused.Store(!ok)
	return ok
}

var tilesRefused atomic.Bool

// TilesRefused reports whether the system has refused.
func TilesRefused() bool { return tilesRefused.Load() }
