// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"encoding/binary"
	"math"
)

// Store writes numbers in a floating-point type, rounded to nearest even, in little-endian
// order; out has room for them.
func Store(out []byte, d DType, v []float32) {
	le := binary.LittleEndian
	switch d {
	case F32:
		for i, x := range v {
			le.PutUint32(out[4*i:], math.Float32bits(x))
		}
	case F16:
		for i, x := range v {
			le.PutUint16(out[2*i:], F16FromFloat32(x))
		}
	case BF16:
		for i, x := range v {
			le.PutUint16(out[2*i:], BF16FromFloat32(x))
		}
	case F64:
		for i, x := range v {
			le.PutUint64(out[8*i:], math.Float64bits(float64(x)))
		}
	default:
		panic("tensor: " + d.String() + " is no floating-point type")
	}
}
