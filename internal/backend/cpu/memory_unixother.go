// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package cpu

func adviseHuge([]byte) {}

// mapPopulate has no counterpart here.
const mapPopulate = 0
