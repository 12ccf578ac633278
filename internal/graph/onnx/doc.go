// SPDX-License-Identifier: Apache-2.0

// Package onnx writes a graph as an ONNX model (opset 20, or 23), so that the same
// network runs in other runtimes: a feature for users, and a third independent
// execution for us.
//
// Weights go to a file of their own beside the model ("external data"): a
// protobuf message cannot be larger than 2 GiB.
package onnx
