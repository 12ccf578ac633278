// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal_test

import (
	"path/filepath"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/modeltest"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// open gives a backend on the simulator; at the end nothing may be left.
func open(t testing.TB, cfg metal.Config) (*metal.Backend, *metalsim.Sim) {
	t.Helper()
	s := metalsim.Open(t)
	b, err := metal.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := b.Device().LiveBuffers; n != 0 {
			t.Errorf("%d buffers were not released", n)
		}
		if st := b.Stats(); st.MappedBytes+st.CopiedBytes+st.TableBytes != 0 {
			t.Errorf("weights were left behind: %+v", st)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, s
}

var (
	fp32 = backend.Options{Precision: backend.FP32}
	fp16 = backend.Options{Precision: backend.FP16}
	bf16 = backend.Options{Precision: backend.BF16}
)

// The suites of tests/go run here and nowhere else on this backend: on the
// simulator, with nothing left behind at the end, and on a Mac on the GPU, with
// wider limits.

// exact is a limit of float32 on the simulator, profile that of whole networks.
func exact(limit float64) float64 { return limit * metalsim.Tolerance() }

func profile() golden.Profile {
	if metalsim.Tolerance() > 1 {
		return golden.FP16
	}
	return golden.FP32
}

func TestOperationsAgainstGolden(t *testing.T) {
	b, _ := open(t, metal.Config{})
	optest.Golden(t, optest.Backend(b, fp32), exact(1))
}

func TestOperationsOfTheTable(t *testing.T) {
	b, _ := open(t, metal.Config{})
	optest.Table(t, "metal", optest.Backend(b, fp32), exact(2e-6))
}

func TestOperationsAgainstReference(t *testing.T) {
	b, _ := open(t, metal.Config{})
	optest.Random(t, optest.Backend(b, fp32), 12, exact(2e-6))
}

func TestOperationsInHalfPrecision(t *testing.T) {
	b, _ := open(t, metal.Config{})
	optest.Random(t, optest.Backend(b, fp16), 8, 5e-3)
}

func TestOperationsInBfloat16(t *testing.T) {
	b, _ := open(t, metal.Config{})
	optest.Random(t, optest.Backend(b, bf16), 4, 2e-2)
}

func TestManualAttention(t *testing.T) {
	b, _ := open(t, metal.Config{Attention: metal.AttentionByHand})
	for name, c := range map[string]struct {
		opt   backend.Options
		limit float64
	}{"fp32": {fp32, exact(2e-6)}, "fp16": {fp16, 3e-3}} {
		t.Run(name, func(t *testing.T) { optest.Random(t, optest.Backend(b, c.opt), 3, c.limit) })
	}
}

func TestModels(t *testing.T) {
	b, s := open(t, metal.Config{})
	run := optest.Backend(b, fp32)
	for _, m := range []string{"mast3r_micro", "dune_micro"} {
		t.Run(m, func(t *testing.T) { modeltest.Micro(t, run, m, profile()) })
	}
	t.Run("symmetric", func(t *testing.T) { modeltest.Symmetric(t, run, profile()) })
	if v := s.Violations(); len(v) > 0 {
		t.Errorf("%d violations, the first: %s", len(v), v[0])
	}
}

func TestModelsInHalfPrecision(t *testing.T) {
	b, _ := open(t, metal.Config{})
	run := optest.Backend(b, fp16)
	t.Run("mast3r_micro", func(t *testing.T) { modeltest.Micro(t, run, "mast3r_micro", golden.FP16) })
	t.Run("dune_micro", func(t *testing.T) {
		if testing.Short() {
			t.Skip("slow on the simulator")
		}
		modeltest.Micro(t, run, "dune_micro", golden.FP16)
	})
}

func TestModelInBfloat16(t *testing.T) {
	if testing.Short() {
		t.Skip("slow on the simulator")
	}
	b, _ := open(t, metal.Config{})
	modeltest.Tiny(t, optest.Backend(b, bf16), "mast3r_tiny", 3e-2)
}

// TestMiniModels are the published architecture at a quarter of the width: every
// block of it, at two sizes.
func TestMiniModels(t *testing.T) {
	if testing.Short() {
		t.Skip("slow on the simulator")
	}
	b, _ := open(t, metal.Config{})
	t.Run("mast3r", func(t *testing.T) {
		modeltest.Full(t, optest.Backend(b, fp32), nil, "mast3r_mini", "96x64", profile())
		modeltest.Full(t, optest.Backend(b, fp16), nil, "mast3r_mini", "96x64", golden.FP16)
	})
	t.Run("dune", func(t *testing.T) {
		modeltest.Full(t, optest.Backend(b, fp32), nil, "dune_mini", "98x70", profile())
	})
}

func TestViews(t *testing.T) {
	b, s := open(t, metal.Config{})
	for _, c := range []struct {
		opt   backend.Options
		limit float64
	}{{fp32, exact(1e-5)}, {fp16, 5e-3}, {bf16, 4e-2}} {
		modeltest.Views(t, optest.Backend(b, c.opt), filepath.Join("..", "..", "..", modeltest.SmallViews), c.limit)
	}
	if v := s.Violations(); len(v) > 0 {
		t.Errorf("%d violations, the first: %s", len(v), v[0])
	}
	dir := golden.Path(t, "golden", "da3")
	modeltest.Views(t, optest.Backend(b, fp32), dir, exact(1e-5))
	modeltest.Posed(t, optest.Backend(b, fp32), dir, exact(1e-5))
}

func TestTinyModels(t *testing.T) {
	b, _ := open(t, metal.Config{})
	run := optest.Backend(b, fp32)
	t.Run("mast3r_tiny", func(t *testing.T) { modeltest.Tiny(t, run, "mast3r_tiny", exact(1e-5)) })
	t.Run("dunemast3r_tiny", func(t *testing.T) { modeltest.Tiny(t, run, "dunemast3r_tiny", exact(1e-5)) })
}
