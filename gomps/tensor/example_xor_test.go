// SPDX-License-Identifier: Apache-2.0

package tensor_test

import (
	"fmt"
	"log"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// weight is a parameter with what Adam remembers of it, and its gradient.
type weight struct{ w, m, v, g *tensor.Tensor }

func newWeight(c *tensor.Context, values []float32, shape ...int) weight {
	zeros := func() *tensor.Tensor { return try(c.Zeros(tensor.F32, shape...)) }
	return weight{try(c.FromFloat32s(values, shape...)), zeros(), zeros(), zeros()}
}

func (p weight) step(c *tensor.Context, a tensor.Adam, n int) {
	check(c.AdamStep(p.w, p.g, p.m, p.v, a, n))
	check(p.g.Zero())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func try(t *tensor.Tensor, err error) *tensor.Tensor {
	check(err)
	return t
}

// The exclusive or, learned by a network of two layers.
func Example_xor() {
	c, err := tensor.Open(tensor.Config{Backend: "cpu"}) // "auto" takes the GPU of a Mac
	check(err)
	defer c.Close()
	x := try(c.FromFloat32s([]float32{0, 0, 0, 1, 1, 0, 1, 1}, 4, 2))
	y := try(c.FromFloat32s([]float32{0, 1, 1, 0}, 4, 1))
	w1 := newWeight(c, []float32{0.9, -0.6, -0.7, 0.8, 0.5, 0.6, -0.4, -0.9}, 4, 2)
	b1 := newWeight(c, make([]float32, 4), 4)
	w2 := newWeight(c, []float32{0.7, 0.5, -0.8, 0.3}, 1, 4)
	b2 := newWeight(c, make([]float32, 1), 1)

	adam := tensor.DefaultAdam()
	adam.LearningRate = 0.05
	for step := 1; step <= 400; step++ {
		hidden := try(c.Linear(x, w1.w, b1.w, tensor.Tanh))
		out := try(c.Linear(hidden, w2.w, b2.w, tensor.Sigmoid))

		// Gradients are explicit calls, from the last layer to the first; those of
		// weights add up in place.
		g := try(c.MSEGrad(out, y, 0.5))
		gh := try(c.LinearBackward(g, out, hidden, w2.w, w2.g, b2.g, tensor.Sigmoid))
		gx := try(c.LinearBackward(gh, hidden, x, w1.w, w1.g, b1.g, tensor.Tanh))
		for _, p := range []weight{w1, b1, w2, b2} {
			p.step(c, adam, step)
		}
		for _, t := range []*tensor.Tensor{hidden, out, g, gh, gx} {
			t.Release()
		}
	}
	hidden := try(c.Linear(x, w1.w, b1.w, tensor.Tanh))
	out, err := try(c.Linear(hidden, w2.w, b2.w, tensor.Sigmoid)).Float32s()
	check(err)
	for i, p := range out {
		fmt.Printf("%d xor %d is %.0f\n", i/2, i%2, p)
	}
	// Output:
	// 0 xor 0 is 0
	// 0 xor 1 is 1
	// 1 xor 0 is 1
	// 1 xor 1 is 0
}
