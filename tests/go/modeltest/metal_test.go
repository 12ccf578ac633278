// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/mps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// onMetal runs on the simulator, on a Mac on the GPU.
func onMetal(t *testing.T, p backend.Precision) optest.Runner {
	t.Helper()
	metalsim.Open(t)
	b, err := mps.New(mps.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return optest.Backend(b, backend.Options{Precision: p})
}

// limits are those of float32, on a Mac those of half precision.
func limits() golden.Profile {
	if metalsim.Tolerance() > 1 {
		return golden.FP16
	}
	return golden.FP32
}

func TestMetalMicro(t *testing.T) {
	run := onMetal(t, backend.FP32)
	Micro(t, run, "mast3r_micro", limits())
	Micro(t, run, "dune_micro", limits())
	Symmetric(t, run, limits())
}

func TestMetalMicroHalf(t *testing.T) {
	run := onMetal(t, backend.FP16)
	Micro(t, run, "mast3r_micro", golden.FP16)
	Micro(t, run, "dune_micro", golden.FP16)
}

func TestMetalMini(t *testing.T) {
	run := onMetal(t, backend.FP32)
	Full(t, run, nil, "mast3r_mini", "96x64", limits())
	Full(t, run, nil, "dune_mini", "98x70", limits())
}

func TestMetalTiny(t *testing.T) {
	run := onMetal(t, backend.FP32)
	Tiny(t, run, "mast3r_tiny", 1e-5*metalsim.Tolerance())
	Tiny(t, run, "dunemast3r_tiny", 1e-5*metalsim.Tolerance())
}
