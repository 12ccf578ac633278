// SPDX-License-Identifier: Apache-2.0

package vit

import "testing"

// TestSquareSide: a table of positions has one row more than a square, exactly.
func TestSquareSide(t *testing.T) {
	for rows, want := range map[int]int{2: 1, 5: 2, 26: 5, 1025: 32} {
		if side, err := SquareSide("table", rows); err != nil || side != want {
			t.Errorf("%d rows: side %d, %v, want %d", rows, side, err, want)
		}
	}
	for _, rows := range []int{0, 1, 3, 4, 6, 25, 27, 1024, 1026} {
		if side, err := SquareSide("table", rows); err == nil {
			t.Errorf("%d rows are taken for a square of %d", rows, side)
		}
	}
}

// TestCheckSize: each side is a multiple of the patch, one patch at least.
func TestCheckSize(t *testing.T) {
	for _, c := range []struct {
		h, w int
		good bool
	}{{14, 14, true}, {28, 14, true}, {14, 15, false}, {15, 14, false}, {0, 14, false}, {14, 0, false}, {-14, 14, false}, {14, -14, false}} {
		if err := CheckSize(c.h, c.w, 14); (err == nil) != c.good {
			t.Errorf("%dx%d: %v", c.h, c.w, err)
		}
	}
}
