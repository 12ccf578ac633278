// SPDX-License-Identifier: Apache-2.0

// Package synth makes models of every size with deterministic weights, and
// pictures to go with them, for tests and benchmarks where no trained weights
// and no photographs are at hand.
//
// A weight is a hash of its tensor's name and its index, so that any part of
// any model can be made alone, in any order and on any number of threads, and
// is the same bit for bit in every language: the golden data was computed by
// the reference implementation on exactly these numbers. There are two
// formulas, one per set of golden data.
package synth
