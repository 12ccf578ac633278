// SPDX-License-Identifier: Apache-2.0

package vec

import "golang.org/x/sys/cpu"

// supported checks the processor and (inside package cpu) that the operating
// system saves the wide registers.
func supported(i ISA) bool {
	x := &cpu.X86
	base := x.HasAVX2 && x.HasFMA && x.HasF16C
	switch i {
	case AVX2:
		return base
	case AVX512:
		return base && x.HasAVX512F && x.HasAVX512VL && x.HasAVX512BW && x.HasAVX512DQ
	}
	return false
}
