// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// TestOperands: descriptors that are on the device are not uploaded, and a release does not
// take them from under a run; those of another device are somebody else's to match.
func TestOperands(t *testing.T) {
	b := open(t, Config{})
	const n, dim = 6, 4
	x, err := b.Alloc(4 * n * dim)
	if err != nil {
		t.Fatal(err)
	}
	numbers := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x.Bytes()))), n*dim)
	for i := range numbers {
		numbers[i] = float32(i)
	}
	here, err := x.(*buffer).input(tensor.F32)
	if err != nil {
		t.Fatal(err)
	}
	got, release, err := b.operands(backend.Descriptors{Buffer: x, N: n, Dim: dim})
	if err != nil {
		t.Fatal(err)
	}
	if got[0] != here {
		t.Error("descriptors on the device were uploaded")
	}
	x.Release()
	back := make([]float32, n*dim)
	if err := got[0].Download(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(back))), 4*n*dim)); err != nil || back[5] != 5 {
		t.Errorf("after a release: %v, %v", back, err)
	}
	release()
	if _, _, err := b.operands(backend.Descriptors{Buffer: x, N: n, Dim: dim}); !errors.Is(err, backend.ErrReleased) {
		t.Errorf("a released buffer: %v", err)
	}
	y, err := open(t, Config{}).Alloc(4 * n * dim)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Release()
	if _, _, err := b.operands(backend.Descriptors{Buffer: y, N: n, Dim: dim}); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("a buffer of another backend: %v", err)
	}
	data := make([]float32, n*dim)
	for _, bad := range []backend.Descriptors{{Data: data[1:], N: n, Dim: dim}, {Data: data, N: n, Dim: dim, Keep: make([]uint8, n-1)}} {
		if _, _, err := b.operands(bad); err == nil {
			t.Errorf("%d numbers, %d marks of %d descriptors of %d were taken", len(bad.Data), len(bad.Keep), n, dim)
		}
	}
}
