// SPDX-License-Identifier: Apache-2.0

package geometry

import "math"

// An essential matrix E of a pair has x2' E x1 = 0 for the rays x1, x2 of a point
// in the two cameras. With x2 = R x1 + t it is [t] R, [t] the matrix of the cross
// product with t.

// fivePoint finds the essential matrices of five pairs of rays, by the method of
// Nister 2004 (An Efficient Solution to the Five-Point Relative Pose Problem). The
// pairs leave a space of four matrices, E = x X + y Y + z Z + W; that E has two
// equal singular values and the third 0 gives ten cubic equations, of which
// elimination leaves one of degree ten in z.
func fivePoint(a, b []Vec3) []Mat3 {
	var rows [5][9]float64
	for i := range rows {
		for r := range 3 {
			for c := range 3 {
				rows[i][3*r+c] = b[i][r] * a[i][c]
			}
		}
	}
	basis, ok := nullSpace(rows[:])
	if !ok {
		return nil
	}
	var e [3][3]poly1
	for r := range 3 {
		for c := range 3 {
			for k := range 4 {
				e[r][c][k] = basis[k][3*r+c]
			}
		}
	}
	m := cubicEquations(&e)
	if !eliminate(&m) {
		return nil
	}
	// Three equations x p(z) + y q(z) + r(z) = 0, each from two rows whose leading
	// terms differ by a factor z; p and q of degree 3, r of degree 4.
	var eq [3][3][5]float64
	for k := range 3 {
		up, down := m[4+2*k][10:], m[5+2*k][10:]
		for part, at := range [3]int{0, 3, 6} {
			n := 3
			if part == 2 {
				n = 4
			}
			for i := range n { // coefficients fall with the power of z
				eq[k][part][n-1-i] += up[at+i]
				eq[k][part][n-i] -= down[at+i]
			}
		}
	}
	var out []Mat3
	for _, z := range sturdyRoots(determinant(&eq)) {
		var row [3]Vec3
		for k := range 3 {
			for part := range 3 {
				row[k][part], _ = horner(eq[k][part][:], z)
			}
		}
		v := longest(cross(row[0], row[1]), cross(row[0], row[2]), cross(row[1], row[2]))
		x, y := v[0]/v[2], v[1]/v[2]
		if !finite(x, y, z) {
			continue
		}
		var em Mat3
		for r := range 3 {
			for c := range 3 {
				p := &e[r][c]
				em[r][c] = x*p[0] + y*p[1] + z*p[2] + p[3]
			}
		}
		out = append(out, em)
	}
	return out
}

func longest(list ...Vec3) Vec3 {
	best := list[0]
	for _, v := range list[1:] {
		if dot(v, v) > dot(best, best) {
			best = v
		}
	}
	return best
}

// cubicEquations are det E = 0 and E E' E - tr(E E') E / 2 = 0.
func cubicEquations(e *[3][3]poly1) (m [10]poly3) {
	var square [3][3]poly2
	for i := range 3 {
		for j := range 3 {
			for k := range 3 {
				square[i][j].add11(1, &e[i][k], &e[j][k])
			}
		}
	}
	var trace poly2
	for i := range 3 {
		for k, v := range square[i][i] {
			trace[k] += v / 2
		}
	}
	for i := range 3 {
		for k, v := range trace {
			square[i][i][k] -= v
		}
	}
	for i := range 3 {
		for j := range 3 {
			for k := range 3 {
				m[3*i+j].add21(1, &square[i][k], &e[k][j])
			}
		}
	}
	for i := range 3 { // the determinant by the first row
		j, k := (i+1)%3, (i+2)%3
		var minor poly2
		minor.add11(1, &e[1][j], &e[2][k])
		minor.add11(-1, &e[1][k], &e[2][j])
		m[9].add21(1, &minor, &e[0][i])
	}
	return m
}

// eliminate brings the first ten columns to the unit matrix.
func eliminate(m *[10]poly3) bool {
	for c := range 10 {
		best := c
		for r := c + 1; r < 10; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[best][c]) {
				best = r
			}
		}
		m[c], m[best] = m[best], m[c]
		p := 1 / m[c][c]
		if !finite(p) {
			return false
		}
		for k := c; k < 20; k++ {
			m[c][k] *= p
		}
		for r := range 10 {
			if f := m[r][c]; r != c && f != 0 {
				for k := c; k < 20; k++ {
					m[r][k] -= f * m[c][k]
				}
			}
		}
	}
	return true
}

// determinant of a matrix of polynomials in z, degrees 3, 3 and 4 by column.
func determinant(m *[3][3][5]float64) []float64 {
	out := make([]float64, 11)
	for i := range 3 {
		j, k := (i+1)%3, (i+2)%3
		var minor [7]float64
		for a := range 4 {
			for b := range 4 {
				minor[a+b] += m[j][0][a]*m[k][1][b] - m[k][0][a]*m[j][1][b]
			}
		}
		for a, x := range minor {
			for b, y := range m[i][2] {
				if a+b < 11 {
					out[a+b] += x * y
				}
			}
		}
	}
	return out
}

