// SPDX-License-Identifier: Apache-2.0

//go:build linux && !arm64

package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The kernels of arm64 run under emulation where it is installed.
func TestARM64Emulated(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and emulates another architecture: not in short mode")
	}
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("kernels of arm64 NOT tested: qemu-aarch64 (package qemu-user) is not installed")
	}
	bin := filepath.Join(t.TempDir(), "kernel.test")
	build := exec.Command("go", "test", "-c", "-o", bin, ".")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(qemu, "-cpu", "max", bin, "-test.v").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, set := range []string{"/neon", "/neonmmla"} {
		if !bytes.Contains(out, []byte(set)) {
			t.Errorf("nothing ran with %s:\n%s", set[1:], out)
		}
	}
}
