// SPDX-License-Identifier: Apache-2.0

package encode

import "testing"

// What llvm-mc 14 and binutils 2.40 write for the mnemonics, but for the displacement
// of a byte, which addresses have here even where it is zero.
func TestTiles(t *testing.T) {
	for _, x := range []struct {
		what, got string
		want      []byte
	}{
		{"ldtilecfg 0(%rax)", LDTILECFG("AX"), []byte{0xc4, 0xe2, 0x78, 0x49, 0x44, 0x20, 0x00}},
		{"ldtilecfg 0(%r13)", LDTILECFG("R13"), []byte{0xc4, 0xc2, 0x78, 0x49, 0x44, 0x25, 0x00}},
		{"tilerelease", TILERELEASE(), []byte{0xc4, 0xe2, 0x78, 0x49, 0xc0}},
		{"tilezero %tmm3", TILEZERO(3), []byte{0xc4, 0xe2, 0x7b, 0x49, 0xd8}},
		{"tileloadd 0(%rsi,%r9), %tmm0", TILELOADD(0, "SI", "R9", 0), []byte{0xc4, 0xa2, 0x7b, 0x4b, 0x44, 0x0e, 0x00}},
		{"tileloadd 64(%r10,%r9), %tmm3", TILELOADD(3, "R10", "R9", 64), []byte{0xc4, 0x82, 0x7b, 0x4b, 0x5c, 0x0a, 0x40}},
		{"tileloadd 64(%r9,%rdx), %tmm7", TILELOADD(7, "R9", "DX", 64), []byte{0xc4, 0xc2, 0x7b, 0x4b, 0x7c, 0x11, 0x40}},
		{"tilestored %tmm2, 64(%r10,%r9)", TILESTORED(2, "R10", "R9", 64), []byte{0xc4, 0x82, 0x7a, 0x4b, 0x54, 0x0a, 0x40}},
		{"tilestored %tmm1, 1024(%r11,%r13)", TILESTORED(1, "R11", "R13", 1024), []byte{0xc4, 0x82, 0x7a, 0x4b, 0x8c, 0x2b, 0x00, 0x04, 0x00, 0x00}},
		{"tdpbf16ps %tmm7, %tmm5, %tmm3", TDPBF16PS(3, 5, 7), []byte{0xc4, 0xe2, 0x42, 0x5c, 0xdd}},
		{"tdpbf16ps %tmm6, %tmm4, %tmm0", TDPBF16PS(0, 4, 6), []byte{0xc4, 0xe2, 0x4a, 0x5c, 0xc4}},
		{"tdpbssd %tmm7, %tmm5, %tmm3", TDPBSSD(3, 5, 7), []byte{0xc4, 0xe2, 0x43, 0x5e, 0xdd}},
	} {
		if want := Bytes(x.want...); x.got != want {
			t.Errorf("%s: %s, want %s", x.what, x.got, want)
		}
	}
}
