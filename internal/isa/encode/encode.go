// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Bytes writes bytes as the assembler takes them.
func Bytes(b ...byte) string {
	s := make([]string, len(b))
	for i, x := range b {
		s[i] = fmt.Sprintf("BYTE $0x%02x", x)
	}
	return strings.Join(s, "; ")
}

// number of a general register, by the name that Go's assembler has for it.
var number = map[string]int{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SP": 4, "BP": 5, "SI": 6, "DI": 7,
	"R8": 8, "R9": 9, "R10": 10, "R11": 11, "R12": 12, "R13": 13}

// memory encodes an instruction on tile t (or with t as opcode digit) and memory. Index
// "" is none.
func memory(pp, op byte, t int, base, index string, disp int) string {
	b, x := number[base], 4 // 4 is no index
	if index != "" {
		x = number[index]
	}
	code := []byte{0xc4, 1<<7 | byte(^(x>>3)&1)<<6 | byte(^(b>>3)&1)<<5 | 2, 15<<3 | pp, op,
		byte(1<<6 | t<<3 | 4), byte(x&7<<3 | b&7), byte(disp)}
	if disp != int(int8(disp)) {
		code[4] ^= 3 << 6
		code = append(code[:6], binary.LittleEndian.AppendUint32(nil, uint32(disp))...)
	}
	return Bytes(code...)
}

// tiles encodes an instruction on tile registers: reg and rm of its ModRM byte, and vvvv.
func tiles(pp, op byte, reg, rm, vvvv int) string {
	return Bytes(0xc4, 7<<5|2, byte(^vvvv&15)<<3|pp, op, byte(3<<6|reg<<3|rm))
}

// LDTILECFG configures the tiles from 64 bytes at base.
func LDTILECFG(base string) string { return memory(0, 0x49, 0, base, "", 0) }

// TILERELEASE gives them up.
func TILERELEASE() string { return tiles(0, 0x49, 0, 0, 0) }

// TILEZERO clears a tile.
func TILEZERO(t int) string { return tiles(3, 0x49, t, 0, 0) }

// TILELOADD loads row i of a tile from base + i*index + disp.
func TILELOADD(t int, base, index string, disp int) string {
	return memory(3, 0x4b, t, base, index, disp)
}

// TILESTORED stores row i of a tile to base + i*index + disp.
func TILESTORED(t int, base, index string, disp int) string {
	return memory(2, 0x4b, t, base, index, disp)
}

// TDPBF16PS adds a·b to tile c: rows of 32 bfloat16 values times 16 pairs of rows.
func TDPBF16PS(c, a, b int) string { return tiles(2, 0x5c, c, a, b) }

// TDPBSSD adds a·b to tile c: rows of 64 signed bytes times 16 quads of rows.
func TDPBSSD(c, a, b int) string { return tiles(3, 0x5e, c, a, b) }
