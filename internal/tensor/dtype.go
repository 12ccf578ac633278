// SPDX-License-Identifier: Apache-2.0

package tensor

import "fmt"

// DType is the type of one element.
type DType uint8

// The element types. The zero value is invalid, so that a forgotten dtype is
// an error and not silently float32.
const (
	Invalid DType = iota
	F32
	F16
	BF16
	F64
	I8
	U8
	I16
	U16
	I32
	U32
	I64
	U64
	Bool
)

var dtypes = [...]struct {
	name string
	size int
}{
	Invalid: {"invalid", 0},
	F32:     {"f32", 4},
	F16:     {"f16", 2},
	BF16:    {"bf16", 2},
	F64:     {"f64", 8},
	I8:      {"i8", 1},
	U8:      {"u8", 1},
	I16:     {"i16", 2},
	U16:     {"u16", 2},
	I32:     {"i32", 4},
	U32:     {"u32", 4},
	I64:     {"i64", 8},
	U64:     {"u64", 8},
	Bool:    {"bool", 1},
}

// Size is the number of bytes of one element, 0 for an unknown type.
func (d DType) Size() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].size
}

// String is the lower-case short name, for example "f32".
func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Float reports whether d is one of the floating-point types.
func (d DType) Float() bool { return d == F32 || d == F16 || d == BF16 || d == F64 }
