// SPDX-License-Identifier: Apache-2.0

// Package graph is the network written down once: values with static shapes,
// the operations between them, and the rules that say which combinations make
// sense.
//
// A Graph is built with the methods of the same name as the operation
// (g.Linear, g.Conv2D, ...). Shapes and element types are checked as each node
// is added; the first error sticks and is returned by Err and Build, so that
// code which builds a network reads like the network. A built graph is in
// topological order and is not changed any more: the passes (package
// graph/passes) return a new one.
//
// The meaning of every operation is the plain loop in package graph/ref. There
// is no backend detail here: packing, layouts, fusion into kernels and command
// buffers belong to the backends.
//
// Conventions. Shapes are row-major, slowest dimension first. Pictures and
// feature maps are NHWC: a map [B,h,w,C] and its tokens [B,h*w,C] are the same
// bytes, so going from transformer to convolution costs a Reshape and no copy.
// Weights keep the layout of the checkpoint: linear [out,in], convolution
// [out,in,kh,kw], transposed convolution [in,out,kh,kw].
package graph
