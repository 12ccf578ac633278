// SPDX-License-Identifier: Apache-2.0

//go:build unix

package selfcheck

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

func devices(t *testing.T, cfg metal.Config) (gpu *metal.Backend, ref *cpu.Backend, sim *metalsim.Sim) {
	t.Helper()
	sim = metalsim.Open(t)
	gpu, err := metal.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if ref, err = cpu.New(cpu.Config{Threads: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(gpu.Close(), ref.Close()); err != nil {
			t.Error(err)
		}
	})
	return gpu, ref, sim
}

var background = context.Background()

// TestAgreement: on the simulator errors are far below the limits, which leave
// room for another machine's order of sums.
func TestAgreement(t *testing.T) {
	gpu, ref, _ := devices(t, metal.Config{})
	for _, p := range []backend.Precision{backend.FP32, backend.FP16, backend.BF16} {
		for _, c := range append(Operations(background, gpu, ref, p), Network(background, gpu, ref, p)) {
			t.Logf("%v %-32s %.2g", p, c.Name, c.Worst)
			if c.Err != nil {
				t.Errorf("%v %s: %v", p, c.Name, c.Err)
			}
			if p == backend.FP32 && c.Worst > c.Limit/100*metalsim.Tolerance() || c.Worst > c.Limit {
				t.Errorf("%v %s: %.2g is near the limit %.2g", p, c.Name, c.Worst, c.Limit)
			}
		}
	}
}

// TestHalfSums: half-precision sums, the worst that Apple could do, still pass.
func TestHalfSums(t *testing.T) {
	gpu, ref, sim := devices(t, metal.Config{})
	sim.Set("fp16_accumulate", "1")
	if c := Network(background, gpu, ref, backend.FP16); c.Err != nil {
		t.Error(c.Err)
	}
}

// TestFaults: a GPU that computes something else is found out, by the network and
// by the operation that is wrong.
func TestFaults(t *testing.T) {
	for fault, operation := range map[string]string{"align_corners": "resize", "erf": "elementwise", "attention": "attention", "norm": "layer norm"} {
		t.Run(fault, func(t *testing.T) {
			gpu, ref, sim := devices(t, metal.Config{Attention: metal.AttentionNative})
			sim.Set("fault", fault)
			for _, p := range []backend.Precision{backend.FP32, backend.FP16, backend.BF16} {
				c := Network(background, gpu, ref, p)
				t.Logf("%v network %.2g", p, c.Worst)
				if !errors.Is(c.Err, ErrDisagree) {
					t.Errorf("%v: the network's error is %v at %.2g", p, c.Err, c.Worst)
				}
			}
			var wrong []string
			for _, c := range Operations(background, gpu, ref, backend.FP32) {
				if c.Err != nil {
					wrong = append(wrong, c.Name)
				}
			}
			found := false
			for _, w := range wrong {
				found = found || w == operation
			}
			if !found || len(wrong) > 3 {
				t.Errorf("wrong operations: %q, want %q and few others", wrong, operation)
			}
		})
	}
}

// TestReportedFaults: what GPUs have been reported to get wrong and the network does
// not use, the operations of eager tensors, has checks of its own.
func TestReportedFaults(t *testing.T) {
	for fault, operation := range map[string]string{"grouped": "grouped convolution", "identity": "results without a kernel", "gemv_bias": ""} {
		t.Run(fault, func(t *testing.T) {
			gpu, ref, sim := devices(t, metal.Config{})
			sim.Set("fault", fault)
			var wrong []string
			for _, c := range Operations(background, gpu, ref, backend.FP32) {
				if c.Err != nil {
					wrong = append(wrong, c.Name)
				}
			}
			if got := strings.Join(wrong, ", "); got != operation {
				t.Errorf("wrong operations %q, want %q", got, operation)
			}
		})
	}
}

// TestNativeAttention: at the published network's size the native attention is
// compared in value, from run to run, and for memory that it loses; attention from
// products passes on such GPUs, and on those that get batched products in half
// precision wrong.
func TestNativeAttention(t *testing.T) {
	for fault, p := range map[string]backend.Precision{"sdpa_unsteady": backend.FP16, "sdpa_leak": backend.FP32, "batched_half": backend.FP16} {
		t.Run(fault, func(t *testing.T) {
			native, ref, sim := devices(t, metal.Config{Attention: metal.AttentionNative})
			sim.Set("fault", fault)
			if c := networkAttention.check(background, native, ref, p); errors.Is(c.Err, ErrDisagree) == (fault == "batched_half") {
				t.Errorf("native: %v", c.Err)
			}
			hand, _, sim := devices(t, metal.Config{Attention: metal.AttentionByHand})
			sim.Set("fault", fault)
			for _, o := range operations {
				switch o.name {
				case "attention", "attention of a whole picture", "matmul", "linear":
					if c := o.check(background, hand, ref, p); c.Err != nil {
						t.Errorf("from products: %v", c.Err)
					}
				}
			}
		})
	}
}

// TestFailuresAreErrors: a device that cannot run the check did not pass it.
func TestFailuresAreErrors(t *testing.T) {
	for _, fail := range []string{"fail_alloc", "fail_command", "fail_graph"} {
		gpu, ref, sim := devices(t, metal.Config{})
		sim.Set(fail, "1")
		if c := Network(background, gpu, ref, backend.FP32); c.Err == nil || errors.Is(c.Err, ErrDisagree) {
			t.Errorf("%s: %v", fail, c.Err)
		}
		sim.Set(fail, "0")
		if c := Network(background, gpu, ref, backend.FP32); c.Err != nil {
			t.Errorf("after %s: %v", fail, c.Err)
		}
	}
}
