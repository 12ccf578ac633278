// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"os"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/modeltest"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// open is XLA on the CPU, through the same plugin interface as on a GPU.
func open(t testing.TB, cfg Config) *Backend {
	t.Helper()
	cfg.Name, cfg.Plugin = "xla-cpu", os.Getenv("MAST3R_PJRT_CPU")
	if cfg.Plugin == "" {
		t.Skip("MAST3R_PJRT_CPU is not set: XLA is not run")
	}
	// Programs run once: compile them quickly.
	cfg.Flags = map[string]any{"xla_backend_optimization_level": int64(0), "xla_llvm_disable_expensive_passes": true}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestGolden(t *testing.T) {
	optest.Golden(t, optest.Backend(open(t, Config{}), backend.Options{}), 1)
}

func TestRandom(t *testing.T) {
	optest.Random(t, optest.Backend(open(t, Config{}), backend.Options{}), 1, 2e-6)
}

func model(t *testing.T, p backend.Precision) optest.Runner {
	return optest.Backend(open(t, Config{}), backend.Options{Precision: p})
}

func TestMicro(t *testing.T) {
	run := model(t, backend.FP32)
	modeltest.Micro(t, run, "mast3r_micro", golden.FP32)
	modeltest.Micro(t, run, "dune_micro", golden.FP32)
}
