// SPDX-License-Identifier: Apache-2.0

package vec

// The transforms of Winograd's F(4x4, 3x3) (Lavin and Gray, arXiv 1509.09308):
// 4x4 outputs Y of a 3x3 kernel g on 6x6 inputs d are
//
//	Y = A^T [ (G g G^T) . (B^T d B) ] A
//
// with interpolation at the points 0, +-a, +-b and infinity for a = 5/8, b = 3/2:
//
//	      ( a²b²    0  -a²-b²    0     1  0 )        ( 1  1  1  1  1  0 )
//	      (   0  -ab²    -b²     a     1  0 )   A^T = ( 0  a -a  b -b  0 )
//	B^T = (   0   ab²    -b²    -a     1  0 )        ( 0  a² a² b² b² 0 )
//	      (   0  -a²b    -a²     b     1  0 )        ( 0  a³-a³ b³-b³ 1 )
//	      (   0   a²b    -a²    -b     1  0 )
//	      (   0  a²b²      0 -a²-b²    0  1 )
//
// and rows of G of (1 p p²)/N(p), where N(p) is the product of the distances of p
// to the other points, and (0 0 1).
//
// Every coefficient but G's is exact in float32. The error grows with the
// condition of these matrices, and so with the spread of the points: with +-1 and
// +-2 it is six times that of F(2x2), with these, the best of the multiples of
// 1/16, two and a half times (Barabasz et al., arXiv 1803.10986, and Alam et al., arXiv
// 2201.10369, on the choice).
const (
	WinogradA = 5.0 / 8
	WinogradB = 3.0 / 2
)

// WinogradSquare is working memory of the transforms: 6x6 vectors of the widest
// instruction set.
type WinogradSquare [36 * 16]float32

// WinogradIn transforms n channels of a tile of 6x6 pixels x, whose pixels are sx
// and whose lines sy elements apart, each value after max(x, floor): 0 applies
// ReLU, -Inf nothing. The value at row i and column j goes to v[(6*j+i)*sv:].
func WinogradIn(v []float32, sv int, x []float32, sx, sy, n int, square *WinogradSquare, floor float32) {
	if n <= 0 {
		return
	}
	_, _ = v[35*sv:][:n], x[5*(sx+sy):][:n]
	if !kWinogradIn(&v[0], &x[0], 4*sv, 4*sx, 4*(sy-6*sx), &square[0], n, floor) {
		winogradInGo(v, sv, x, sx, sy, n, floor)
	}
}

// WinogradOut transforms n channels of a tile back to 4x4 pixels y, laid out as in
// WinogradIn: products, the one at row i and column j from m[(6*j+i)*sm:], give
// max(A^T m A + bias, floor).
func WinogradOut(y []float32, sx, sy int, m []float32, sm, n int, bias []float32, square *WinogradSquare, floor float32) {
	if n <= 0 {
		return
	}
	_, _, _ = y[3*(sx+sy):][:n], m[35*sm:][:n], bias[:n]
	if !kWinogradOut(&y[0], &m[0], 4*sm, 4*sx, 4*(sy-4*sx), &square[0], &bias[0], n, floor) {
		winogradOutGo(y, sx, sy, m, sm, n, bias, floor)
	}
}

// winogradG is G: the powers of each point, divided by its distances to the others;
// infinity has the highest power alone.
var winogradG = func() (g [6][3]float64) {
	points := [5]float64{0, WinogradA, -WinogradA, WinogradB, -WinogradB}
	for i, p := range points {
		n := 1.0
		for j, q := range points {
			if i != j {
				n *= p - q
			}
		}
		g[i] = [3]float64{1 / n, p / n, p * p / n}
	}
	g[5][2] = 1
	return g
}()

// WinogradKernel writes G g G^T, computed in float64, laid out as in WinogradIn: the
// value at row i and column j goes to u[(6*j+i)*su].
func WinogradKernel(u []float32, su int, g *[9]float32) {
	var t [6][3]float64
	for i, k := range winogradG {
		for j := range 3 {
			t[i][j] = k[0]*float64(g[j]) + k[1]*float64(g[3+j]) + k[2]*float64(g[6+j])
		}
	}
	for j, k := range winogradG {
		for i := range 6 {
			u[(6*j+i)*su] = float32(t[i][0]*k[0] + t[i][1]*k[1] + t[i][2]*k[2])
		}
	}
}

// The portable forms have the assembly's order of operations, so that these agree
// to the bit, but for a fused multiply-add in some 2^29, which rounds twice here.

func fma32(x, y, z float32) float32 { return float32(float64(x)*float64(y) + float64(z)) }

func winogradInRow(x [6]float32) (v [6]float32) {
	const a, b = WinogradA, WinogradB
	v[0] = fma32(x[0], a*a*b*b, fma32(x[2], -(a*a+b*b), x[4]))
	for i, p := range [2][2]float32{{a, b}, {b, a}} {
		e, o := fma32(x[2], -p[1]*p[1], x[4]), fma32(x[1], -p[1]*p[1], x[3])
		v[2*i+1], v[2*i+2] = fma32(o, p[0], e), fma32(o, -p[0], e)
	}
	v[5] = fma32(x[1], a*a*b*b, fma32(x[3], -(a*a+b*b), x[5]))
	return v
}

func winogradOutRow(m [6]float32) (y [4]float32) {
	const a, b = WinogradA, WinogradB
	s, d, t, e := m[1]+m[2], m[1]-m[2], m[3]+m[4], m[3]-m[4]
	y[0] = m[0] + s + t
	y[1] = fma32(e, b, d*a)
	y[2] = fma32(t, b*b, s*(a*a))
	y[3] = fma32(e, b*b*b, fma32(d, a*a*a, m[5]))
	return y
}

func winogradInGo(v []float32, sv int, x []float32, sx, sy, n int, floor float32) {
	for c := range n {
		var square [6][6]float32
		for i := range square {
			var r [6]float32
			for j := range r {
				r[j] = max(x[i*sy+j*sx+c], floor)
			}
			square[i] = winogradInRow(r)
		}
		for j := range 6 {
			var r [6]float32
			for i := range r {
				r[i] = square[i][j]
			}
			for i, u := range winogradInRow(r) {
				v[(6*j+i)*sv+c] = u
			}
		}
	}
}

func winogradOutGo(y []float32, sx, sy int, m []float32, sm, n int, bias []float32, floor float32) {
	for c := range n {
		var square [6][4]float32
		for j := range square {
			var r [6]float32
			for i := range r {
				r[i] = m[(6*j+i)*sm+c]
			}
			square[j] = winogradOutRow(r)
		}
		for i := range 4 {
			var r [6]float32
			for j := range r {
				r[j] = square[j][i]
			}
			for j, u := range winogradOutRow(r) {
				y[i*sy+j*sx+c] = max(u+bias[c], floor)
			}
		}
	}
}
