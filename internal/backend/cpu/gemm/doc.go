// SPDX-License-Identifier: Apache-2.0

// Package gemm multiplies: dense products, convolutions and attention on the
// CPU, in generated Go assembly with a portable fallback.
//
// # Layout
//
// The second operand of every product is packed once, into panels of 32 output
// columns: panel p holds W[32p:32p+32] as [K][32] (F32, F16) or as [K/2][32][2]
// (BF16). The last panel is padded with zeros. One layout serves every
// instruction set; narrower kernels read a part of each panel row. The first
// operand stays row-major with any row stride: a packed copy of it was measured
// to buy nothing, but for rows that share cache sets, which tasks copy apart.
//
// # Order of summation
//
// Every output element is one chain of fused multiply-adds that starts from the
// bias and takes k = 0, 1, 2, ... in order, whatever the row's place in its tile,
// the tile's shape, or the number of threads. So results are the same bits for
// every thread count, and a batch gives the same bits as its members alone. (Only
// the portable code rounds each product, since a fused multiply-add is not a Go
// operator.)
//
// # Fusion
//
// C = R + gamma * act(A Wᵀ + bias): the bias is the start value of the chain, the
// rest runs on the finished tile while it is in the first-level cache.
//
// # Use
//
// MatMul, Conv and Attention are filled in once and Run many times; Run allocates
// nothing after the first call. A value must not be Run by two goroutines at
// once. Scratch memory is the caller's: ScratchBytes says how much.
package gemm
