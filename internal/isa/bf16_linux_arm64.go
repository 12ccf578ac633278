// SPDX-License-Identifier: Apache-2.0

package isa

import "golang.org/x/sys/unix"

// FEAT_BF16 is bit 14 of HWCAP2 (Documentation/arch/arm64/elf_hwcaps.rst).
const (
	auxHWCAP2  = 26
	hwcap2BF16 = 1 << 14
)

// hasBF16 reports FEAT_BF16. Go's runtime has kept what the kernel said at the start.
func hasBF16() bool {
	aux, err := unix.Auxv()
	if err != nil {
		return false
	}
	for _, x := range aux {
		if x[0] == auxHWCAP2 {
			return x[1]&hwcap2BF16 != 0
		}
	}
	return false
}
