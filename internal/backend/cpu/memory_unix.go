// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cpu

import "golang.org/x/sys/unix"

func mapMemory(n int) ([]byte, func([]byte) error, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	adviseHuge(b)
	return b, unix.Munmap, nil
}
