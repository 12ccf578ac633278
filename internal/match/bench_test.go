// SPDX-License-Identifier: Apache-2.0

//go:build unix

package match

import (
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// scene makes a pair of full-size unit descriptor maps that vary smoothly over
// cell pixels, the second shifted and with noise of its own; cell 0 is pure
// noise. Real descriptors lie between the two.
func scene(cell int, noise float64, shift int) (a, b Map) {
	const h, w, dim = 384, 512, 24
	r := rand.New(rand.NewPCG(7, 7))
	step := max(1, cell)
	gh, gw := h/step+3, (w+shift)/step+3
	g := make([]float64, gh*gw*dim)
	for i := range g {
		g[i] = r.NormFloat64()
	}
	view := func(shift int) Map {
		d := Map{make([]float32, h*w*dim), h, w, dim}
		for i := range h * w {
			fx, fy := float64(i%w+shift)/float64(step), float64(i/w)/float64(step)
			x, y := int(fx), int(fy)
			u, v := fx-float64(x), fy-float64(y)
			var sum float64
			row := d.Data[i*dim : (i+1)*dim]
			for k := range row {
				at := func(dy, dx int) float64 { return g[((y+dy)*gw+x+dx)*dim+k] }
				c := (1-v)*((1-u)*at(0, 0)+u*at(0, 1)) + v*((1-u)*at(1, 0)+u*at(1, 1))
				if cell == 0 {
					c = 0
				}
				c += noise * r.NormFloat64()
				row[k] = float32(c)
				sum += c * c
			}
			s := float32(1 / math.Sqrt(sum))
			for k := range row {
				row[k] *= s
			}
		}
		return d
	}
	return view(0), view(shift)
}

// scenes of the benchmarks.
var scenes = []struct {
	name        string
	cell, shift int
	noise       float64
}{{"random", 0, 0, 1}, {"smooth4", 4, 3, 0.1}, {"smooth16", 16, 7, 0.05}, {"flat", 200, 7, 0.01}}

func benchMatchers(b *testing.B, f func(b *testing.B, m *Matcher)) {
	for _, k := range kernel.All() {
		if k.ISA == isa.Portable {
			continue // minutes
		}
		pool := par.New(0)
		b.Run(k.ISA.String(), func(b *testing.B) { f(b, newWith(pool, k)) })
		pool.Close()
	}
}

// coreSeconds is the processor time of the process so far: on a shared machine
// it says more than the clock on the wall.
func coreSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// measure loops over f after one call to warm the scratch.
func measure(b *testing.B, f func() error) {
	if err := f(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	start := coreSeconds()
	for b.Loop() {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((coreSeconds()-start)/float64(b.N), "core-s/op")
}

// benchNearest runs the exact search over both directions of 512x384 maps.
func benchNearest(b *testing.B, m *Matcher, x, y Map) {
	nnA, nnB := make([]int32, x.Pixels()), make([]int32, y.Pixels())
	measure(b, func() error { return m.Nearest(x, y, nnA, nnB) })
}

// BenchmarkNearest is the float pass. 1.86 TFLOP: two operations for each of
// 24 components of 196608^2 pairs, which are visited once.
func BenchmarkNearest(b *testing.B) {
	x, y := scene(4, 0.1, 3)
	benchMatchers(b, func(b *testing.B, m *Matcher) {
		m.prefilter = prefilterOff
		benchNearest(b, m, x, y)
	})
}

// BenchmarkPrefilter is the same search as Match would run it.
func BenchmarkPrefilter(b *testing.B) {
	m := int8Matcher(b, 0)
	m.prefilter = prefilterAuto
	for _, s := range scenes {
		x, y := scene(s.cell, s.noise, s.shift)
		b.Run(s.name, func(b *testing.B) { benchNearest(b, m, x, y) })
	}
}

// BenchmarkFast is Match with Subsample 8, packing included.
func BenchmarkFast(b *testing.B) {
	for _, s := range scenes {
		x, y := scene(s.cell, s.noise, s.shift)
		b.Run(s.name, func(b *testing.B) {
			benchMatchers(b, func(b *testing.B, m *Matcher) {
				measure(b, func() error {
					_, err := m.Match(View{Desc: x}, View{Desc: y}, Options{Subsample: 8, TopK: 512, Reciprocal: true})
					return err
				})
			})
		})
	}
}
