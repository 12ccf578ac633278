// SPDX-License-Identifier: Apache-2.0

// Package tensor is a small eager tensor library on the backends of the
// network: matrices, layers and small training jobs on the GPU of a Mac, or on
// the CPU anywhere.
//
//	c, err := tensor.Open(tensor.Config{})
//	defer c.Close()
//	x, err := c.FromFloat32s([]float32{1, 2, 3, 4}, 2, 2)
//	y, err := c.MatMul(x, x)
//	v, err := y.Float32s()
//
// An operation is a graph of a few nodes, compiled once for each combination of
// shapes and kept in a bounded cache, so there is one kernel library and one
// lowering for all of this module. Work is collected and handed to the device
// after a number of operations, by Commit and Sync, or when a host reads.
//
// Tensors are float32 or float16; sums are float32 in either. Release gives a
// tensor's memory back to the pool; the garbage collector does it for those
// that are forgotten.
package tensor
