// SPDX-License-Identifier: Apache-2.0

// Package encode writes x86 instructions that Go's assembler lacks as the bytes it
// takes instead. The generators of kernels use it.
//
// Tile instructions (AMX) are VEX-encoded with opcode map 0F38, W0 and a length of 128
// (Intel SDM volume 2, section 2.3.5); pp is the prefix, of which 0 is none, 1 is 66,
// 2 F3 and 3 F2. What has an address takes base + index, and a displacement.
package encode
