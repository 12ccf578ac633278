// SPDX-License-Identifier: Apache-2.0

package tensor_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// glyphs are the digits 0..4 on 5 x 5 pixels.
var glyphs = [][5]string{
	{".###.", "#...#", "#...#", "#...#", ".###."},
	{"..#..", ".##..", "..#..", "..#..", ".###."},
	{"####.", "....#", ".###.", "#....", "#####"},
	{"####.", "....#", "..##.", "....#", "####."},
	{"#..#.", "#..#.", "#####", "...#.", "...#."},
}

// draw makes n pictures of 8 x 8 pixels with a digit somewhere, and noise.
func draw(r *rand.Rand, n int) (pixels []float32, labels []int32) {
	for i := range n {
		picture, at := make([]float32, 64), r.IntN(3)*8+r.IntN(3)
		for y, row := range glyphs[i%5] {
			for x := range row {
				if row[x] == '#' {
					picture[at+y*8+x] = 1
				}
			}
		}
		for p := range picture {
			picture[p] += 0.15 * float32(r.NormFloat64())
		}
		pixels, labels = append(pixels, picture...), append(labels, int32(i%5))
	}
	return pixels, labels
}

// classifier is a convolution, ReLU, pooling, and a layer with a score a digit.
type classifier struct {
	c              *tensor.Context
	wc, bc, wl, bl weight
}

const channels, features, classes = 6, 6 * 4 * 4, 5

var conv = tensor.ConvOptions{Pad: 1}

// forward keeps what the gradients need.
func (m *classifier) forward(x *tensor.Tensor) (maps, act, pooled, flat, scores *tensor.Tensor) {
	maps = try(m.c.Conv2D(x, m.wc.w, m.bc.w, conv))
	act = try(m.c.Relu(maps))
	pooled, at, err := m.c.MaxPool2D(act, [2]int{2, 2}, [2]int{2, 2})
	check(err)
	at.Release()
	flat = try(m.c.Reshape(pooled, -1, features))
	return maps, act, pooled, flat, try(m.c.Linear(flat, m.wl.w, m.bl.w, tensor.None))
}

func (m *classifier) train(x, labels *tensor.Tensor, adam tensor.Adam, step int) {
	c := m.c
	maps, act, pooled, flat, scores := m.forward(x)
	loss, g, err := c.SoftmaxCrossEntropy(scores, labels)
	check(err)
	gf := try(c.LinearBackward(g, scores, flat, m.wl.w, m.wl.g, m.bl.g, tensor.None))
	gp := try(c.Reshape(gf, pooled.Shape()...))
	ga := try(c.MaxPool2DBackward(gp, act, [2]int{2, 2}, [2]int{2, 2}))
	gm := try(c.ActivationBackward(tensor.Relu, ga, maps))
	gx, gw, gb, err := c.Conv2DBackward(gm, x, m.wc.w, conv)
	check(err)
	check(m.wc.g.AddInPlace(gw))
	check(m.bc.g.AddInPlace(gb))
	for _, p := range []weight{m.wc, m.bc, m.wl, m.bl} {
		p.step(c, adam, step)
	}
	for _, t := range []*tensor.Tensor{maps, act, pooled, flat, scores, loss, g, gf, gp, ga, gm, gx, gw, gb} {
		t.Release()
	}
}

// A small convolutional classifier of generated digits, and its confusion
// matrix: a row for each digit, a column for what it was taken for.
func Example_digits() {
	c, err := tensor.Open(tensor.Config{Backend: "cpu"})
	check(err)
	defer c.Close()
	r := rand.New(rand.NewPCG(5, 6))
	m := &classifier{c,
		newWeight(c, uniform(r, channels*9, math.Sqrt(3.0/9)), channels, 1, 3, 3), newWeight(c, make([]float32, channels), channels),
		newWeight(c, uniform(r, classes*features, math.Sqrt(3.0/features)), classes, features), newWeight(c, make([]float32, classes), classes),
	}
	adam := tensor.DefaultAdam()
	adam.LearningRate = 0.01
	for step := 1; step <= 80; step++ {
		pixels, labels := draw(r, 40)
		x := try(c.FromFloat32s(pixels, 40, 1, 8, 8))
		y := try(c.FromInt32s(labels, 40))
		m.train(x, y, adam, step)
		x.Release()
		y.Release()
	}

	pixels, labels := draw(rand.New(rand.NewPCG(9, 9)), 100)
	_, _, _, _, scores := m.forward(try(c.FromFloat32s(pixels, 100, 1, 8, 8)))
	cm := try(c.Zeros(tensor.F32, classes, classes))
	check(c.UpdateConfusionMatrix(scores, try(c.FromInt32s(labels, 100)), cm))
	counts, err := cm.Float32s()
	check(err)
	right := 0
	for d := range classes {
		right += int(counts[d*classes+d])
	}
	fmt.Println("at least 95 of 100 right:", right >= 95)
	// Output:
	// at least 95 of 100 right: true
}
