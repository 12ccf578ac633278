// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSameBits holds every implementation against the Go code, at every length up
// to some blocks: the same bits, and nothing written beyond the end.
func TestSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	bytes := make([]byte, 4000)
	for i := range bytes {
		bytes[i] = byte(r.Uint32())
	}
	floats := make([]float32, 4000)
	for i := range floats {
		floats[i] = 255 * r.Float32()
	}
	smooth := [3]float32{0.5586, 0.2056, 0.0151}
	for _, k := range All() {
		for n := range 70 {
			// Inputs end where their memory does.
			a, b := slices.Clip(slices.Clone(bytes[:6*n])), slices.Clip(slices.Clone(bytes[1000:1000+6*n]))
			same(t, k, "HalveColours", n, func(k *Kernel, out []byte) { k.HalveColours(out, a, b) })
			same(t, k, "HalveGrey", n, func(k *Kernel, out []byte) { k.HalveGrey(out, a[:2*n], b[:2*n]) })
			same(t, k, "Grey", n, func(k *Kernel, out []float32) { k.Grey(out, a[:3*n]) })
			same(t, k, "Five", n, func(k *Kernel, out []float32) {
				k.Five(out, floats, floats[1:], floats[200:], floats[301:], floats[500:], &smooth)
			})
		}
		for range 50 {
			turn := func(s float32) float32 { return s * (2*r.Float32() - 1) }
			g := Grid{30 + turn(2), 30 + turn(2), turn(1.5), turn(1.5), turn(1.5), turn(1.5)}
			for n, side := range map[int]int{Samples: Side, RimSamples: Rim} {
				g := g
				h := float32(side / 2)
				g.X, g.Y = g.X-h*(g.AX+g.BX), g.Y-h*(g.AY+g.BY)
				same(t, k, "Read", n, func(k *Kernel, out []float32) {
					if !k.Read(out, floats[:3600], 60, 60, g) {
						clear(out)
					}
				})
			}
		}
		patch := func(at int) *[Samples]float32 { return (*[Samples]float32)(floats[at:]) }
		same(t, k, "Fit", 3, func(k *Kernel, out []float32) {
			out[0], out[1], out[2] = k.Fit(patch(0), patch(300), patch(600), patch(900), patch(1200))
		})
		same(t, k, "Moments", 2, func(k *Kernel, out []float32) { out[0], out[1] = k.Moments(patch(0), patch(300)) })
	}
}

func same[T comparable](t *testing.T, k *Kernel, name string, n int, do func(k *Kernel, out []T)) {
	t.Helper()
	got, want := make([]T, n+8), make([]T, n+8)
	do(k, got[:n])
	do(&portable, want[:n])
	if !slices.Equal(got, want) {
		t.Fatalf("%v: %s of %d differs from the Go code's", k.ISA, name, n)
	}
}

// TestReadStaysInside: a grid that leaves its window is refused, by a hair too.
func TestReadStaysInside(t *testing.T) {
	pix := make([]float32, 40*30)
	for _, k := range All() {
		out := make([]float32, Samples)
		ok := Grid{0, 0, 1, 0, 0, 1}
		if !k.Read(out, pix, 40, 30, ok) {
			t.Error("a grid inside is refused")
		}
		nan := ok
		nan.X /= nan.X - nan.X
		for name, g := range map[string]Grid{
			"left": {-0.01, 0, 1, 0, 0, 1}, "right": {23, 0, 1, 0, 0, 1}, "above": {0, -1e-6, 1, 0, 0, 1},
			"below": {0, 13, 1, 0, 0, 1}, "turned": {3, 3, 1, -1, 1, 1}, "NaN": nan, "far": {1e30, 0, 1, 0, 0, 1},
		} {
			if k.Read(out, pix, 40, 30, g) {
				t.Errorf("%v: %s is read", k.ISA, name)
			}
		}
		if k.Read(out, pix[:40*30-1], 40, 30, ok) {
			t.Error("a window with too few pixels is read")
		}
	}
}
