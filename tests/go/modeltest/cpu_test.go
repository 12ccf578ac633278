// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
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

func TestCPUViews(t *testing.T) {
	Views(t, onCPU(t), filepath.Join("..", "..", "..", SmallViews), 1e-5)
	dir := golden.Path(t, "golden", "da3")
	Views(t, onCPU(t), dir, 1e-5)
	Posed(t, onCPU(t), dir, 1e-5)
}

// TestCPUFull runs the published sizes, which takes minutes and 10 GB: only with
// MAST3R_FULL=1, as `make golden` has it.
func TestCPUFull(t *testing.T) {
	if os.Getenv("MAST3R_FULL") == "" {
		t.Skip("full-size models are run with MAST3R_FULL=1 (make golden)")
	}
	for _, c := range [][2]string{
		{"mast3r_vit_large", "512x384"},
		{"dune_vit_small_14", "448x448"}, {"dune_vit_small_14", "518x378"},
		{"dune_vit_base_14", "448x448"}, {"dune_vit_base_14", "518x378"},
	} {
		t.Run(c[0]+"/"+c[1], func(t *testing.T) {
			Full(t, onCPU(t), nil, c[0], c[1], golden.FP32)
		})
		debug.FreeOSMemory() // before the next model's weights
	}
}
