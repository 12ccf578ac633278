// SPDX-License-Identifier: Apache-2.0

//go:build !unix && !windows

package weights

import (
	"io"
	"os"
)

// nonBlocking is for systems with named pipes in the file system.
const nonBlocking = 0

// mapFile reads the file: where there is no mmap of the Unix kind, a copy is
// the simplest thing that is right.
func mapFile(fh *os.File, size int) ([]byte, func() error, error) {
	image := make([]byte, size)
	if _, err := io.ReadFull(fh, image); err != nil {
		return nil, nil, err
	}
	return image, func() error { return nil }, nil
}

// dropPages does nothing: heap memory has no file behind it to read it from.
func dropPages([]byte) error { return nil }
