// SPDX-License-Identifier: Apache-2.0

package memory

import "golang.org/x/sys/unix"

// Total is the memory of the machine; 0 means that nobody knows.
func Total() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}

// Now is all of the memory: what other programs hold is compressed and swapped when it
// is needed, and the kernel's count of free pages leaves that out.
func Now() (r Room) {
	if n := Total(); n > 0 {
		r.less(n, "the machine")
	}
	return r
}
