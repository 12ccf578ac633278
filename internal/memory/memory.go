// SPDX-License-Identifier: Apache-2.0

package memory

import "fmt"

// Room is what may still be used, in bytes.
type Room struct {
	Free uint64
	By   string // what sets the limit, in words; "" if nobody knows one
}

// Size is a number of bytes in words.
func Size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.0f GB", float64(n)/(1<<30))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.0f MB", float64(n)/(1<<20))
}

// less keeps the smaller of two limits.
func (r *Room) less(free uint64, by string) {
	if r.By == "" || free < r.Free {
		r.Free, r.By = free, by
	}
}
