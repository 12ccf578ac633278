// SPDX-License-Identifier: Apache-2.0

//go:build unix

package weights

import (
	"os"

	"golang.org/x/sys/unix"
)

// nonBlocking opens a FIFO at once.
const nonBlocking = unix.O_NONBLOCK

// mapFile maps the whole file read-only. Shared, not private: the pages are
// the page cache's own, so that several processes with one model hold it once.
func mapFile(fh *os.File, size int) ([]byte, func() error, error) {
	if size == 0 { // mmap refuses an empty range; the parser has the better error
		return nil, func() error { return nil }, nil
	}
	image, err := unix.Mmap(int(fh.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return image, func() error { return os.NewSyscallError("munmap", unix.Munmap(image)) }, nil
}

// dropPages gives clean file pages back; a later access faults them in again.
func dropPages(pages []byte) error {
	return os.NewSyscallError("madvise", unix.Madvise(pages, unix.MADV_DONTNEED))
}
