// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The committed files are what the generator writes today.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 4 {
		t.Fatalf("%d files, want 4", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the generator's output; run go generate ./internal/backend/cpu/gemm", name)
		}
	}
}

// Encodings checked against binutils: a high register in each position.
func TestEVEX(t *testing.T) {
	for _, x := range []struct {
		got, want string
	}{
		// vdpbf16ps zmm31, zmm1, zmm3
		{evex(2, 2, 0x52, 31, 1, 3), "BYTE $0x62; BYTE $0x62; BYTE $0x76; BYTE $0x48; BYTE $0x52; BYTE $0xfb"},
		// vdpbf16ps zmm4, zmm17, zmm2
		{evex(2, 2, 0x52, 4, 17, 2), "BYTE $0x62; BYTE $0xf2; BYTE $0x76; BYTE $0x40; BYTE $0x52; BYTE $0xe2"},
		// vdpbf16ps zmm4, zmm0, zmm29
		{evex(2, 2, 0x52, 4, 0, 29), "BYTE $0x62; BYTE $0x92; BYTE $0x7e; BYTE $0x48; BYTE $0x52; BYTE $0xe5"},
	} {
		if x.got != x.want {
			t.Errorf("got %s, want %s", x.got, x.want)
		}
	}
}
