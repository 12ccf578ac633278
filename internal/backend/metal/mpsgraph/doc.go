// SPDX-License-Identifier: Apache-2.0

// Package mpsgraph builds, compiles and runs graphs of Metal Performance
// Shaders Graph.
//
// A [Graph] is built op by op. Each method checks its operands first, since
// MPSGraph answers a wrong shape or type with an exception or an assertion, and
// both end the process; the first mistake is kept and returned by [Graph.Err]
// and by Compile. The shape and type that MPSGraph then reports for the result
// must be the ones computed here, so that a misread argument is an error where
// it happens.
//
// Tensors are interior objects of their graph and live as long as it does.
// [Graph.Compile] makes an [Executable] for fixed shapes; the graph may be
// released afterwards. Weights are placeholders, fed at every run from buffers
// laid over the mapped file ([NewData] with an offset), because a constant is
// copied into the graph: a model would be twice in memory.
//
// Conventions of MPSGraph that this package fixes once: axis 0 is the slowest;
// feature maps are NHWC; the size of a resize is [H,W]; reductions keep their
// axis with size 1; scale and epsilon are float, constants are double.
//
// Everything runs on the owner thread of the device.Device, inside its pool.
package mpsgraph
