// SPDX-License-Identifier: Apache-2.0

//go:build unix

package xla

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readOwn reads a regular file that belongs to this user or to root and that
// nobody else can write: it holds code that will run in this process, and a
// digest inside it says nothing of who wrote both. A link is not followed, a pipe
// is not waited for.
func readOwn(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch uid := os.Geteuid(); {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%w: no regular file", errOthers)
	case int(st.Uid) != uid && st.Uid != 0 || st.Mode&0o022 != 0:
		return nil, fmt.Errorf("%w: mode %o of user %d, want a file that only user %d or root can write",
			errOthers, st.Mode&0o777, st.Uid, uid)
	}
	return io.ReadAll(f)
}
