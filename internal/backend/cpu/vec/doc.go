// SPDX-License-Identifier: Apache-2.0

// Package vec holds the row kernels of the CPU backend: functions of a few
// hundred to a few thousand float32 that the matrix products leave over.
//
// Each kernel exists in portable Go (ref.go), which also fixes its meaning, and
// in assembly for AVX-512, AVX2 and NEON written by the generator in gen. The
// instruction set is chosen once, when the program starts.
//
// Two promises hold on every instruction set and are tested: nothing beyond the
// given slices is read or written, and a result depends only on the values of
// its own row and the row's length, never on alignment, neighbours or thread.
// Between instruction sets results differ by rounding.
//
// All functions panic, as an index out of range does, when a source is shorter
// than the destination. dst may be the same slice as a source, but must not
// overlap it otherwise. No function allocates.
package vec

//go:generate go run ./gen .
