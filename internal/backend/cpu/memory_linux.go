// SPDX-License-Identifier: Apache-2.0

package cpu

import "golang.org/x/sys/unix"

// adviseHuge asks for large pages: fewer first-touch faults, fewer TLB misses.
// It is advice, and a kernel without them says no.
func adviseHuge(b []byte) {
	if len(b) >= 2<<20 {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
}

// mapPopulate maps the pages of a file at once: one call instead of a fault for
// each 4 KiB, whose cost is most of that of using a file in the page cache.
const mapPopulate = unix.MAP_POPULATE
