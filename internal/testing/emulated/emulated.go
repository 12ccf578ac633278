// SPDX-License-Identifier: Apache-2.0

package emulated

import (
	"bytes"
	"os"
	"runtime"
	"testing"
)

// Here tells whether this process is for arm64 and runs on another processor: qemu-user shows the
// host's /proc/cpuinfo, and only x86 has a vendor_id in it.
func Here() bool {
	text, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && runtime.GOARCH == "arm64" && bytes.Contains(text, []byte("vendor_id"))
}

// SkipFaults skips a test that reads a mapped file behind its end: qemu-user says that there was a
// fault, not where.
func SkipFaults(t testing.TB) {
	t.Helper()
	if Here() {
		t.Skip("qemu-user does not tell the address of a fault: NOT tested here")
	}
}
