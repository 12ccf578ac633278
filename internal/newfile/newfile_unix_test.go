// SPDX-License-Identifier: Apache-2.0

//go:build unix

package newfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTargets(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	long := strings.Repeat("x", 255)
	for _, name := range []string{"plain", "a [b] *c?", long} {
		for range 2 { // new, and over itself
			if err := write(t, at(name), "right"); err != nil {
				t.Errorf("%.20s: %v", name, err)
			}
		}
	}
	if err := os.Symlink("plain", at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("to-come", at("dangling")); err != nil {
		t.Fatal(err)
	}
	for link, file := range map[string]string{"link": "plain", "dangling": "to-come"} {
		if err := write(t, at(link), "through"); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Lstat(at(link)); err != nil || st.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v %v", link, st, err)
		}
		if b, err := os.ReadFile(at(file)); string(b) != "through" {
			t.Errorf("%s holds %q, %v", file, b, err)
		}
	}
	if err := unix.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Mkdir(at("folder"), 0o700), os.WriteFile(at("read-only"), nil, 0o400), os.Symlink("loop", at("loop"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := len(names(t, dir))
	for _, path := range []string{at("fifo"), at("folder"), at("read-only"), at("loop")} {
		if err := write(t, path, "x"); !errors.Is(err, ErrTarget) {
			t.Errorf("%s: %v, want ErrTarget", path, err)
		}
	}
	// A device in this folder, never one of the machine's: a fault in what is tested here
	// would replace it.
	if err := unix.Mknod(at("device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err == nil {
		if err := write(t, at("device"), "x"); !errors.Is(err, ErrTarget) {
			t.Errorf("a device: %v, want ErrTarget", err)
		}
		if err := os.Remove(at("device")); err != nil {
			t.Error(err)
		}
	}
	if left := names(t, dir); len(left) != before {
		t.Errorf("left over: %v", left)
	}
}

func TestTheMaskOfTheUserCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	if err := write(t, path, "x"); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v under umask 077, want 0600 (%v)", st.Mode(), err)
	}
}
