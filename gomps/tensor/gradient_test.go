// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"fmt"
	"math"
	"testing"
)

// sumWith is sum(y*weights) as a float64: a function to differentiate.
func sumWith(t *testing.T, y *Tensor, weights []float32) float64 {
	t.Helper()
	v := must[[]float32](t)(y.Float32s())
	var sum float64
	for i, x := range v {
		sum += float64(x) * float64(weights[i])
	}
	return sum
}

// checkGradient compares grad with central differences of f at x. The step of
// 2^-7 balances the rounding of float32 (error 2^-24/h) against the third
// derivative (error h^2/6): both stay below the tolerance.
func checkGradient(t *testing.T, what string, x Array, grad []float32, f func(x Array) float64) {
	t.Helper()
	const h = 1.0 / 128
	for i := range x.Data {
		at := func(d float32) float64 {
			moved := Array{append([]float32{}, x.Data...), x.Shape}
			moved.Data[i] += d
			return f(moved)
		}
		want := (at(h) - at(-h)) / (2 * h)
		if d := math.Abs(float64(grad[i]) - want); d > 2e-3*(1+math.Abs(want)) {
			t.Fatalf("%s: gradient %d is %v, finite differences say %v", what, i, grad[i], want)
		}
	}
}

// TestGradients checks every gradient of the package against finite
// differences.
func TestGradients(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		put := func(a Array) *Tensor { return keep(c.FromFloat32s(a.Data, a.Shape...)) }
		host := func(x *Tensor) []float32 { return must[[]float32](t)(x.Float32s()) }

		for _, act := range []Activation{None, Tanh, Sigmoid, Gelu, GeluTanh} { // relu has a kink
			x, w, b, gy := wave(3, 4), wave(2, 4), wave(2), wave(3, 2)
			y := keep(c.Linear(put(x), put(w), put(b), act))
			if act == Gelu || act == GeluTanh {
				y = keep(c.Linear(put(x), put(w), put(b), None))
			}
			gw, gb := keep(c.Zeros(F32, 2, 4)), keep(c.Zeros(F32, 2))
			gx := keep(c.LinearBackward(put(gy), y, put(x), put(w), gw, gb, act))
			f := func(x, w, b Array) float64 {
				return sumWith(t, keep(c.Linear(put(x), put(w), put(b), act)), gy.Data)
			}
			name := "linear " + string(act)
			checkGradient(t, name+" x", x, host(gx), func(v Array) float64 { return f(v, w, b) })
			checkGradient(t, name+" w", w, host(gw), func(v Array) float64 { return f(x, v, b) })
			checkGradient(t, name+" b", b, host(gb), func(v Array) float64 { return f(x, w, v) })
		}

		x, gamma, beta, gy := wave(3, 6), wave(6), wave(6), wave(3, 6)
		gx, gg, gb, err := c.LayerNormBackward(put(gy), put(x), put(gamma), 1e-5)
		keep(gx, err)
		keep(gg, err)
		keep(gb, err)
		norm := func(x, gamma, beta Array) float64 {
			return sumWith(t, keep(c.LayerNorm(put(x), put(gamma), put(beta), 1e-5)), gy.Data)
		}
		checkGradient(t, "layer_norm x", x, host(gx), func(v Array) float64 { return norm(v, gamma, beta) })
		checkGradient(t, "layer_norm gamma", gamma, host(gg), func(v Array) float64 { return norm(x, v, beta) })
		checkGradient(t, "layer_norm beta", beta, host(gb), func(v Array) float64 { return norm(x, gamma, v) })

		for _, o := range []ConvOptions{{Pad: 1}, {Stride: 2, Pad: 1}, {Dilation: 2, Pad: 2, Groups: 2}} {
			groups := max(o.Groups, 1)
			x, w := wave(1, 2, 5, 4), wave(2, 2/groups, 3, 3)
			y := keep(c.Conv2D(put(x), put(w), nil, o))
			gy := wave(y.Shape()...)
			gx, gw, gb, err := c.Conv2DBackward(put(gy), put(x), put(w), o)
			keep(gx, err)
			keep(gw, err)
			keep(gb, err)
			f := func(x, w Array) float64 { return sumWith(t, keep(c.Conv2D(put(x), put(w), nil, o)), gy.Data) }
			name := fmt.Sprintf("conv2d %+v", o)
			checkGradient(t, name+" x", x, host(gx), func(v Array) float64 { return f(v, w) })
			checkGradient(t, name+" w", w, host(gw), func(v Array) float64 { return f(x, v) })
			b := Array{Data: []float32{0.1, 0.2}, Shape: []int{2}}
			checkGradient(t, name+" b", b, host(gb), func(v Array) float64 {
				return sumWith(t, keep(c.Conv2D(put(x), put(w), put(v), o)), gy.Data)
			})
		}

		for axis := range 2 {
			x, gy := wave(3, 5), wave(3, 5)
			gx := keep(c.SoftmaxBackward(put(gy), put(x), axis))
			checkGradient(t, fmt.Sprint("softmax ", axis), x, host(gx), func(v Array) float64 {
				return sumWith(t, keep(c.Softmax(put(v), axis)), gy.Data)
			})
		}

		logits := wave(3, 5)
		labels := keep(c.FromInt32s([]int32{1, 4, 0}, 3))
		loss, gl, err := c.SoftmaxCrossEntropy(put(logits), labels)
		keep(loss, err)
		keep(gl, err)
		checkGradient(t, "softmax_cross_entropy", logits, host(gl), func(v Array) float64 {
			l, g, err := c.SoftmaxCrossEntropy(put(v), labels)
			keep(g, err)
			return float64(host(keep(l, err))[0])
		})

		cols := wave(1, 8, 6)
		img := keep(c.Col2Im(put(cols), 2, 3, 4, [2]int{2, 2}, 1, 0))
		gi := wave(1, 2, 3, 4)
		gc := keep(c.Im2Col(put(gi), [2]int{2, 2}, 1, 0))
		if img.Numel() != 24 {
			t.Fatalf("col2im gave %v", img.Shape())
		}
		checkGradient(t, "col2im", cols, host(gc), func(v Array) float64 {
			return sumWith(t, keep(c.Col2Im(put(v), 2, 3, 4, [2]int{2, 2}, 1, 0)), gi.Data)
		})
	})
}

