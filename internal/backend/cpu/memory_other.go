// SPDX-License-Identifier: Apache-2.0

//go:build !unix && !windows

package cpu

import "unsafe"

// mapMemory falls back to the Go heap, on a cache-line boundary.
func mapMemory(n int) ([]byte, func([]byte) error, error) {
	b := make([]byte, n+align)
	o := int(-uintptr(unsafe.Pointer(&b[0])) & (align - 1))
	return b[o : o+n : o+n], func([]byte) error { return nil }, nil
}
