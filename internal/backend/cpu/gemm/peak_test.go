// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func TestPeakCounts(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	was := Active()
	defer func() { _ = Force(was) }()
	for _, isa := range ISAs() {
		if isa == Portable {
			continue // seconds
		}
		if err := Force(isa); err != nil {
			t.Fatal(err)
		}
		for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
			p, err := NewPeak(pool, d)
			if !Supports(d) {
				if !errors.Is(err, ErrUnsupported) {
					t.Errorf("%v %v: error %v, want ErrUnsupported", isa, d, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			// 8 tiles a thread of peakCalls products of rows x peakSteps x columns.
			im := active.Load()
			want := 2.0 * 16 * peakCalls * peakSteps * float64(im.sizes[0]*im.nr)
			if d == tensor.BF16 {
				want *= 2
			}
			if got := p.Burst(pool); got != want {
				t.Errorf("%v %v: %g operations, want %g", isa, d, got, want)
			}
		}
	}
}
