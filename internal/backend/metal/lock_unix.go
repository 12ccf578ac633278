// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks a file or folder until it is closed or its process ends; an error
// when another process has it.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
