// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"unsafe"

	sys "golang.org/x/sys/windows"
)

// memoryStatus is MEMORYSTATUSEX of the Windows API.
type memoryStatus struct {
	length, load                                 uint32
	total, available, pageTotal, pageAvailable   uint64
	virtualTotal, virtualAvailable, extAvailable uint64
}

var globalMemoryStatus = sys.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// machineMemory is the memory of the machine.
func machineMemory() uint64 {
	s := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if ok, _, _ := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return 0
	}
	return s.total
}
