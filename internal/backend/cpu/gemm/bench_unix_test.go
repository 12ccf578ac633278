// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gemm

import (
	"syscall"
	"time"
)

// cpuTime is the processor time of this process on all threads.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
