// SPDX-License-Identifier: Apache-2.0

// Package par runs the tiles of a computation on a persistent pool of
// goroutines.
//
// A Pool hands out tile numbers from one atomic counter, in ascending order, to
// whichever worker is free. Tiles therefore finish in any order, and a caller
// that wants the same bits for every thread count must make each tile's result
// independent of the others (internal/cpu/gemm does: the partition into tiles
// never touches the order of a sum).
//
// The design follows three measurements on shared machines. Waking goroutines
// per region costs well under a microsecond, so nothing spins. The caller takes
// part and never waits for a worker that has not started, so a worker delayed by
// another process costs nothing when the remaining workers finish without it.
// And dynamic tiles of 0.2 to 1 ms lose less to such neighbours than equal
// static shares.
package par
