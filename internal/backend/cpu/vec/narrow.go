// SPDX-License-Identifier: Apache-2.0

package vec

// Narrow writes bias plus the scalar products of x, each value after max(x, floor),
// with the four rows of len(x) that w holds: a layer with four outputs, which has too
// few for the products of package gemm. floor is 0 for ReLU and else -Inf.
func Narrow(dst *[4]float32, x, w []float32, bias *[4]float32, floor float32) {
	n := len(x)
	w = w[:4*n]
	if n > 0 && kNarrow(&dst[0], &x[0], &w[0], &bias[0], 4*n, n, floor) {
		return
	}
	for i := range dst {
		var s float64
		for j, v := range x {
			s += float64(max(v, floor)) * float64(w[i*n+j])
		}
		dst[i] = float32(s) + bias[i]
	}
}
