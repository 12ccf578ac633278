// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/pickle"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// A directory that says that an entry is longer than the file is an error, also by one
// byte, and no panic.
func TestEntriesEndWithinTheFile(t *testing.T) {
	storage := make([]byte, 24)
	program := pkl(pDict(pStr("model"), pDict(pStr("w"), pTensor("0", 6, 0, pTuple(6), pTuple(1)))))
	image := torchZip(t, "any/", map[string][]byte{"data.pkl": program, "data/0": storage}, zip.Store)
	if _, err := OpenBytes(image); err != nil {
		t.Fatal(err)
	}
	// The central directory's records hold the sizes at 20 and 24.
	for at := 0; ; {
		i := bytes.Index(image[at:], []byte("PK\x01\x02"))
		if i < 0 {
			break
		}
		at += i
		for _, size := range []uint32{uint32(len(image)), uint32(len(image) - 1), 1 << 31, 0xfffffffe} {
			bad := bytes.Clone(image)
			binary.LittleEndian.PutUint32(bad[at+20:], size)
			binary.LittleEndian.PutUint32(bad[at+24:], size)
			if _, err := OpenBytes(bad); !errors.Is(err, ErrFormat) {
				t.Errorf("an entry of %d bytes in a file of %d: %v", size, len(image), err)
			}
		}
		at += 4
	}
}

// Copies of views are bounded in bytes by the file's size, at the exact number.
func TestCopiesAreBoundedInBytes(t *testing.T) {
	const room = 10 // elements of four bytes
	a := &archive{image: make([]byte, 400), storages: map[string]span{"0": {0, 400}}}
	for n, fine := range map[int]bool{room: true, room + 1: false} {
		budget := 4*room + 3
		_, err := a.tensor("w", expanded(n), &budget)
		if fine != (err == nil) {
			t.Errorf("a copy of %d elements into %d bytes: %v", n, 4*room+3, err)
		}
		if fine && budget != 3 {
			t.Errorf("%d bytes are left, want 3", budget)
		}
	}
}

// expanded is a view of n elements, all of them the first.
func expanded(n int) *pickle.Tensor {
	return &pickle.Tensor{Storage: &pickle.Storage{DType: tensor.F32, Key: "0", Numel: 100}, Shape: tensor.Shape{n}, Stride: []int{0}}
}
