// SPDX-License-Identifier: Apache-2.0

// Package da3 writes Depth Anything 3 of any dimensions down as graphs
// (da3.md): one to many pictures give depth, confidence, cameras and rays.
//
//	pictures --Encoder--> features --Trunk--> hooked tokens --Head--> depth, confidence, rays
//	                                      \-> camera tokens --Camera--> poses, fields of view
//
// The encoder is what sees one picture alone, so that pictures of overlapping
// windows are encoded once. Which picture is the reference of the others is
// chosen between encoder and trunk, on the host (Reference). Cameras that are
// known go into the trunk as tokens (Tokens).
package da3
