// SPDX-License-Identifier: Apache-2.0

//go:build unix

package newfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// open makes a file that is not there yet, or opens one that is, for reading and writing.
func open(path string, create bool) (*os.File, error) {
	if create {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	}
	return os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
}

// lock takes the file's lock, or fails when another process has it.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// available is the free space of a folder's file system for this user.
func available(dir string) (bytes int64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Blocks == 0 { // some network file systems know nothing
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
