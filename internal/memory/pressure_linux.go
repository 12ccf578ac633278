// SPDX-License-Identifier: Apache-2.0

package memory

import "path"

// Pressure says whether memory is short, of the machine or of a control group. Linux has
// pressure stall information only where the kernel was built with it, so that what is
// free decides. Swap does not count: a pool that is swapped out is worth nothing.
func Pressure() (low, critical bool) { return pressure(root) }

func pressure(root string) (low, critical bool) {
	m := fields(path.Join(root, "proc/meminfo"), 1<<10)
	low, critical = short(m["MemAvailable"], m["MemTotal"])
	for _, g := range groups(root) {
		if free, limit, ok := g.room(); ok {
			l, c := short(free, limit)
			low, critical = low || l, critical || c
		}
	}
	return low, critical
}
