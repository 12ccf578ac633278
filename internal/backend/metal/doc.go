// SPDX-License-Identifier: Apache-2.0

// Package metal runs graphs on an Apple GPU: it lowers package graph to MPSGraph,
// compiles it for its fixed shapes, and schedules runs on command queues.
//
// # Lowering
//
// Every graph operation has one translation (lower_*.go). Feature maps stay
// NHWC and weights stay as the checkpoint stores them, so that no weight is
// rearranged on the host; where MPSGraph wants another order, a transpose node
// says so and the compiler folds it into the product.
//
// # Weights
//
// Weights are fed at every run from buffers laid over the mapped model file:
// loading copies no matrix, and the memory is the page cache's (weights.go). A
// weight stored in another type than its operation reads is converted once, at
// load. Vectors are always converted, so in half precision the weights of
// normalisations are copies.
//
// # Precision
//
// In half precision the factors of products and what lies between them are
// float16. Islands stay float32: normalisation statistics, rotary embedding,
// the residual stream, erf, exp and everything after the last product of a
// head, including a convolution that produces it (network.md 18). Softmax
// inside the native attention is Apple's; Config.Attention computes it in
// float32 from separate products. BF16 rounds the factors of products and
// computes in float32.
//
// # Scheduling
//
// A Work is one command buffer, its queue a command queue. Queues overlap and
// are ordered by shared events only where After asks for it; the host waits
// once, at the end. Work of more than about a second is split, since the
// system's watchdog stops longer command buffers.
package metal
