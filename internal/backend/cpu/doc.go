// SPDX-License-Identifier: Apache-2.0

// Package cpu is the backend for machines without a supported GPU: it runs graphs
// on the vector units of the processor.
//
// Compile lowers a simplified graph to a list of steps, one per operation that
// moves or computes anything. Three decisions carry the speed:
//
//   - Every value is rows of c elements, a constant stride apart. A slice of the
//     last axis (q, k and v of one projection) and a change of the leading
//     dimensions (tokens to feature map) are then other views of the same memory,
//     and the products of package gemm read them in place.
//   - Nothing of tensor size is allocated while running. Values live in one
//     arena whose offsets come from their lifetimes, results are written straight
//     into the caller's buffers, and scratch is one region that the steps, which
//     run one after the other, share. First touches of fresh memory cost more on
//     virtual machines than the arithmetic on it (kernels.md 1).
//   - Weights are packed once per Backend, whatever the number of programs that
//     use them, and the pages of the file are given back.
//
// Where the time goes, for a pair of 512x384 pictures and the large network: nine
// tenths in the multiply-add loops of package gemm, which run at the register
// peak of the processor. What can still be won is fewer multiplications
// (winograd.go needs a quarter of them for the 3x3 convolutions) or narrower ones
// (backend.BF16).
//
// # Reading order
//
// lower.go maps operations to steps; plan.go walks the graph and lays out memory;
// view.go says how values lie in it; program.go runs the steps; weights.go packs.
// The rest is one file per family of operations.
//
// # Promises
//
// A result does not depend on the number of threads or on what else is in the
// batch: each tile of work computes its elements in an order of its own.
//
// Operations on element types other than float32 are rare (a cast picture, an
// index); those that compute go through the reference interpreter.
package cpu