// nullSpace is a basis of the vectors that all rows are orthogonal to, by
// elimination with the greatest pivot of the whole rest; ok is false where the
// rows are dependent.
func nullSpace(in [][9]float64) (basis [][9]float64, ok bool) {
	n := len(in)
	m := append([][9]float64(nil), in...)
	var order [9]int
	for i := range order {
		order[i] = i
	}
	for c := range n {
		br, bc := c, c
		for r := c; r < n; r++ {
			for k := c; k < 9; k++ {
				if math.Abs(m[r][order[k]]) > math.Abs(m[br][order[bc]]) {
					br, bc = r, k
				}
			}
		}
		m[c], m[br] = m[br], m[c]
		order[c], order[bc] = order[bc], order[c]
		p := m[c][order[c]]
		if !(math.Abs(p) > 1e-12) {
			return nil, false
		}
		for k := c; k < 9; k++ {
			m[c][order[k]] /= p
		}
		for r := range n {
			if f := m[r][order[c]]; r != c && f != 0 {
				for k := c; k < 9; k++ {
					m[r][order[k]] -= f * m[c][order[k]]
				}
			}
		}
	}
	basis = make([][9]float64, 9-n)
	for b := range basis {
		free := order[n+b]
		basis[b][free] = 1
		for r := range n {
			basis[b][order[r]] = -m[r][free]
		}
		size := 0.0
		for _, v := range basis[b] {
			size += v * v
		}
		for k := range basis[b] {
			basis[b][k] /= math.Sqrt(size)
		}
	}
	return basis, true
}

// motions are the motions from camera 1 to camera 2 that an essential matrix
// allows, |t| = 1: two turns, each with either sign of t (Horn 1990, Recovering
// Baseline and Orientation from Essential Matrix).
func motions(e Mat3) []Pose {
	// With E = [t] R, E E' = (t.t) 1 - t t', whose trace is 2 t.t.
	ee := Mul(e, Transpose(e))
	half := (ee[0][0] + ee[1][1] + ee[2][2]) / 2
	if !(half > 0) || math.IsInf(half, 0) {
		return nil
	}
	var t Vec3
	best := 0
	for i := range 3 {
		if half-ee[i][i] > half-ee[best][best] {
			best = i
		}
	}
	for i := range 3 {
		t[i] = -ee[best][i]
	}
	t[best] += half
	size := norm(t)
	if !(size > 0) {
		return nil
	}
	t = scale(t, math.Sqrt(half)/size)
	cofactors := Mat3{cross(e[1], e[2]), cross(e[2], e[0]), cross(e[0], e[1])}
	var out []Pose
	for _, sign := range [2]float64{1, -1} {
		te := Mul(skew(scale(t, sign)), e)
		var r Mat3
		for i := range 3 {
			for j := range 3 {
				r[i][j] = (cofactors[i][j] - te[i][j]) / half
			}
		}
		r, ok := nearestRotation(r)
		if !ok {
			return nil
		}
		u := scale(t, 1/math.Sqrt(half))
		out = append(out, Pose{r, u}, Pose{r, scale(u, -1)})
	}
	return out
}

// skew is the matrix of the cross product with t.
func skew(t Vec3) Mat3 {
	return Mat3{{0, -t[2], t[1]}, {t[2], 0, -t[0]}, {-t[1], t[0], 0}}
}

// nearestRotation takes the rounding out of a matrix that is almost a rotation:
// Newton's iteration for the orthogonal factor.
func nearestRotation(r Mat3) (Mat3, bool) {
	for range 10 {
		inv, ok := Inverse(r)
		if !ok {
			return r, false
		}
		it := Transpose(inv)
		change := 0.0
		for i := range 3 {
			for j := range 3 {
				v := (r[i][j] + it[i][j]) / 2
				change = max(change, math.Abs(v-r[i][j]))
				r[i][j] = v
			}
		}
		if change < 1e-15 {
			break
		}
	}
	return r, Det(r) > 0
}

// depths are the distances along the rays x1 and x2 at which they come nearest to
// each other, camera 2 being moved by m: s2 x2 = R s1 x1 + t in least squares.
func depths(m Pose, x1, x2 Vec3) (s1, s2 float64) {
	u := MulVec(m.R, x1)
	uu, uv, vv := dot(u, u), dot(u, x2), dot(x2, x2)
	ut, vt := dot(u, m.T), dot(x2, m.T)
	det := uu*vv - uv*uv
	return (uv*vt - vv*ut) / det, (uu*vt - uv*ut) / det
}
