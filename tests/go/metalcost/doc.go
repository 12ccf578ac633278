// SPDX-License-Identifier: Apache-2.0

// Package metalcost counts what the Metal backend asks MPSGraph to do, and
// predicts from it how long an M4 Pro takes: docs/metal-cost.md.
//
// Nothing is guessed from our own graphs. Every published model is lowered by
// package metal and compiled by the simulator of tests/metalsim, which writes down
// the nodes of the compiled graph (record.c); those are counted. A model's shapes
// are enough: its weights are a sparse file of zeros that nobody reads.
//
// # What a node costs
//
// The rule is the roofline of work.md: a kernel takes the longer of computing
// its products at the machine's rate and moving its operands and results once at
// 273 GB/s. What is one kernel is Apple's secret, so there are two counts:
//
//   - as emitted, every node is a kernel, less those that move nothing: a reshape,
//     and the transpose of a weight, which a matrix product takes as a flag
//     (PyTorch's Linear on MPS relies on the same);
//   - stitched, a chain of elementwise nodes and casts is one kernel with the
//     node that feeds it, which Apple says MPSGraph does ("stitching", WWDC20
//     session 10677).
//
// Neither has the time to start a kernel, gaps between kernels, or caches.
package metalcost
