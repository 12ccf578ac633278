// SPDX-License-Identifier: Apache-2.0

package cpu_test

import "unsafe"

// asFloats views a buffer as float32.
func asFloats(b []byte) []float32 {
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}
