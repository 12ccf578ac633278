// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin && !windows

package cpu

// machineMemory is unknown here.
func machineMemory() uint64 { return 0 }
