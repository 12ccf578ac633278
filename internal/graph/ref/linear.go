// SPDX-License-Identifier: Apache-2.0

package ref

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

func products(op graph.Op, in []Tensor, out Tensor) (bool, error) {
	switch o := op.(type) {
	case graph.MatMul:
		matMul(o, in[0], in[1], out)
	case graph.Linear:
		linear(o, in, out)
	case graph.RoPE:
		copy(out.Data, in[0].Data)
		rope(o.Rope, o.Heads, out)
	case graph.Attention:
		attention(o, in, out)
	default:
		return false, nil
	}
	return true, nil
}

func matMul(o graph.MatMul, a, b, out Tensor) {
	ra, rb, ro := len(a.Shape), len(b.Shape), len(out.Shape)
	m, n, k := out.Shape[ro-2], out.Shape[ro-1], a.Shape[ra-1]
	index(out.Shape[:ro-2], func(batch int, at []int) {
		x := a.Data[broadcastIndex(a.Shape[:ra-2], at)*m*k:]
		y := b.Data[broadcastIndex(b.Shape[:rb-2], at)*k*n:]
		z := out.Data[batch*m*n:]
		for i := range m {
			for j := range n {
				sum := 0.0
				for l := range k {
					if o.TransB {
						sum += x[i*k+l] * y[j*k+l]
					} else {
						sum += x[i*k+l] * y[l*n+j]
					}
				}
				z[i*n+j] = sum
			}
		}
	})
}

func linear(o graph.Linear, in []Tensor, out Tensor) {
	x, w := in[0], in[1]
	n, k := w.Shape[0], w.Shape[1]
	rest := in[2:]
	next := func(has bool) []float64 {
		if !has {
			return nil
		}
		t := rest[0]
		rest = rest[1:]
		return t.Data
	}
	bias, gamma, residual := next(o.Bias), next(o.Gamma), next(o.Residual)
	for i := range out.Data {
		row, j := i/n, i%n
		sum := 0.0
		for l := range k {
			sum += x.Data[row*k+l] * w.Data[j*k+l]
		}
		if bias != nil {
			sum += bias[j]
		}
		sum = activate(o.Act, sum)
		if gamma != nil {
			sum *= gamma[j]
		}
		if residual != nil {
			sum += residual[i]
		}
		out.Data[i] = sum
	}
}

// rope turns each head in place: with Q = hd/4, the pairs (j, j+Q) of the first
// half by the row's angle, those of the second half by the column's, angle
// position * base^(-j/Q) (network.md 4.1).
func rope(r graph.Rope, heads int, x Tensor) {
	tokens, d := x.Shape[1], x.Shape[2]
	hd := d / heads
	q := hd / 4
	for row := range len(x.Data) / d {
		t := row % tokens
		for h := range heads {
			v := x.Data[row*d+h*hd:][:hd]
			for half, pos := range []int{t / r.Cols, t % r.Cols} {
				for j := range q {
					s, c := math.Sincos(float64(pos) * math.Pow(float64(r.Base), -float64(j)/float64(q)))
					a, b := v[half*2*q+j], v[half*2*q+q+j]
					v[half*2*q+j] = a*c - b*s
					v[half*2*q+q+j] = b*c + a*s
				}
			}
		}
	}
}

func turned(x Tensor, r *graph.Rope, heads int) Tensor {
	if r == nil {
		return x
	}
	y := New(x.Shape...)
	copy(y.Data, x.Data)
	rope(*r, heads, y)
	return y
}

func attention(o graph.Attention, in []Tensor, out Tensor) {
	q, k, v := turned(in[0], o.QRope, o.Heads), turned(in[1], o.KRope, o.Heads), in[2]
	nq, nk := q.Shape[1], k.Shape[1]
	d, dv := q.Shape[2], v.Shape[2]
	hd, hv := d/o.Heads, dv/o.Heads
	scores := make([]float64, nk)
	for b := range q.Shape[0] {
		for h := range o.Heads {
			for i := range nq {
				qi := q.Data[(b*nq+i)*d+h*hd:][:hd]
				for j := range nk {
					scores[j] = float64(o.Scale) * dot(qi, k.Data[(b*nk+j)*d+h*hd:][:hd])
					if o.Mask {
						scores[j] += in[3].Data[broadcastIndex(in[3].Shape, []int{b, h, i, j})]
					}
				}
				softmaxRow(scores, scores)
				y := out.Data[(b*nq+i)*dv+h*hv:][:hv]
				for j, p := range scores {
					for l, e := range v.Data[(b*nk+j)*dv+h*hv:][:hv] {
						y[l] += p * e
					}
				}
			}
		}
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func softmaxRow(x, y []float64) {
	top := math.Inf(-1)
	for _, v := range x {
		top = math.Max(top, v)
	}
	sum := 0.0
	for i, v := range x {
		y[i] = math.Exp(v - top)
		sum += y[i]
	}
	for i := range y {
		y[i] /= sum
	}
}
