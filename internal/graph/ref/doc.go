// SPDX-License-Identifier: Apache-2.0

// Package ref is the meaning of every graph operation, as plain loops in
// float64.
//
// It is written to be read next to the specification and to be obviously right,
// not to be fast. Tests hold the backends against it, and the constant-folding
// pass evaluates with it. Values keep float64 precision between operations; only
// Cast rounds, to the type it is asked for.
package ref
