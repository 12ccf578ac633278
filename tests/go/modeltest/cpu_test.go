// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

func onCPU(t *testing.T) optest.Runner {
	t.Helper()
	b, err := cpu.New(cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return optest.Backend(b, backend.Options{})
}

func TestCPUMicro(t *testing.T) {
	run := onCPU(t)
	Micro(t, run, "mast3r_micro", golden.FP32)
	Micro(t, run, "dune_micro", golden.FP32)
	Symmetric(t, run, golden.FP32)
}

func TestCPUMini(t *testing.T) {
	run := onCPU(t)
	Full(t, run, nil, "mast3r_mini", "96x64", golden.FP32)
	Full(t, run, nil, "dune_mini", "98x70", golden.FP32)
}

func TestCPUTiny(t *testing.T) {
	run := onCPU(t)
	Tiny(t, run, "mast3r_tiny", 1e-5)
	Tiny(t, run, "dunemast3r_tiny", 1e-5)
}

func TestCPUTrained(t *testing.T) {
	Trained(t, onCPU(t), golden.Path(t, "models", "mast3r_tiny", "unified.safetensors"), golden.FP32)
}
