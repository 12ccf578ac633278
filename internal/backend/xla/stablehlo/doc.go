// SPDX-License-Identifier: Apache-2.0

// Package stablehlo writes a graph as StableHLO, the text that XLA compiles.
//
// It is the third execution of the one graph: every operation has a form here,
// in the operations of the StableHLO specification (and chlo.erf, which every
// XLA lowers). The text is the same for the same graph, so that a hash of it
// names a compiled program.
//
// A value of the graph is carried by a value of the text whose type may differ:
// in half precision a float32 value may be carried as bfloat16 between two
// products. Products take factors in the half type; norms, softmax and
// everything elementwise is computed in float32, and XLA keeps what is between
// two roundings in registers.
//
// Inputs, outputs and the memory of a device are flat: a function takes and
// gives arrays of one dimension, and the same bytes serve every shape. Weights
// are arguments behind the inputs, each with the arrangement that the program
// reads it in.
package stablehlo
