// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// contexts are the devices that every test runs on.
func contexts(t *testing.T, f func(t *testing.T, c *Context)) {
	for _, name := range []string{"cpu", "metal"} {
		t.Run(name, func(t *testing.T) {
			if name == "metal" {
				metalsim.Open(t)
			}
			c, err := Open(Config{Backend: name})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			f(t, c)
		})
	}
}

// keeper is must for tensors, which it releases at the end of the test.
func keeper(t *testing.T) func(x *Tensor, err error) *Tensor {
	var kept []*Tensor
	t.Cleanup(func() { release(kept) })
	return func(x *Tensor, err error) *Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, x)
		return x
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestXOR trains a network of two layers until it knows the exclusive or.
func TestXOR(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		tt := keeper(t)
		x := tt(c.FromFloat32s([]float32{0, 0, 0, 1, 1, 0, 1, 1}, 4, 2))
		y := tt(c.FromFloat32s([]float32{0, 1, 1, 0}, 4, 1))
		param := func(scale float32, shape ...int) [4]*Tensor {
			v := make([]float32, shape[0]*shape[1])
			for i := range v {
				v[i] = scale * float32(math.Sin(float64(i)*1.7+float64(shape[0])))
			}
			return [4]*Tensor{tt(c.FromFloat32s(v, shape...)), tt(c.Zeros(F32, shape...)), tt(c.Zeros(F32, shape...)), nil}
		}
		w1, w2 := param(1, 8, 2), param(1, 1, 8)
		b1 := [4]*Tensor{tt(c.Zeros(F32, 8)), tt(c.Zeros(F32, 8)), tt(c.Zeros(F32, 8)), nil}
		b2 := [4]*Tensor{tt(c.Zeros(F32, 1)), tt(c.Zeros(F32, 1)), tt(c.Zeros(F32, 1)), nil}
		adam := DefaultAdam()
		adam.LearningRate = 0.05
		base := c.Stats().LiveTensors
		for step := 1; step <= 300; step++ {
			h := tt(c.Linear(x, w1[0], b1[0], Tanh))
			p := tt(c.Linear(h, w2[0], b2[0], Sigmoid))
			gp := tt(c.MSEGrad(p, y, 0.5))
			var g [4]*Tensor
			for i, like := range []*Tensor{w1[0], b1[0], w2[0], b2[0]} {
				g[i] = tt(c.Zeros(F32, like.Shape()...))
			}
			gh := tt(c.LinearBackward(gp, p, h, w2[0], g[2], g[3], Sigmoid))
			gx := tt(c.LinearBackward(gh, h, x, w1[0], g[0], g[1], Tanh))
			for i, q := range [][4]*Tensor{w1, b1, w2, b2} {
				if err := c.AdamStep(q[0], g[i], q[1], q[2], adam, step); err != nil {
					t.Fatal(err)
				}
			}
			release([]*Tensor{h, p, gp, gh, gx, g[0], g[1], g[2], g[3]})
		}
		if live := c.Stats().LiveTensors; live != base {
			t.Errorf("%d live tensors after the loop, want %d", live, base)
		}
		h := tt(c.Linear(x, w1[0], b1[0], Tanh))
		p := must[[]float32](t)(tt(c.Linear(h, w2[0], b2[0], Sigmoid)).Float32s())
		for i, want := range []float32{0, 1, 1, 0} {
			if math.Abs(float64(p[i]-want)) > 0.1 {
				t.Errorf("input %d: %v, want %v", i, p[i], want)
			}
		}
		s := c.Stats()
		if s.CacheMisses > 20 || s.CacheHits < 2000 {
			t.Errorf("cache: %d hits, %d misses", s.CacheHits, s.CacheMisses)
		}
	})
}

func TestReleased(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		tt := keeper(t)
		x := tt(c.FromFloat32s([]float32{1, 2}, 2))
		y := tt(c.Exp(x)) // in work that is not handed over yet
		x.Release()
		x.Release()
		if _, err := c.Exp(x); !errors.Is(err, ErrReleased) {
			t.Errorf("an operation on a released tensor: %v", err)
		}
		v := must[[]float32](t)(y.Float32s())
		if math.Abs(float64(v[1])-math.Exp(2)) > 1e-5 {
			t.Errorf("exp(2) = %v", v[1])
		}
	})
}

// TestErrorsHaveDetails: the kind for errors.Is, the rest for errors.As.
func TestErrorsHaveDetails(t *testing.T) {
	c, err := Open(Config{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keep := keeper(t)
	x, y := keep(c.Zeros(F32, 2, 3)), keep(c.Zeros(F32, 4, 5))
	_, err = c.MatMul(x, y)
	var e *Error
	if !errors.Is(err, ErrShape) || !errors.As(err, &e) || e.Kind != ErrShape || !strings.Contains(e.Detail.Error(), "[4,5]") {
		t.Errorf("matmul of shapes that do not fit: %v", err)
	}
	if _, err := Open(Config{Backend: "abacus"}); !errors.Is(err, ErrOption) {
		t.Errorf("backend abacus: %v", err)
	}
}
