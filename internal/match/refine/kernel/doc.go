// SPDX-License-Identifier: Apache-2.0

// Package kernel holds the inner loops of refining: halving pictures, turning
// colours into smoothed grey values, reading a patch along an affine grid, and the
// sums of a step of the fit.
//
// # Contract
//
// Every implementation, assembly or Go, returns the same bits. Each value is made
// by the operations that the Go code here names, in their order, every one rounded:
// no multiply-add is fused. Sums run in eight lanes, sample i in lane i mod 8, and
// the lanes are added in a fixed order. So an answer depends neither on the
// machine nor on how the work was cut.
//
// # Samples
//
// Patches have Samples values: the pad after the last one repeats the first place
// and has the weight 0.
package kernel
