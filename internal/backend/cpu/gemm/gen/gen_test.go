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

// Encodings of tile instructions, checked against what llvm-mc 14 and binutils 2.40
// write for the mnemonics; addresses have a displacement of a byte here even where
// it is zero.
func TestTileEncodings(t *testing.T) {
	for _, x := range []struct {
		what, got string
		want      []byte
	}{
		{"ldtilecfg 0(%rax)", ldTileCfg("AX"), []byte{0xc4, 0xe2, 0x78, 0x49, 0x44, 0x20, 0x00}},
		{"tilerelease", tileRelease(), []byte{0xc4, 0xe2, 0x78, 0x49, 0xc0}},
		{"tileloadd 0(%rsi,%r9), %tmm0", tileLoad(0, "SI", "R9", 0), []byte{0xc4, 0xa2, 0x7b, 0x4b, 0x44, 0x0e, 0x00}},
		{"tileloadd 64(%r10,%r9), %tmm3", tileLoad(3, "R10", "R9", 64), []byte{0xc4, 0x82, 0x7b, 0x4b, 0x5c, 0x0a, 0x40}},
		{"tileloadd 64(%r9,%rdx), %tmm7", tileLoad(7, "R9", "DX", 64), []byte{0xc4, 0xc2, 0x7b, 0x4b, 0x7c, 0x11, 0x40}},
		{"tilestored %tmm2, 64(%r10,%r9)", tileStore(2, "R10", "R9", 64), []byte{0xc4, 0x82, 0x7a, 0x4b, 0x54, 0x0a, 0x40}},
		{"tdpbf16ps %tmm7, %tmm5, %tmm3", tdpBF16(3, 5, 7), []byte{0xc4, 0xe2, 0x42, 0x5c, 0xdd}},
		{"tdpbf16ps %tmm6, %tmm4, %tmm0", tdpBF16(0, 4, 6), []byte{0xc4, 0xe2, 0x4a, 0x5c, 0xc4}},
	} {
		if want := hex(x.want...); x.got != want {
			t.Errorf("%s: %s, want %s", x.what, x.got, want)
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
