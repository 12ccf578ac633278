// SPDX-License-Identifier: Apache-2.0

// Package passes turns graphs into equivalent ones that cost less, and answers
// questions about them that every backend has.
//
// Simplify is what a backend calls: operations that are
// written with others, constant folding, epilogue fusion and dead-code removal, in that
// order. Each pass returns a new graph with the same
// inputs and outputs; the one given is not changed.
package passes
