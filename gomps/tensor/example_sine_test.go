// SPDX-License-Identifier: Apache-2.0

package tensor_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// uniform draws n numbers from -limit to limit.
func uniform(r *rand.Rand, n int, limit float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32((2*r.Float64() - 1) * limit)
	}
	return v
}

// A sine, fitted by a network of 24 hidden units.
func Example_sine() {
	c, err := tensor.Open(tensor.Config{Backend: "cpu"})
	check(err)
	defer c.Close()
	const points, units = 64, 24
	xs, ys := make([]float32, points), make([]float32, points)
	for i := range xs {
		v := math.Pi * (2*float64(i)/(points-1) - 1)
		xs[i], ys[i] = float32(v), float32(math.Sin(v))
	}
	x, y := try(c.FromFloat32s(xs, points, 1)), try(c.FromFloat32s(ys, points, 1))
	r := rand.New(rand.NewPCG(1, 2))
	w1, b1 := newWeight(c, uniform(r, units, 1.7), units, 1), newWeight(c, uniform(r, units, 1.7), units)
	w2, b2 := newWeight(c, uniform(r, units, 0.35), 1, units), newWeight(c, make([]float32, 1), 1)

	adam := tensor.DefaultAdam()
	adam.LearningRate = 0.02
	for step := 1; step <= 500; step++ {
		h := try(c.Linear(x, w1.w, b1.w, tensor.Tanh))
		p := try(c.Linear(h, w2.w, b2.w, tensor.None))
		g := try(c.MSEGrad(p, y, 2.0/points))
		gh := try(c.LinearBackward(g, p, h, w2.w, w2.g, b2.g, tensor.None))
		gx := try(c.LinearBackward(gh, h, x, w1.w, w1.g, b1.g, tensor.Tanh))
		for _, q := range []weight{w1, b1, w2, b2} {
			q.step(c, adam, step)
		}
		for _, t := range []*tensor.Tensor{h, p, g, gh, gx} {
			t.Release()
		}
	}
	h := try(c.Linear(x, w1.w, b1.w, tensor.Tanh))
	got, err := try(c.Linear(h, w2.w, b2.w, tensor.None)).Float32s()
	check(err)
	worst := 0.0
	for i, v := range got {
		worst = max(worst, math.Abs(float64(v-ys[i])))
	}
	fmt.Println("off by less than a tenth everywhere:", worst < 0.1)
	// Output:
	// off by less than a tenth everywhere: true
}
