// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func identityOf(t *testing.T, path string) (string, string) {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.Identity()
}

func TestIdentityFollowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	write := func(values ...float32) {
		t.Helper()
		list := []Tensor{FromFloat32s("x", tensor.Shape{len(values)}, values)}
		if err := Write(path, list, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	stamp := func(s int64) {
		t.Helper()
		if err := os.Chtimes(path, time.Unix(s, 0), time.Unix(s, 0)); err != nil {
			t.Fatal(err)
		}
	}
	write(1, 2)
	stamp(1000)
	where, first := identityOf(t, path)
	if where != path || len(first) != 32 {
		t.Fatalf("identity %q %q, want %q and 32 digits", where, first, path)
	}
	seen := map[string]string{first: "the first file"}
	differs := func(what string) {
		t.Helper()
		_, v := identityOf(t, path)
		if seen[v] != "" {
			t.Errorf("%s: version %s, the same as %s", what, v, seen[v])
		}
		seen[v] = what
	}
	stamp(2000)
	differs("another time")
	write(1, 3)
	stamp(1000)
	differs("another number")
	write(1, 2, 3)
	stamp(1000)
	differs("another size")
	write(1, 2)
	stamp(1000)
	if _, v := identityOf(t, path); v != first {
		t.Errorf("version %s of the same file again, want %s", v, first)
	}
}

func TestBytesHaveNoIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	if err := Write(path, []Tensor{FromFloat32s("x", tensor.Shape{1}, []float32{1})}, nil, 0); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenBytes(image)
	if err != nil {
		t.Fatal(err)
	}
	if p, v := f.Identity(); p != "" || v != "" {
		t.Errorf("identity %q %q of bytes in memory, want none", p, v)
	}
}
