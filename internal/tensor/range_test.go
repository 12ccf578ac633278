// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// encode rounds to a type, for the test.
func encode(d DType, v float64) []byte {
	le := binary.LittleEndian
	switch d {
	case F64:
		return le.AppendUint64(nil, math.Float64bits(v))
	case F32:
		return le.AppendUint32(nil, math.Float32bits(float32(v)))
	case F16:
		return le.AppendUint16(nil, F16FromFloat32(float32(v)))
	}
	return le.AppendUint16(nil, BF16FromFloat32(float32(v)))
}

func value(d DType, b []byte) float64 {
	le := binary.LittleEndian
	switch d {
	case F64:
		return math.Float64frombits(le.Uint64(b))
	case F32:
		return float64(math.Float32frombits(le.Uint32(b)))
	case F16:
		return float64(Float32FromF16(le.Uint16(b)))
	}
	return float64(Float32FromBF16(le.Uint16(b)))
}

// What CheckRange passes is finite in the new type and what it refuses is not, at and
// around every limit.
func TestCheckRange(t *testing.T) {
	types := []DType{F64, F32, F16, BF16}
	var values []float64
	for _, v := range []float64{0, 1, 65504, 65519.996, 65520, 65536, 3.3895e38, 3.3961e38, 3.4028234e38, 3.4028236e38, 1e300, math.MaxFloat64, 5e-324} {
		for _, w := range []float64{v, math.Nextafter(v, 0), math.Nextafter(v, math.Inf(1)), float64(math.Nextafter32(float32(v), 0)), float64(math.Nextafter32(float32(v), float32(math.Inf(1))))} {
			values = append(values, w, -w)
		}
	}
	values = append(values, math.NaN(), math.Inf(1), math.Inf(-1))
	for _, from := range types {
		for _, to := range types {
			for _, v := range values {
				b := encode(from, v)
				exact := value(from, b)
				round := value(to, encode(to, exact))
				fine := !math.IsNaN(round) && !math.IsInf(round, 0)
				err := CheckRange(append(encode(from, 1), b...), from, to)
				var e *RangeError
				if fine != (err == nil) || err != nil && (!errors.As(err, &e) || e.Element != 1) {
					t.Errorf("%v %v (%b) as %v is %v: %v", from, exact, exact, to, round, err)
				}
			}
		}
	}
	if err := CheckRange([]byte{0xff, 0xff, 0xff, 0xff}, I32, F16); err != nil {
		t.Errorf("of integers: %v", err)
	}
}
