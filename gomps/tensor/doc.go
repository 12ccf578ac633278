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
// # Operations
//
// An operation is a graph of a few nodes, compiled once for each combination of
// shapes and kept in a bounded cache, so there is one kernel library and one
// lowering for all of this module. Operations with several steps in their name
// (AddRelu, LinearAddGelu) are one dispatch. Do runs any of them by name;
// docs/tensor-ops.md lists them all.
//
// Elements are float32 or float16; sums are float32 in either. All float
// operands of an operation have one type, which the result has too. Indices are
// int32, and one outside its axis is an error. Errors are an *Error of the kind ErrShape, ErrDType,
// ErrOption, ErrReleased or ErrClosed, and those about shapes name both.
//
// # Gradients
//
// Gradients are calls, from the last layer to the first: LinearBackward,
// Conv2DBackward, MaxPool2DBackward, LayerNormBackward, SoftmaxBackward,
// ActivationBackward, SoftmaxCrossEntropy, MSEGrad; ScatterAdd is that of
// Embedding, Col2Im that of Im2Col. There is no tape: nothing is kept behind the
// caller's back, and what a step needs is released when the caller says so.
//
// # Work and memory
//
// Work is collected and handed to the device after a number of operations, by
// Commit and Sync, or when a host reads. A tensor may be released while work
// that reads it waits: its memory returns to the pool when the device is done.
// The garbage collector releases those that are forgotten, in its own time.
//
// A Context and its tensors may be used from several goroutines; operations take
// turns.
package tensor
