// SPDX-License-Identifier: Apache-2.0

//go:build linux && !arm64

package gemm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The NEON kernels run under emulation where it is installed. The quick tests
// only; for all of them:
//
//	GOARCH=arm64 go test -exec 'qemu-aarch64 -cpu max' ./internal/backend/cpu/gemm
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
	for _, tests := range []string{
		"GELU|Softmax|Rotate|RowPlan|InPlace|Operands|Special|Pointwise|AcrossISAs|AttentionSame|MMLA",
		"^Test(MatMul|Conv|Attention|Serial)$/neonmmla", // products of bfloat16
	} {
		out, err := exec.Command(qemu, "-cpu", "max", bin, "-test.v", "-test.run", tests).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !bytes.Contains(out, []byte("/neonmmla")) {
			t.Fatalf("nothing ran with BFMMLA:\n%s", out)
		}
	}
}
