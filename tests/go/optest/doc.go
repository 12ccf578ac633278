// SPDX-License-Identifier: Apache-2.0

// Package optest is the conformance suite of the graph's operations. It takes
// the backend as an argument: the CPU, the Metal path on the simulator or on a
// Mac, and the reference interpreter itself all pass the same cases.
//
// Golden holds the cases computed by PyTorch in float64; Random compares with
// package graph/ref on shapes drawn at random, edges included.
package optest
