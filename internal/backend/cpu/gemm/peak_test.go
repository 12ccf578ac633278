// SPDX-License-Identifier: Apache-2.0

package gemm

import (
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
		if isa == Portable || isa == AVX512AMX && tilesInGo {
			continue // seconds
		}
		if err := Force(isa); err != nil {
			t.Fatal(err)
		}
		for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
			p, err := NewPeak(pool, d)
			if err != nil {
				t.Fatal(err)
			}
			// 8 tiles a thread of peakCalls products of rows x peakSteps x columns.
			im := active.Load()
			want := 2.0 * 16 * peakCalls * peakSteps * float64(im.sizes[0]*im.nr)
			switch {
			case d == tensor.BF16 && Tiles(32):
				want = 2.0 * 16 * peakCalls * 2 * peakSteps * 32 * 32
			case d == tensor.BF16 && RoundsBF16(32):
				want *= 2
			}
			if got := p.Burst(pool); got != want {
				t.Errorf("%v %v: %g operations, want %g", isa, d, got, want)
			}
		}
	}
}
