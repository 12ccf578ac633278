// SPDX-License-Identifier: Apache-2.0

//go:build unix

package fault

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/emulated"
)

// mapped returns a mapping of a file of several pages that has been cut to one.
func mapped(t *testing.T) []byte {
	t.Helper()
	page := os.Getpagesize()
	path := filepath.Join(t.TempDir(), "model")
	if err := os.WriteFile(path, make([]byte, 4*page), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, 4*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	if err := os.Truncate(path, int64(page)); err != nil {
		t.Fatal(err)
	}
	return b
}

func read(b []byte, at int) (sum byte, err error) {
	defer Guard(&err)()
	return b[at], nil
}

func TestAFaultIsAnError(t *testing.T) {
	emulated.SkipFaults(t)
	b := mapped(t)
	page := os.Getpagesize()
	forget := Watch(b, "the model file")
	if _, err := read(b, 0); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{page, 2*page + 17, 4*page - 1} {
		var e *Error
		if _, err := read(b, at); !errors.As(err, &e) || e.What != "the model file" {
			t.Errorf("byte %d: %v, want an Error of the model file", at, err)
		}
	}
	if before := debug.SetPanicOnFault(false); before {
		t.Error("Guard left SetPanicOnFault on")
	}
	forget()
	defer func() {
		if v := recover(); v == nil || Of(v) != nil {
			t.Errorf("a fault of memory that nobody watches: recovered %v, want a panic of its own", v)
		}
	}()
	_, _ = read(b, page)
}

func TestOtherPanicsPass(t *testing.T) {
	defer func() {
		if v := recover(); v != "mine" {
			t.Errorf("recovered %v", v)
		}
	}()
	var err error
	func() {
		defer Guard(&err)()
		panic("mine")
	}()
}
