// SPDX-License-Identifier: Apache-2.0

package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Sums in a fixed order leave nothing to a tolerance.
func TestWinograd(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for n := range maxTail {
			var all, in, out, want [4][]float32
			for i := range 4 {
				_, in[i] = guarded(n, i)
				randRow(r, in[i], 1)
				all[i], out[i] = guarded(n, (i+n)%5)
				want[i] = make([]float32, n)
			}
			bias := make([]float32, n)
			randRow(r, bias, 1)
			compare := func(what string, rows int) {
				t.Helper()
				for i := range rows {
					checkCanaries(t, all[i], out[i], (i+n)%5)
					for j := range n {
						if out[i][j] != want[i][j] {
							t.Fatalf("%s: row %d, %d of %d: got %g, want %g", what, i, j, n, out[i][j], want[i][j])
						}
					}
				}
			}
			for _, floor := range []float32{0, float32(math.Inf(-1))} {
				winogradInGo(&want, &in, floor)
				WinogradIn(&out, &in, floor)
				compare("in", 4)
				winogradOutGo(want[0], want[1], &in, bias, floor)
				WinogradBias(out[0], out[1], &in, bias, floor)
				compare("bias", 2)
			}
			winogradOutGo(want[0], want[1], &in, nil, 0)
			WinogradOut(out[0], out[1], &in)
			compare("out", 2)
		}
	})
}

// F(2, 3) is exact on small integers: the transform of a row of four and of a
// kernel of three gives the two valid correlations.
func TestWinogradIsCorrelation(t *testing.T) {
	d, g := [4]float32{3, -1, 4, 2}, [3]float32{2, 6, -4}
	u := [4]float32{g[0], (g[0] + g[1] + g[2]) / 2, (g[0] - g[1] + g[2]) / 2, g[2]}
	var in, m [4][]float32
	for i := range 4 {
		in[i], m[i] = d[i:i+1], make([]float32, 1)
	}
	WinogradIn(&m, &in, float32(math.Inf(-1)))
	for i := range 4 {
		m[i][0] *= u[i]
	}
	var y [2]float32
	WinogradOut(y[:1], y[1:], &m)
	for i := range 2 {
		if want := d[i]*g[0] + d[i+1]*g[1] + d[i+2]*g[2]; y[i] != want {
			t.Errorf("output %d: got %g, want %g", i, y[i], want)
		}
	}
}
