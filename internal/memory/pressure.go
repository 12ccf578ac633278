// SPDX-License-Identifier: Apache-2.0

package memory

// short is the rule where the system has no level of its own: less than a tenth left is
// low, less than a twentieth critical.
func short(free, all uint64) (low, critical bool) { return free < all/10, free < all/20 }