// TestFusedEqualsUnfused compares every fused operation with its parts.
func TestFusedEqualsUnfused(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		put := func(a Array) *Tensor { return keep(c.FromFloat32s(a.Data, a.Shape...)) }
		x, w, b, r := put(wave(7, 12)), put(wave(9, 12)), put(wave(9)), put(wave(7, 9))
		wt := keep(c.Transpose(w))
		gamma, beta := put(wave(12)), put(wave(12))
		lin := keep(c.Linear(x, w, b, None))
		g9, b9, m9 := put(wave(9)), put(wave(9)), put(wave(9))
		v9 := keep(c.Exp(put(wave(9))))
		dropped, mask, err := c.Dropout(x, 0.4, 7)
		keep(dropped, err)
		keep(mask, err)
		fusedDrop, mask2, err := c.DropoutLinear(x, 0.4, 7, w, b)
		keep(fusedDrop, err)
		keep(mask2, err)
		q, k := put(wave(2, 5, 8)), put(wave(2, 6, 8))
		for name, pair := range map[string][2]*Tensor{
			"add+relu":               {keep(c.AddRelu(lin, r)), keep(c.Relu(keep(c.Add(lin, r))))},
			"sub+relu":               {keep(c.SubRelu(lin, r)), keep(c.Relu(keep(c.Sub(lin, r))))},
			"mul+relu":               {keep(c.MulRelu(lin, r)), keep(c.Relu(keep(c.Mul(lin, r))))},
			"div+relu":               {keep(c.DivRelu(lin, v9)), keep(c.Relu(keep(c.Div(lin, v9))))},
			"affine":                 {keep(c.Affine(x, 3, -2)), keep(c.AddScalar(keep(c.MulScalar(x, 3)), -2))},
			"matmul+gelu":            {keep(c.MatMulActivation(x, wt, Gelu)), keep(c.Gelu(keep(c.MatMul(x, wt))))},
			"matmul+relu":            {keep(c.MatMulActivation(x, wt, Relu)), keep(c.Relu(keep(c.MatMul(x, wt))))},
			"matmul+bias":            {keep(c.MatMulBias(x, wt, b)), lin},
			"linear+add":             {keep(c.LinearAdd(x, w, b, r)), keep(c.Add(lin, r))},
			"linear+add+gelu":        {keep(c.LinearAddGelu(x, w, b, r)), keep(c.Gelu(keep(c.Add(lin, r))))},
			"linear+residual+relu":   {keep(c.LinearResidualRelu(x, w, nil, r)), keep(c.Relu(keep(c.Add(keep(c.MatMul(x, wt)), r))))},
			"gelu+linear":            {keep(c.GeluLinear(x, w, b)), keep(c.Linear(keep(c.Gelu(x)), w, b, None))},
			"layer_norm+linear":      {keep(c.LayerNormLinear(x, gamma, beta, 1e-6, w, b)), keep(c.Linear(keep(c.LayerNorm(x, gamma, beta, 1e-6)), w, b, None))},
			"linear+batch_norm":      {keep(c.LinearBatchNormRelu(x, w, b, g9, b9, m9, v9, 1e-5)), keep(c.Relu(keep(c.BatchNorm(lin, g9, b9, m9, v9, 1e-5))))},
			"dropout+linear":         {fusedDrop, keep(c.Linear(dropped, w, b, None))},
			"attention scores":       {keep(c.AttentionScores(q, k, 0.3)), keep(c.Softmax(keep(c.MulScalar(keep(c.MatMulTransposed(q, k)), 0.3)), -1))},
			"transposed":             {keep(c.MatMulTransposed(x, w)), keep(c.MatMul(x, wt))},
			"masks of one seed":      {mask, mask2},
			"two steps of a reshape": {keep(c.Reshape(keep(c.Reshape(x, 3, -1)), 7, 12)), x},
		} {
			a, b := must[[]float32](t)(pair[0].Float32s()), must[[]float32](t)(pair[1].Float32s())
			if len(a) != len(b) {
				t.Fatalf("%s: %v and %v", name, pair[0].Shape(), pair[1].Shape())
			}
			for i := range a {
				if d := math.Abs(float64(a[i] - b[i])); !(d <= 2e-6*(1+math.Abs(float64(b[i])))) {
					t.Fatalf("%s: element %d is %v, unfused %v", name, i, a[i], b[i])
				}
			}
		}
	})
}
