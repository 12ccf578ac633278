// SPDX-License-Identifier: Apache-2.0

package cpu

import "golang.org/x/sys/unix"

// machineMemory is the memory of the machine.
func machineMemory() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}
