// SPDX-License-Identifier: Apache-2.0

package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Sums in a fixed order leave nothing to a tolerance.
func TestWinograd(t *testing.T) {
	var square WinogradSquare
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for n := range maxTail {
			for _, floor := range []float32{0, float32(math.Inf(-1))} {
				// Pixels, values and lines are apart by more than they hold.
				sx, sv := n+n%3, n+n%5
				sy := 6*sx + n%7
				x, bias := make([]float32, 5*(sx+sy)+n), make([]float32, n)
				randRow(r, x, 1)
				randRow(r, bias, 1)
				all, v := guarded(35*sv+n, n%5)
				want := append([]float32(nil), v...)
				winogradInGo(want, sv, x, sx, sy, n, floor)
				WinogradIn(v, sv, x, sx, sy, n, &square, floor)
				checkCanaries(t, all, v, n%5)
				checkSame(t, "in", n, v, want)

				m := want
				all, y := guarded(3*(sx+sy)+n, n%5)
				want = append([]float32(nil), y...)
				winogradOutGo(want, sx, sy, m, sv, n, bias, floor)
				WinogradOut(y, sx, sy, m, sv, n, bias, &square, floor)
				checkCanaries(t, all, y, n%5)
				checkSame(t, "out", n, y, want)
			}
		}
	})
}

// checkSame also finds what was written between the values.
func checkSame(t *testing.T, what string, n int, got, want []float32) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: %d channels: element %d: got %g, want %g", what, n, i, got[i], want[i])
		}
	}
}

// The transforms of a tile and of a kernel give the correlation of the two.
func TestWinogradIsCorrelation(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	d, g := make([]float32, 36), make([]float32, 9)
	randRow(r, d, 1)
	randRow(r, g, 1)
	var v, u, y [36]float32
	var square WinogradSquare
	none := float32(math.Inf(-1))
	WinogradIn(v[:], 1, d, 1, 6, 1, &square, none)
	WinogradKernel(u[:], 1, (*[9]float32)(g))
	for i := range v {
		v[i] *= u[i]
	}
	WinogradOut(y[:], 1, 4, v[:], 1, 1, []float32{0.5}, &square, none)
	for i := range 4 {
		for j := range 4 {
			want := 0.5
			for l := range 9 {
				want += float64(g[l]) * float64(d[(i+l/3)*6+j+l%3])
			}
			if e := math.Abs(float64(y[4*i+j]) - want); !(e <= 1e-5) {
				t.Errorf("output %d, %d: got %g, want %g", i, j, y[4*i+j], want)
			}
		}
	}
}
