// SPDX-License-Identifier: Apache-2.0

// Package vit holds what the families of networks share: named weights put
// into a graph, transformer blocks, the parts of a dense prediction head, and
// the dimensions and facts that are read off a file.
//
// A family (mast3r, da3) is a package that puts these together. What only one
// family has stays there.
package vit
