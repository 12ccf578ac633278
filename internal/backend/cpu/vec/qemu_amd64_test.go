// SPDX-License-Identifier: Apache-2.0

package vec

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNEONUnderEmulation runs this package's tests as an arm64 program where
// an emulator is installed: the only check of the NEON kernels on an x86 machine.
func TestNEONUnderEmulation(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: cross-compiling the tests takes a while")
	}
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("no qemu-aarch64 on this machine: the NEON kernels are NOT tested here")
	}
	bin := filepath.Join(t.TempDir(), "vec.test")
	build := exec.Command("go", "test", "-c", "-o", bin, ".")
	build.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building for arm64: %v\n%s", err, out)
	}
	if out, err := exec.Command(qemu, bin, "-test.short").CombinedOutput(); err != nil {
		t.Fatalf("under %s: %v\n%s", qemu, err, out)
	}
}
