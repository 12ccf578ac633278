// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package metalsim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// build runs make and returns the library. Test binaries of several packages
// run at once, hence the lock.
func build() (string, error) {
	for _, tool := range []string{"make", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%w: %s is not installed", errNoTools, tool)
		}
	}
	dir, err := find("tests/metalsim/Makefile")
	if err != nil {
		return "", err
	}
	dir = filepath.Dir(dir)
	out := filepath.Join(dir, "build")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(out, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	if log, err := exec.Command("make", "-s", "-C", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("make -C %s: %w\n%s", dir, err, log)
	}
	return filepath.Join(out, "libmetalsim.so"), nil
}

// find looks for a path in the folders above the working directory.
func find(path string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		p := filepath.Join(dir, path)
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New(path + " is not in any folder above")
		}
		dir = filepath.Dir(dir)
	}
}
