// SPDX-License-Identifier: Apache-2.0

// Package mast3r writes MASt3R and DUNE-MASt3R of any dimensions down as graphs
// (network.md 4 to 10).
//
// Open reads the dimensions off the tensors' shapes; what shapes cannot tell
// (numbers of heads, hooks, output modes) comes from the file's metadata, else
// from the published models. Encoder, Decoder and Head then build the three
// parts for given picture sizes:
//
//	pictures --Encoder--> features --Decoder--> hooked tokens --Head--> points, descriptors
//
// Parts are separate graphs because their shapes vary separately and because a
// picture that takes part in several pairs is encoded once.
package mast3r
