// SPDX-License-Identifier: Apache-2.0

//go:build amd64 && !linux

package isa

// tilesKnown: how to ask other systems for tiles is not known here.
func tilesKnown() bool { return false }

func askForTiles() bool { return false }
