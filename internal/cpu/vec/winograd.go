// SPDX-License-Identifier: Apache-2.0

package vec

// WinogradIn writes the input transform of F(2, 3) of four rows: r0-r2, r1+r2,
// r2-r1, r1-r3, each r after max(r, floor): 0 applies ReLU, -Inf nothing.
func WinogradIn(t, r *[4][]float32, floor float32) {
	n := len(t[0])
	for i := range 4 {
		_, _ = t[i][:n], r[i][:n]
	}
	if n > 0 && !kWinogradIn(&t[0][0], &t[1][0], &t[2][0], &t[3][0], &r[0][0], &r[1][0], &r[2][0], &r[3][0], n, floor) {
		winogradInGo(t, &[4][]float32{r[0][:n], r[1], r[2], r[3]}, floor)
	}
}

// WinogradOut writes the output transform of four rows: y0 = m0+m1+m2 and
// y1 = m1-m2-m3.
func WinogradOut(y0, y1 []float32, m *[4][]float32) {
	n := len(y0)
	y1 = y1[:n]
	for i := range 4 {
		_ = m[i][:n]
	}
	if n > 0 && !kWinogradOut(&y0[0], &y1[0], &m[0][0], &m[1][0], &m[2][0], &m[3][0], n) {
		winogradOutGo(y0, y1, m, nil, 0)
	}
}

// WinogradBias is WinogradOut with bias added and then max(y, floor).
func WinogradBias(y0, y1 []float32, m *[4][]float32, bias []float32, floor float32) {
	n := len(y0)
	y1, bias = y1[:n], bias[:n]
	for i := range 4 {
		_ = m[i][:n]
	}
	if n > 0 && !kWinogradBias(&y0[0], &y1[0], &m[0][0], &m[1][0], &m[2][0], &m[3][0], &bias[0], n, floor) {
		winogradOutGo(y0, y1, m, bias, floor)
	}
}
