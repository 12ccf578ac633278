// SPDX-License-Identifier: Apache-2.0

// Package executor runs a graph of named operations on two devices.
//
// A Graph is built by name: [Graph.AddNode], [Graph.SetOutput]. [Graph.Optimize] joins a
// product with the sum and the activation after it. An [Executor] runs each operation where
// it is faster: large ones on the GPU, small ones on the CPU. What the GPU cannot run, the CPU
// runs, and [Executor.Stats] says why. The operations themselves are those of package tensor.
package executor
