// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cpu

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
)

// mapPack maps a regular file of exactly size bytes that belongs to this user or
// to root. Numbers that another user may choose do not crash a product, but they
// choose its result.
func mapPack(path string, size int) ([]byte, func(), error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd) // the mapping outlives the descriptor
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	uid := os.Geteuid()
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, nil, fmt.Errorf("no regular file: %w", errPack)
	case int(st.Uid) != uid && st.Uid != 0 || st.Mode&0o022 != 0:
		return nil, nil, fmt.Errorf("mode %o of user %d, others can write it: %w", st.Mode&0o777, st.Uid, errPack)
	case st.Size != int64(size):
		return nil, nil, fmt.Errorf("%d bytes, want %d: %w", st.Size, size, errPack)
	}
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED|mapPopulate)
	if err != nil {
		return nil, nil, &os.PathError{Op: "mmap", Path: path, Err: err}
	}
	forget := fault.Watch(b, fmt.Sprintf("%q of the cache of packed weights", path))
	return b, func() {
		forget()
		_ = unix.Munmap(b)
	}, nil
}

// lockPacks takes the lock of a directory: that of the open directory itself, so
// that no lock file is left and that it ends with the process.
func lockPacks(dir string, patience time.Duration) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(patience)
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil // closing unlocks
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(end) {
			f.Close()
			return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
		}
		time.Sleep(2 * time.Millisecond)
	}
}
