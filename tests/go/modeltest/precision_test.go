// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// stages are where docs/speed.md tells how far each precision is from float32.
var stages = []string{"enc1.out", "dec1.block5", "dec1.out", "head1.path1", "head1.dpt_raw", "head1.local_raw",
	"pred1.pts3d", "pred1.conf", "pred1.desc", "pred1.desc_conf"}

// TestPrecisionByStage bounds the error of the lower precisions stage by stage,
// relative L2 against the float32 reference, on the CPU and on the Metal path;
// with -v it prints the table of docs/speed.md.
func TestPrecisionByStage(t *testing.T) {
	dir := golden.Path(t, "golden", "mast3r_micro")
	m := Synthetic(t, "mast3r_micro", false)
	c := golden.Load(t, filepath.Join(dir, "landscape.safetensors"))
	for _, p := range []struct {
		precision backend.Precision
		limit     float64
	}{{backend.FP32, 1e-5}, {backend.FP16, 5e-3}, {backend.BF16, 4e-2}} {
		for _, device := range []string{"cpu", "metal"} {
			t.Run(fmt.Sprintf("%v/%s", p.precision, device), func(t *testing.T) {
				run := onMetalOrCPU(t, device, p.precision)
				values := Pass{Model: m, Run: run, Taps: true}.Pair(t, pictures(t, dir, "landscape", 1), pictures(t, dir, "landscape", 2))
				var row []string
				for _, name := range stages {
					if !c.Has(name) {
						t.Fatalf("the golden case has no %s", name)
					}
					d, _, err := c.Diff(t, name, values[name].Data, values[name].Shape)
					if err != nil {
						t.Fatal(err)
					}
					if !(d.RelL2 <= p.limit) {
						t.Errorf("%s: relative L2 %.2g, want <= %.2g", name, d.RelL2, p.limit)
					}
					row = append(row, fmt.Sprintf("%s %.1e", name, d.RelL2))
				}
				t.Log(strings.Join(row, ", "))
			})
		}
	}
}

// TestViewsByPrecision bounds the error of the lower precisions for a network of many
// views, whose twelve blocks and exponentials make more of it.
func TestViewsByPrecision(t *testing.T) {
	for _, p := range []struct {
		precision backend.Precision
		limit     float64
	}{{backend.FP32, 1e-5}, {backend.FP16, 5e-3}, {backend.BF16, 4e-2}} {
		for _, device := range []string{"cpu", "metal"} {
			t.Run(fmt.Sprintf("%v/%s", p.precision, device), func(t *testing.T) {
				t.Log(Views(t, onMetalOrCPU(t, device, p.precision), filepath.Join("..", "..", "..", SmallViews), p.limit))
			})
		}
	}
}

func onMetalOrCPU(t *testing.T, device string, p backend.Precision) optest.Runner {
	t.Helper()
	if device == "metal" {
		return onMetal(t, p)
	}
	if p == backend.BF16 && !gemm.Supports(tensor.BF16) {
		t.Skip("this processor has no bfloat16 products")
	}
	b, err := cpu.New(cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return optest.Backend(b, backend.Options{Precision: p})
}
