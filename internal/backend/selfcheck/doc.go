// SPDX-License-Identifier: Apache-2.0

// Package selfcheck compares one backend with another on small fixed graphs: the
// smallest network of MASt3R's shape, whole, and the network's operations one by
// one.
//
// It exists because a GPU can be wrong without saying so. An operating system's
// update has more than once changed what MPSGraph computes (attention, products
// of strided operands, convolutions at the default optimisation level), and this
// project has no Mac to notice it on. The engine runs [Network] when it opens a
// GPU and stays on the CPU when the two disagree; "mast3r selfcheck" runs all.
//
// Weights and inputs are the deterministic ones of package synth, so that a
// report from another machine is about the same numbers.
package selfcheck
