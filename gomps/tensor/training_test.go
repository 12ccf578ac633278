// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// parameter is a weight with its moments and gradient.
type parameter struct{ w, m, v, g *Tensor }

// newParameter draws uniformly from +-scale/sqrt(fan).
func newParameter(t *testing.T, c *Context, keep func(*Tensor, error) *Tensor, r *rand.Rand, fan int, shape ...int) *parameter {
	t.Helper()
	a := wave(shape...)
	for i := range a.Data {
		a.Data[i] = float32((2*r.Float64() - 1) * math.Sqrt(3/float64(fan)))
	}
	zeros := func() *Tensor { return keep(c.Zeros(F32, shape...)) }
	return &parameter{keep(c.FromFloat32s(a.Data, shape...)), zeros(), zeros(), zeros()}
}

// step applies and clears the gradient.
func (p *parameter) step(t *testing.T, c *Context, a Adam, n int) {
	t.Helper()
	if err := c.AdamStep(p.w, p.g, p.m, p.v, a, n); err != nil {
		t.Fatal(err)
	}
	if err := p.g.Zero(); err != nil {
		t.Fatal(err)
	}
}

// TestSine fits sin on [-pi, pi] with 24 hidden units.
func TestSine(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		r := rand.New(rand.NewPCG(1, 2))
		const n = 64
		x, y := make([]float32, n), make([]float32, n)
		for i := range x {
			v := math.Pi * (2*float64(i)/(n-1) - 1)
			x[i], y[i] = float32(v), float32(math.Sin(v))
		}
		tx, ty := keep(c.FromFloat32s(x, n, 1)), keep(c.FromFloat32s(y, n, 1))
		w1, b1 := newParameter(t, c, keep, r, 1, 24, 1), newParameter(t, c, keep, r, 1, 24)
		w2, b2 := newParameter(t, c, keep, r, 24, 1, 24), newParameter(t, c, keep, r, 24, 1)
		adam := DefaultAdam()
		adam.LearningRate = 0.02
		for s := 1; s <= 400; s++ {
			h := must[*Tensor](t)(c.Linear(tx, w1.w, b1.w, Tanh))
			p := must[*Tensor](t)(c.Linear(h, w2.w, b2.w, None))
			gp := must[*Tensor](t)(c.MSEGrad(p, ty, 2.0/n))
			gh := must[*Tensor](t)(c.LinearBackward(gp, p, h, w2.w, w2.g, b2.g, None))
			gx := must[*Tensor](t)(c.LinearBackward(gh, h, tx, w1.w, w1.g, b1.g, Tanh))
			for _, q := range []*parameter{w1, b1, w2, b2} {
				q.step(t, c, adam, s)
			}
			release([]*Tensor{h, p, gp, gh, gx})
		}
		h := keep(c.Linear(tx, w1.w, b1.w, Tanh))
		got := must[[]float32](t)(keep(c.Linear(h, w2.w, b2.w, None)).Float32s())
		var worst float64
		for i, v := range got {
			worst = max(worst, math.Abs(float64(v-y[i])))
		}
		if worst > 0.1 {
			t.Errorf("the fit is off by %v at most, want 0.1", worst)
		}
	})
}

// digit draws one of the digits 0..9 as a seven-segment figure on 8x8 pixels,
// moved by up to a pixel, with noise.
func digit(r *rand.Rand, d int) []float32 {
	//  0 top, 1 upper left, 2 upper right, 3 middle, 4 lower left, 5 lower right, 6 bottom
	segments := [10]string{"012456", "25", "02346", "02356", "1235", "01356", "013456", "025", "0123456", "012356"}
	img := make([]float32, 64)
	dy, dx := r.IntN(2), 1+r.IntN(2)
	set := func(y, x int) { img[(y+dy)*8+x+dx] = 1 }
	for _, s := range segments[d] {
		for k := range 3 {
			switch s {
			case '0', '3', '6':
				set(int(s-'0'), 1+k%2)
			case '1', '2':
				set(min(k, 3), 3*int(s-'1'))
			case '4', '5':
				set(3+k, 3*int(s-'4'))
			}
		}
	}
	for i := range img {
		img[i] += float32(r.NormFloat64()) * 0.1
	}
	return img
}

