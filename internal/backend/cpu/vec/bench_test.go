// SPDX-License-Identifier: Apache-2.0

package vec

import "testing"

func BenchmarkRows(b *testing.B) {
	const n = 1024
	x, y, z := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = float32(i%17)-8, 1
	}
	h := make([]uint16, n)
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"exp", func() { Exp(z, x) }},
		{"gelu", func() { GELU(z, x) }},
		{"softmax", func() { SoftmaxExp(z, x, 0.125) }},
		{"layernorm", func() { LayerNorm(z, x, y, y, 1e-6) }},
		{"add", func() { Add(z, x, y) }},
		{"lerp4", func() { Lerp4(z, x, y, x, y, .3, .4) }},
		{"f32tof16", func() { F16FromF32(h, x) }},
		{"f32tobf16", func() { BF16FromF32(h, x) }},
		{"l2normalize24", func() {
			for i := 0; i+24 <= n; i += 24 {
				L2Normalize(z[i:i+24], x[i:i+24], 0)
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				c.f()
			}
		})
	}
}

// BenchmarkWinograd is one tile of 128 channels, in the caches.
func BenchmarkWinograd(b *testing.B) {
	const n, sv = 128, 28*128 + 16
	v, x, bias := make([]float32, 36*sv), make([]float32, 36*n), make([]float32, n)
	var square WinogradSquare
	b.Run("in", func(b *testing.B) {
		for b.Loop() {
			WinogradIn(v, sv, x, n, 6*n, n, &square, 0)
		}
	})
	b.Run("out", func(b *testing.B) {
		for b.Loop() {
			WinogradOut(x, n, 6*n, v, sv, n, bias, &square, 0)
		}
	})
}
