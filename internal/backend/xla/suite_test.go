// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"os"
	"path/filepath"
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

// runner is the conformance suite's runner in float32.
func runner(t *testing.T) optest.Runner { return optest.Backend(open(t, Config{}), backend.Options{}) }

func TestGolden(t *testing.T) { optest.Golden(t, runner(t), 1) }

func TestTable(t *testing.T) { optest.Table(t, "xla", runner(t), 2e-6) }

func TestRandom(t *testing.T) { optest.Random(t, runner(t), 1, 2e-6) }

func TestRelativePositions(t *testing.T) { optest.RelativePositions(t, runner(t)) }

func TestLargeLogits(t *testing.T) { optest.LargeLogits(t, runner(t), 1e-3) }

func TestArgOfNaN(t *testing.T) { optest.ArgOfNaN(t, runner(t)) }

// TestIntermediates: networks of all kinds, every intermediate or every output of every
// part, against golden data of this repository or the plain loops.
func TestIntermediates(t *testing.T) {
	run := runner(t)
	modeltest.Agree(t, run, "mast3r_micro", 1e-5)
	modeltest.Agree(t, run, "dune_micro", 1e-5)
	modeltest.Shapes(t, run, 1e-5)
	modeltest.Views(t, run, filepath.Join("..", "..", "..", modeltest.SmallViews), 1e-5)
}

// TestViews runs every case of networks of many views.
func TestViews(t *testing.T) {
	dir := golden.Path(t, "golden", "da3")
	t.Log(modeltest.Views(t, runner(t), dir, 1e-5))
	modeltest.Posed(t, runner(t), dir, 1e-5)
}

// TestModels: the graph's third execution agrees with the golden data, whole
// networks of both kinds.
func TestModels(t *testing.T) {
	modeltest.Tiny(t, runner(t), "mast3r_tiny", 1e-5)
	modeltest.Tiny(t, runner(t), "dunemast3r_tiny", 1e-5)
	modeltest.Trained(t, runner(t), golden.Path(t, "models", "mast3r_tiny", "unified.safetensors"), golden.FP32)
}

// TestPrecisions bounds the errors of half precision at the outputs.
func TestPrecisions(t *testing.T) {
	b := open(t, Config{})
	m := modeltest.Synthetic(t, "mast3r_mini", false)
	for _, c := range []struct {
		p           backend.Precision
		least, most float64
	}{{backend.FP16, 1e-5, 5e-3}, {backend.BF16, 1e-4, 3e-2}} {
		worst := 0.0
		for _, e := range modeltest.Errors(t, optest.Backend(b, backend.Options{Precision: c.p}), m, "mast3r_mini", "96x64") {
			worst = max(worst, e)
		}
		t.Logf("%v: %.2g", c.p, worst)
		if !(worst >= c.least && worst <= c.most) {
			t.Errorf("%v: relative L2 %.2g, want %.0g to %.0g", c.p, worst, c.least, c.most)
		}
	}
}
