// SPDX-License-Identifier: Apache-2.0

// Package model opens networks of every family that the engine runs.
//
// A family is a package below this one; vit is what they share. Open asks each
// family whether the tensors of a file are its own. What a network can do is told
// by the interfaces that it has: Pairwise networks reconstruct two
// pictures, Multiview networks any number.
package model
