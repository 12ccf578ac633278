// SPDX-License-Identifier: Apache-2.0

//go:build unix

package xla

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReadOwn: a compiled program is taken from a file that only this user or root can
// write; a link, a pipe and a stranger's file are not taken, and hold nobody up.
func TestReadOwn(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own.xla")
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("code"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		return path
	}
	for _, mode := range []os.FileMode{0o600, 0o644, 0o400} {
		if data, err := readOwn(write("own.xla", mode)); err != nil || string(data) != "code" {
			t.Errorf("mode %o: %q, %v, want the file", mode, data, err)
		}
		if err := os.Remove(own); err != nil {
			t.Fatal(err)
		}
	}
	bad := map[string]string{"group": write("group.xla", 0o620), "all": write("all.xla", 0o606), "folder": dir}
	link, pipe := filepath.Join(dir, "link.xla"), filepath.Join(dir, "pipe.xla")
	if err := os.Symlink(write("own.xla", 0o600), link); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	bad["link"], bad["pipe"] = link, pipe
	if os.Geteuid() == 0 {
		bad["stranger"] = write("stranger.xla", 0o600)
		if err := os.Chown(bad["stranger"], 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	for what, path := range bad {
		done := make(chan error, 1)
		go func() {
			_, err := readOwn(path)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || what != "link" && !errors.Is(err, errOthers) {
				t.Errorf("%s: %v, want that it is not this user's own file", what, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: no end", what)
		}
	}
}
