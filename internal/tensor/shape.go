// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Shape is a list of dimensions, slowest first (row-major).
// The empty shape is a scalar and has one element.
type Shape []int

// Numel is the number of elements. It is only meaningful for a shape that
// passed Check: a product that overflows is Check's to report.
func (s Shape) Numel() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Check reports a negative dimension or an element count, times size bytes,
// that does not fit an int: the two ways in which a hostile shape could turn a
// bounds check into a wrap-around.
func (s Shape) Check(size int) error {
	n := max(size, 1)
	for i, d := range s {
		if d < 0 {
			return fmt.Errorf("tensor: shape %v: dimension %d is negative", s, i)
		}
		if d != 0 && n > math.MaxInt/d {
			return fmt.Errorf("tensor: shape %v: more than %d bytes", s, math.MaxInt)
		}
		n *= d
	}
	return nil
}

// Equal reports whether both shapes have the same dimensions.
func (s Shape) Equal(o Shape) bool { return slices.Equal(s, o) }

// Clone copies the dimensions.
func (s Shape) Clone() Shape { return slices.Clone(s) }

// String prints the shape as numpy users know it, without spaces: [2,3].
func (s Shape) String() string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = strconv.Itoa(d)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// Strides are the row-major strides in elements.
func (s Shape) Strides() []int {
	st := make([]int, len(s))
	n := 1
	for i := len(s) - 1; i >= 0; i-- {
		st[i] = n
		n *= s[i]
	}
	return st
}
