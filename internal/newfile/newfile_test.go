// SPDX-License-Identifier: Apache-2.0

package newfile

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) error {
	t.Helper()
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return f.Commit()
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		list = append(list, e.Name())
	}
	return list
}

// TestOverAFile: what is there is replaced, and a name may be long and odd.
func TestOverAFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"plain", "a [b] c", "日本 ü", strings.Repeat("x", 180)} {
		path := filepath.Join(dir, name)
		for _, text := range []string{"first", "second"} {
			if err := write(t, path, text); err != nil {
				t.Fatalf("%.20s: %v", name, err)
			}
			if b, err := os.ReadFile(path); string(b) != text {
				t.Errorf("%.20s holds %q, %v, want %s", name, b, err, text)
			}
		}
	}
	if left := names(t, dir); len(left) != 4 {
		t.Errorf("left over: %q", left)
	}
}

// What nobody has locked was left by a writer that is gone.
func TestLeftoversAreSwept(t *testing.T) {
	dir := t.TempDir()
	orphan := filepath.Join(dir, ".mast3r-0123456789abcdef.tmp")
	if err := os.WriteFile(orphan, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	running, err := Create(filepath.Join(dir, "one"))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Abort()
	if err := write(t, filepath.Join(dir, "two"), "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(orphan); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the orphan is still there: %v", err)
	}
	if err := running.Commit(); err != nil {
		t.Errorf("a file that was being written was swept: %v", err)
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Need(math.MaxInt64); err == nil {
		t.Error("8 EB were found on the disk")
	}
	if err := f.Need(1); err != nil {
		t.Error(err)
	}
	f.Abort()
	f.Abort()
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}
