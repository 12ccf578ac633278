// SPDX-License-Identifier: Apache-2.0

// Package par runs the tiles of a computation on a persistent pool of
// goroutines.
//
// A Pool hands out tile numbers from one atomic counter, in ascending order, to
// whichever worker is free. Tiles therefore finish in any order, and a caller
// that wants the same bits for every thread count must make each tile's result
// independent of the others (internal/backend/cpu/gemm does: the partition into tiles
// never touches the order of a sum).
//
// Three choices matter on machines shared with other work. Nothing spins for more
// than 20 us: within those a region costs well under a microsecond, and idle workers
// sleep. The caller takes part and waits for unfinished tiles, not for workers: one
// that the operating system has not scheduled yet delays nobody. And tiles are
// handed out one by one (0.2 to 1 ms each is a good size), so a worker that lost its
// core to a neighbour ends up with fewer of them.
package par
