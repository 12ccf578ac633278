// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// nonBlocking is for systems with named pipes in the file system.
const nonBlocking = 0

// mapFile maps the whole file read-only. The view keeps the file open: until it is
// unmapped, Windows refuses to replace or delete the file.
func mapFile(fh *os.File, size int) ([]byte, func() error, error) {
	if size == 0 { // a mapping of no bytes is refused; the parser has the better error
		return nil, func() error { return nil }, nil
	}
	// Zero as the size means the file's own, so that nothing is mapped that is not there.
	mapping, err := windows.CreateFileMapping(windows.Handle(fh.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, nil, os.NewSyscallError("CreateFileMapping", err)
	}
	address, err := windows.MapViewOfFile(mapping, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	// The view holds the mapping: its handle is not needed any more.
	if closed := windows.CloseHandle(mapping); err == nil && closed != nil {
		err = closed
	}
	if err != nil {
		return nil, nil, os.NewSyscallError("MapViewOfFile", err)
	}
	image := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), size)
	return image, func() error { return os.NewSyscallError("UnmapViewOfFile", windows.UnmapViewOfFile(address)) }, nil
}

// dropPages takes clean pages out of the working set; a later access faults them in
// again. VirtualUnlock of pages that are not locked does that, and then says
// ERROR_NOT_LOCKED.
func dropPages(pages []byte) error {
	if len(pages) == 0 {
		return nil
	}
	err := windows.VirtualUnlock(uintptr(unsafe.Pointer(unsafe.SliceData(pages))), uintptr(len(pages)))
	if err == nil || err == windows.ERROR_NOT_LOCKED {
		return nil
	}
	return os.NewSyscallError("VirtualUnlock", err)
}
