// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"unsafe"

	sys "golang.org/x/sys/windows"
)

// status is MEMORYSTATUSEX of the Windows API.
type status struct {
	length, load                                 uint32
	total, available, pageTotal, pageAvailable   uint64
	virtualTotal, virtualAvailable, extAvailable uint64
}

var globalMemoryStatus = sys.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

func read() (s status, ok bool) {
	s.length = uint32(unsafe.Sizeof(s))
	n, _, _ := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&s)))
	return s, n != 0
}

// Total is the memory of the machine; 0 means that nobody knows.
func Total() uint64 {
	s, _ := read()
	return s.total
}

// Now is what the system can still commit.
func Now() (r Room) {
	if s, ok := read(); ok {
		r.less(s.pageAvailable, "the machine")
	}
	return r
}
