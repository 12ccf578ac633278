// SPDX-License-Identifier: Apache-2.0

package memory

// Pressure says whether the machine's memory is short. What is unknown is not.
func Pressure() (low, critical bool) {
	s, _ := read()
	return short(s.available, s.total)
}
