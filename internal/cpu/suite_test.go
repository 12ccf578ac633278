// SPDX-License-Identifier: Apache-2.0

package cpu_test

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/modeltest"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

func newBackend(t testing.TB, threads int) *cpu.Backend {
	t.Helper()
	b, err := cpu.New(cpu.Config{Threads: threads})
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

func TestOperationsAgainstGolden(t *testing.T) {
	optest.Golden(t, optest.Backend(newBackend(t, 2), backend.Options{}), 1)
}

func TestOperationsAgainstReference(t *testing.T) {
	optest.Random(t, optest.Backend(newBackend(t, 2), backend.Options{}), 30, 2e-6)
}

func TestModels(t *testing.T) {
	run := optest.Backend(newBackend(t, 2), backend.Options{})
	for _, m := range []string{"mast3r_micro", "dune_micro"} {
		t.Run(m, func(t *testing.T) { modeltest.Micro(t, run, m, golden.FP32) })
	}
	t.Run("symmetric", func(t *testing.T) { modeltest.Symmetric(t, run, golden.FP32) })
	t.Run("mast3r_tiny", func(t *testing.T) { modeltest.Tiny(t, run, "mast3r_tiny", 1e-5) })
	t.Run("dunemast3r_tiny", func(t *testing.T) { modeltest.Tiny(t, run, "dunemast3r_tiny", 1e-5) })
}
