// SPDX-License-Identifier: Apache-2.0

package cudatest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/selfcheck"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/cuda"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/modeltest"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// gpu opens the first GPU; with MAST3R_PJRT_CPU it is XLA on the CPU, to try the
// tests themselves.
func gpu(t *testing.T) *xla.Backend {
	t.Helper()
	var b *xla.Backend
	var err error
	switch file := os.Getenv("MAST3R_PJRT_CPU"); {
	case os.Getenv("MAST3R_CUDA") == "1":
		b, err = cuda.Open(cuda.Settings{})
	case file != "":
		b, err = xla.New(xla.Config{Name: "xla-cpu", Plugin: file})
	default:
		t.Skip("MAST3R_CUDA is not 1: no GPU is tried (make cuda-test)")
	}
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

// precisions and the errors that they may have at the network's outputs.
var precisions = []struct {
	p     backend.Precision
	limit float64
}{{backend.FP32, 2.5e-5}, {backend.TF32, 2e-3}, {backend.FP16, 3e-2}, {backend.BF16, 3e-2}}

func TestSelfCheck(t *testing.T) {
	b := gpu(t)
	t.Logf("%+v", b.Device())
	ref, err := cpu.New(cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	for _, c := range precisions {
		start := time.Now()
		list := []selfcheck.Check{selfcheck.Network(context.Background(), b, ref, c.p)}
		if c.p == backend.FP32 {
			list = append(list, selfcheck.Operations(context.Background(), b, ref, c.p)...)
		}
		for _, r := range list {
			t.Logf("%v %-34s %.2g", c.p, r.Name, r.Worst)
			if r.Err != nil {
				t.Errorf("%v %s: %v", c.p, r.Name, r.Err)
			}
		}
		t.Logf("%v took %v", c.p, time.Since(start).Round(time.Millisecond))
	}
}

func TestOperations(t *testing.T) {
	optest.Golden(t, optest.Backend(gpu(t), backend.Options{}), 3)
}

func TestRandomOperations(t *testing.T) {
	optest.Random(t, optest.Backend(gpu(t), backend.Options{}), 1, 1e-5)
}

func TestResize(t *testing.T) { optest.Resize(t, gpu(t)) }

// TestModel holds the network's outputs against the golden ones, at a small and
// at the published size.
func TestModel(t *testing.T) {
	for _, size := range [][2]string{{"mast3r_mini", "96x64"}, {"mast3r_vit_large", "512x384"}} {
		if size[0] == "mast3r_vit_large" && os.Getenv("MAST3R_CUDA") != "1" {
			continue // a GPU's affair
		}
		m := modeltest.Synthetic(t, size[0], false)
		b := gpu(t)
		for _, c := range precisions {
			t.Run(fmt.Sprintf("%s/%v", size[0], c.p), func(t *testing.T) {
				run := optest.Backend(b, backend.Options{Precision: c.p})
				for name, e := range modeltest.Errors(t, run, m, size[0], size[1]) {
					t.Logf("%-16s %.2g", name, e)
					if !(e <= c.limit) {
						t.Errorf("%s: relative L2 %.2g, want at most %.2g", name, e, c.limit)
					}
				}
			})
		}
	}
}

func TestTrained(t *testing.T) {
	b := gpu(t)
	for _, c := range precisions {
		profile := golden.FP16
		if c.p == backend.FP32 {
			profile = golden.FP32
		}
		t.Run(c.p.String(), func(t *testing.T) {
			modeltest.Trained(t, optest.Backend(b, backend.Options{Precision: c.p}),
				golden.Path(t, "models", "mast3r_tiny", "unified.safetensors"), profile)
		})
	}
}
