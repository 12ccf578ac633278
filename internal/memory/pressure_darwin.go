// SPDX-License-Identifier: Apache-2.0

package memory

import "golang.org/x/sys/unix"

// Levels of kern.memorystatus_vm_pressure_level, those of dispatch sources of the type
// memorypressure (dispatch/source.h); 1 is normal. Any process of macOS may read it.
const (
	pressureWarn     = 2
	pressureCritical = 4
)

// Pressure is the kernel's own level. Unknown is not short.
func Pressure() (low, critical bool) {
	level, err := unix.SysctlUint32("kern.memorystatus_vm_pressure_level")
	if err != nil {
		return false, false
	}
	return level&pressureWarn != 0, level&pressureCritical != 0
}
