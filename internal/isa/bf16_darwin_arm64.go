// SPDX-License-Identifier: Apache-2.0

package isa

import "golang.org/x/sys/unix"

// hasBF16 reports FEAT_BF16, by the name that macOS gives it since version 12. Where the
// name is unknown, so are the instructions.
func hasBF16() bool {
	v, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16")
	return err == nil && v == 1
}
