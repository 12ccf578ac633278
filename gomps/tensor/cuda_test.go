// SPDX-License-Identifier: Apache-2.0

package tensor_test

import (
	"os"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// TestCUDA: eager tensors live on the backend cuda too, with XLA's plugin for the
// CPU standing in for a GPU's.
func TestCUDA(t *testing.T) {
	if os.Getenv("MAST3R_PJRT_CPU") == "" {
		t.Skip("MAST3R_PJRT_CPU is not set: the backend cuda is not run (make xla-test)")
	}
	c, err := tensor.Open(tensor.Config{Backend: "cuda"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.FromFloat32s([]float32{1, -2, 3, 4}, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // results of a batch, each released before the next
		b, err := c.MatMul(a, a)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Relu(b)
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
		got, err := r.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []float32{0, 0, 15, 10} {
			if got[i] != want {
				t.Errorf("%v, want [0 0 15 10]", got)
				break
			}
		}
		r.Release()
	}
	a.Release()
	if s := c.Stats(); s.LiveTensors != 0 || s.Device.Backend != "cuda" {
		t.Errorf("%+v", s)
	}
}
