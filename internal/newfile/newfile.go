// SPDX-License-Identifier: Apache-2.0

package newfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// pattern are the temporary names. They do not hold the target's name, which may be
// as long as a name can be.
const pattern = ".mast3r-*.tmp"

// ErrTarget is in the chain of the error about a target that is no file to replace.
var ErrTarget = errors.New("want a file's name")

// File is a file that is being written.
type File struct {
	*os.File
	target string
	over   bool
}

// Create starts the file that Commit will put at path. A link is followed: what it
// points to is replaced, and it stays. A folder, a device, a pipe, or a file that is
// marked as read-only is refused.
func Create(path string) (*File, error) {
	target, err := resolve(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(target)
	sweep(dir)
	for {
		name := fmt.Sprintf(".mast3r-%016x.tmp", rand.Uint64())
		// With the mode that the user's umask gives to any file.
		f, err := open(filepath.Join(dir, name), true)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Without locks, on a file system that has none, nothing is swept either.
		_ = lock(f)
		return &File{File: f, target: target}, nil
	}
}

// resolve follows links to the file that is to be replaced, and checks it.
func resolve(path string) (string, error) {
	refuse := func(why string) error {
		return &fs.PathError{Op: "write", Path: path, Err: fmt.Errorf("%s, %w", why, ErrTarget)}
	}
	st, err := os.Lstat(path)
	for hops := 0; err == nil && st.Mode()&fs.ModeSymlink != 0; hops++ {
		if hops == 40 {
			return "", refuse("a loop of links")
		}
		var to string
		if to, err = os.Readlink(path); err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
		st, err = os.Lstat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil
	case err != nil:
		return "", err
	case st.IsDir():
		return "", refuse("it is a folder")
	case !st.Mode().IsRegular():
		return "", refuse(fmt.Sprintf("it is no plain file (%v)", st.Mode().Type()))
	case st.Mode().Perm()&0o222 == 0:
		return "", refuse("it is read-only")
	}
	return path, nil
}

// Need refuses a file of so many bytes that would fill its disk.
func (f *File) Need(bytes int64) error {
	free, ok := available(filepath.Dir(f.target))
	if ok && bytes > free {
		return &fs.PathError{Op: "write", Path: f.target, Err: fmt.Errorf("%d bytes are needed and %d are free on the disk", bytes, free)}
	}
	return nil
}

// Commit gives the file its name, once it is on the disk: else a crash could leave
// the name on empty blocks.
func (f *File) Commit() error {
	defer f.Abort()
	if err := f.Sync(); err != nil {
		return err
	}
	// The lock goes with the handle; by then the file has another name.
	if err := os.Rename(f.Name(), f.target); err != nil {
		return err
	}
	f.over = true
	return f.Close()
}

// Abort removes the unfinished file. After Commit it does nothing, so that callers
// may defer it.
func (f *File) Abort() {
	if f.over {
		return
	}
	f.over = true
	os.Remove(f.Name())
	f.Close()
}

// sweep removes what killed writers have left in a folder.
func sweep(dir string) {
	left, err := filepath.Glob(filepath.Join(escape(dir), pattern))
	if err != nil {
		return
	}
	for _, path := range left {
		f, err := open(path, false)
		if err != nil {
			continue
		}
		if lock(f) == nil {
			os.Remove(path)
		}
		f.Close()
	}
}

// escape makes a folder's name match itself in a pattern.
func escape(dir string) string {
	var b []byte
	for i := range len(dir) {
		switch dir[i] {
		case '*', '?', '[', '\\':
			if filepath.Separator != '\\' {
				b = append(b, '\\')
			}
		}
		b = append(b, dir[i])
	}
	return string(b)
}
