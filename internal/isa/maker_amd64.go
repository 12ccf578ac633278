// SPDX-License-Identifier: Apache-2.0

package isa

import "sync"

// cpuid runs the instruction.
func cpuid(leaf uint32) (a, b, c, d uint32)

// vendor is the maker of the processor, as it names itself.
var vendor = sync.OnceValue(func() string {
	_, b, c, d := cpuid(0)
	var s []byte
	for _, r := range [3]uint32{b, d, c} {
		s = append(s, byte(r), byte(r>>8), byte(r>>16), byte(r>>24))
	}
	return string(s)
})

// VectorBF16Pays reports whether VDPBF16PS multiplies faster than float32 does. One
// name stands for opposite things: against the products of float32, it did twice as
// many per second on AMD's Zen 4 and Zen 5, and 0.6 times as many on Intel's Sapphire
// Rapids (docs/speed.md). Who has not been measured is taken for the slower kind.
func VectorBF16Pays() bool { return vendor() == "AuthenticAMD" }
