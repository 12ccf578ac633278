// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// TestSameParameter: two names are one parameter when type, shape and bytes agree, and a
// conflict when any of them does not.
func TestSameParameter(t *testing.T) {
	of := func(d tensor.DType, b byte, shape ...int) Tensor {
		data := make([]byte, tensor.Shape(shape).Numel()*d.Size())
		data[0] = b
		return Tensor{Name: "w", DType: d, Shape: shape, Data: data}
	}
	a := of(tensor.F32, 1, 2, 3)
	if err := sameParameter("f", a, of(tensor.F32, 1, 2, 3)); err != nil {
		t.Error(err)
	}
	for name, b := range map[string]Tensor{
		"shape": of(tensor.F32, 1, 3, 2), "rank": of(tensor.F32, 1, 6), "type": of(tensor.I32, 1, 2, 3), "bytes": of(tensor.F32, 2, 2, 3),
	} {
		if err := sameParameter("f", a, b); err == nil {
			t.Errorf("another %s is the same", name)
		}
	}
}

// TestTruth: any byte but 0 is true.
func TestTruth(t *testing.T) {
	for b := range 256 {
		want := float32(1)
		if b == 0 {
			want = 0
		}
		if got := truth[float32](byte(b)); got != want {
			t.Errorf("%d is %g", b, got)
		}
	}
}
