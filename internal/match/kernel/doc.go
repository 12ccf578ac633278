// SPDX-License-Identifier: Apache-2.0

// Package kernel holds the inner loops of the exact matcher: dot products of
// many float32 descriptors against many, of which only the maxima are kept.
//
// # Contract
//
// The score of a row a and a column b is
//
//	s = a[0]*b[0]; s = fma(a[k], b[k], s) for k = 1, 2, ... dim-1
//
// with one rounding per step. Every implementation, assembly or Go, returns
// these very bits, so that a score found by one kernel can be searched for by
// another, and so that no result depends on the machine or on how the work
// was cut. No kernel looks at NaN: callers pass finite values whose scores
// cannot overflow.
//
// # Layout
//
// Rows come in groups of MR, stored [dim][MR]; columns in panels of NR, stored
// [dim][NR]. Callers fill the last group or panel by repeating the last
// descriptor: a copy at a higher index loses every tie, so padding needs no
// test in the loops.
package kernel

//go:generate go run ./gen .
