// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"os"
	"unsafe"

	sys "golang.org/x/sys/windows"
)

func mapMemory(n int) ([]byte, func([]byte) error, error) {
	address, err := sys.VirtualAlloc(0, uintptr(n), sys.MEM_RESERVE|sys.MEM_COMMIT, sys.PAGE_READWRITE)
	if err != nil {
		return nil, nil, os.NewSyscallError("VirtualAlloc", err)
	}
	b := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), n)
	return b, func([]byte) error {
		return os.NewSyscallError("VirtualFree", sys.VirtualFree(address, 0, sys.MEM_RELEASE))
	}, nil
}