func digits(r *rand.Rand, n int) (img []float32, label []int32) {
	for i := range n {
		img = append(img, digit(r, i%10)...)
		label = append(label, int32(i%10))
	}
	return img, label
}

// TestDigits trains a small convolutional classifier on generated digits and
// reads its confusion matrix.
func TestDigits(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		r := rand.New(rand.NewPCG(5, 6))
		const batch, channels, features = 40, 6, 6 * 4 * 4
		conv := ConvOptions{Pad: 1}
		wc, bc := newParameter(t, c, keep, r, 9, channels, 1, 3, 3), newParameter(t, c, keep, r, 9, channels)
		wl, bl := newParameter(t, c, keep, r, features, 10, features), newParameter(t, c, keep, r, features, 10)
		adam := DefaultAdam()
		adam.LearningRate = 0.02
		forward := func(x *Tensor) (pre, act, pooled, flat, scores *Tensor) {
			pre = must[*Tensor](t)(c.Conv2D(x, wc.w, bc.w, conv))
			act = must[*Tensor](t)(c.Relu(pre))
			pooled, at, err := c.MaxPool2D(act, [2]int{2, 2}, [2]int{2, 2})
			if err != nil {
				t.Fatal(err)
			}
			at.Release()
			flat = must[*Tensor](t)(c.Reshape(pooled, x.Dim(0), features))
			return pre, act, pooled, flat, must[*Tensor](t)(c.Linear(flat, wl.w, bl.w, None))
		}
		for s := 1; s <= 60; s++ {
			img, label := digits(r, batch)
			x, y := must[*Tensor](t)(c.FromFloat32s(img, batch, 1, 8, 8)), must[*Tensor](t)(c.FromInt32s(label, batch))
			pre, act, pooled, flat, scores := forward(x)
			loss, gs, err := c.SoftmaxCrossEntropy(scores, y)
			if err != nil {
				t.Fatal(err)
			}
			gf := must[*Tensor](t)(c.LinearBackward(gs, scores, flat, wl.w, wl.g, bl.g, None))
			gp := must[*Tensor](t)(c.Reshape(gf, pooled.Shape()...))
			ga := must[*Tensor](t)(c.MaxPool2DBackward(gp, act, [2]int{2, 2}, [2]int{2, 2}))
			gr := must[*Tensor](t)(c.ActivationBackward(Relu, ga, pre))
			gx, gw, gb, err := c.Conv2DBackward(gr, x, wc.w, conv)
			if err != nil {
				t.Fatal(err)
			}
			if err := wc.g.AddInPlace(gw); err != nil {
				t.Fatal(err)
			}
			if err := bc.g.AddInPlace(gb); err != nil {
				t.Fatal(err)
			}
			for _, q := range []*parameter{wc, bc, wl, bl} {
				q.step(t, c, adam, s)
			}
			release([]*Tensor{x, y, pre, act, pooled, flat, scores, loss, gs, gf, gp, ga, gr, gx, gw, gb})
		}
		img, label := digits(rand.New(rand.NewPCG(9, 9)), 100)
		x, y := keep(c.FromFloat32s(img, 100, 1, 8, 8)), keep(c.FromInt32s(label, 100))
		pre, act, pooled, flat, scores := forward(x)
		cm := keep(c.Zeros(F32, 10, 10))
		if err := c.UpdateConfusionMatrix(scores, y, cm); err != nil {
			t.Fatal(err)
		}
		release([]*Tensor{pre, act, pooled, flat, scores})
		counts := must[[]float32](t)(cm.Float32s())
		var right, all float32
		for i, n := range counts {
			all += n
			if i/10 == i%10 {
				right += n
			}
		}
		if all != 100 || right < 90 {
			t.Errorf("%v of %v digits right, want 90 of 100; matrix %v", right, all, counts)
		}
	})
}
