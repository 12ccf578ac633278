// SPDX-License-Identifier: Apache-2.0

// Package tensor is a small eager tensor library on the backends of the network: matrices,
// layers and small training jobs, on the GPU of a Mac, on an NVIDIA GPU, or on any CPU.
//
//	c, err := tensor.Open(tensor.Config{})
//	defer c.Close()
//	x, err := c.FromFloat32s([]float32{1, 2, 3, 4}, 2, 2)
//	y, err := c.MatMul(x, x)
//	v, err := y.Float32s()
//
// # Operations
//
// An operation is a graph of a few nodes, compiled once for each combination of shapes and
// kept in a bounded cache, so tensors and networks use the same kernels. Operations with
// several steps in their name (AddRelu, LinearAddGelu) are one dispatch. Do runs any
// operation by name; the list below has them all.
//
// Elements are float32 or float16; sums are computed in float32 for both. All float
// operands of an operation must have the same type, and so does the result. Indices are
// int32; an index outside its axis is an error. Errors are of the kinds ErrShape,
// ErrDType, ErrOption, ErrReleased, ErrClosed and ErrDevice, for errors.Is; an *Error has
// the details, and names both shapes where they do not fit.
//
// # Gradients
//
// Gradients are calls, from the last layer to the first: LinearBackward, Conv2DBackward,
// MaxPool2DBackward, LayerNormBackward, SoftmaxBackward, ActivationBackward,
// SoftmaxCrossEntropy, MSEGrad; ScatterAdd is that of Embedding, Col2Im that of Im2Col.
// There is no tape. Nothing is kept without the caller's knowledge, and the caller
// releases what a step needed.
//
// # Work and memory
//
// Work is collected and given to the device after a number of operations, by Commit or
// Sync, or when a result is read. A tensor may be released while work that reads it waits;
// its memory returns to the pool when the device is done. The garbage collector releases
// tensors that are not released by the program, at some later time.
//
// A Context and its tensors may be used from several goroutines; operations take
// turns.
package tensor
