// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
)

// RangeError is a number that another type cannot hold, or that is none.
type RangeError struct {
	Name    string // of the tensor, where its owner has filled it in
	Element int
	Value   float64
	To      DType
}

func (e *RangeError) Error() string {
	what := fmt.Sprintf("element %d is %g", e.Element, e.Value)
	if e.Name != "" {
		what = fmt.Sprintf("tensor %q, %s", e.Name, what)
	}
	if math.IsNaN(e.Value) || math.IsInf(e.Value, 0) {
		return what + ", want a finite number"
	}
	return fmt.Sprintf("%s, which does not fit in %v; bf16 or fp32 hold it", what, e.To)
}

// limits are the largest numbers that round to a finite one.
var limits = map[DType]float64{
	F16:  math.Nextafter(65520, 0),
	BF16: math.Nextafter((2-0x1p-8)*0x1p127, 0),
	F32:  math.Nextafter((2-0x1p-24)*0x1p127, 0),
	F64:  math.MaxFloat64,
}

// CheckRange says whether every number of data, of type from, is finite and stays so
// in type to: as infinity it would come out of every product. The error is a
// *RangeError. Types that are no floats have no such numbers.
func CheckRange(data []byte, from, to DType) error {
	limit, ok := limits[to]
	if !ok || !from.Float() {
		return nil
	}
	le := binary.LittleEndian
	bad := func(i int, v float64) error { return &RangeError{Element: i, Value: v, To: to} }
	switch from {
	case F16:
		if limit > 65504 {
			limit = 65504
		}
		for i := range len(data) / 2 {
			if v := Float32FromF16(le.Uint16(data[2*i:])); !(math.Abs(float64(v)) <= limit) {
				return bad(i, float64(v))
			}
		}
	case BF16:
		top := bits32(limit) >> 16
		for i := range len(data) / 2 {
			if h := le.Uint16(data[2*i:]); uint32(h&0x7fff) > top {
				return bad(i, float64(Float32FromBF16(h)))
			}
		}
	case F32:
		top := bits32(limit)
		for i := range len(data) / 4 {
			// Without the sign, the bits of floats are in their order; NaN is above all.
			if u := le.Uint32(data[4*i:]); u&0x7fffffff > top {
				return bad(i, float64(math.Float32frombits(u)))
			}
		}
	case F64:
		for i := range len(data) / 8 {
			v := math.Float64frombits(le.Uint64(data[8*i:]))
			rounded := v
			if to != F64 {
				rounded = float64(float32(v)) // which is on the way
			}
			if !(math.Abs(rounded) <= limit) {
				return bad(i, v)
			}
		}
	}
	return nil
}

// bits32 are the bits of the largest float32 that is at most v.
func bits32(v float64) uint32 {
	f := float32(min(v, math.MaxFloat32))
	if float64(f) > v {
		f = math.Nextafter32(f, 0)
	}
	return math.Float32bits(f)
}
