// SPDX-License-Identifier: Apache-2.0

package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestNarrow(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(19, 20))
		for n := range maxTail {
			for _, floor := range []float32{0, float32(math.Inf(-1))} {
				_, x := guarded(n, n%5)
				_, w := guarded(4*n, n%7)
				randRow(r, x, 1)
				randRow(r, w, 1)
				var got, bias [4]float32
				randRow(r, bias[:], 1)
				Narrow(&got, x, w, &bias, floor)
				for i := range got {
					want := float64(bias[i])
					mag := math.Abs(want)
					for j, v := range x {
						p := float64(max(v, floor)) * float64(w[i*n+j])
						want += p
						mag += math.Abs(p)
					}
					// The canaries around a row are 12345 in size.
					if !(math.Abs(float64(got[i])-want) <= 4e-7*mag) {
						t.Fatalf("%d values, floor %g: product %d is %g, want %g", n, floor, i, got[i], want)
					}
				}
			}
		}
	})
}

// A NaN in the row comes through, with and without ReLU.
func TestNarrowNaN(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		x, w := make([]float32, 20), make([]float32, 80)
		x[3] = float32(math.NaN())
		for _, floor := range []float32{0, float32(math.Inf(-1))} {
			var got, bias [4]float32
			if Narrow(&got, x, w, &bias, floor); got[0] == got[0] || got[3] == got[3] {
				t.Errorf("floor %g: got %v, want NaN", floor, got)
			}
		}
	})
}
