// SPDX-License-Identifier: Apache-2.0

//go:build linux && !arm64

package gemm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The NEON kernels run under emulation where it is installed. The quick tests
// only; for all of them:
//
//	GOARCH=arm64 go test -exec qemu-aarch64 ./internal/backend/cpu/gemm
func TestNEONEmulated(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and emulates another architecture: not in short mode")
	}
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("NEON kernels NOT tested: qemu-aarch64 (package qemu-user) is not installed")
	}
	bin := filepath.Join(t.TempDir(), "gemm.test")
	build := exec.Command("go", "test", "-c", "-o", bin, ".")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(qemu, bin, "-test.run", "GELU|Softmax|Rotate|RowPlan|InPlace|Operands|Special|Pointwise|AcrossISAs|AttentionSame")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
