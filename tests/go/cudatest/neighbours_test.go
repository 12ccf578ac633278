// SPDX-License-Identifier: Apache-2.0

package cudatest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// descriptors are unit vectors, most of them copies of a few: many ties. Some hold
// numbers that cannot be used.
func descriptors(r *rand.Rand, n, dim, kinds int) []float32 {
	out := make([]float32, n*dim)
	for i := range n {
		row := out[i*dim : (i+1)*dim]
		if i >= kinds {
			copy(row, out[r.IntN(kinds)*dim:][:dim])
		} else {
			sum := 0.0
			for k := range row {
				v := r.NormFloat64()
				row[k], sum = float32(v), sum+v*v
			}
			for k := range row {
				row[k] *= float32(1 / math.Sqrt(sum))
			}
		}
	}
	for i := 3; i < n; i += 97 {
		out[i*dim+i%dim] = []float32{float32(math.NaN()), float32(math.Inf(-1)), 0x1p60}[i%3]
	}
	return out
}

// TestNeighbours: the device's nearest neighbours are the CPU's, ties and masks
// included, and so are the scores to the last bit.
func TestNeighbours(t *testing.T) {
	b := gpu(t)
	pool := par.New(0)
	defer pool.Close()
	m := match.New(pool)
	r := rand.New(rand.NewPCG(9, 9))
	for _, c := range []struct{ h1, w1, h2, w2, dim, kinds int }{
		{96, 128, 64, 96, 24, 1 << 30}, {37, 41, 53, 29, 24, 60}, {64, 64, 64, 64, 16, 9}, {1, 1, 30, 30, 24, 1 << 30}, {40, 40, 40, 40, 30, 1},
	} {
		one := backend.Descriptors{N: c.h1 * c.w1, Dim: c.dim, Data: descriptors(r, c.h1*c.w1, c.dim, c.kinds)}
		two := backend.Descriptors{N: c.h2 * c.w2, Dim: c.dim, Data: descriptors(r, c.h2*c.w2, c.dim, c.kinds)}
		one.Keep = make([]uint8, one.N)
		for i := range one.Keep {
			one.Keep[i] = uint8(i%7) | uint8(b2i(one.N == 1))
		}
		got, err := b.Nearest(context.Background(), one, two)
		if errors.Is(err, backend.ErrUnsupported) {
			t.Skipf("%v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		want := [2][]int32{make([]int32, one.N), make([]int32, two.N)}
		masked := append([]float32(nil), one.Data...)
		for i, k := range one.Keep {
			if k == 0 {
				masked[i*c.dim] = float32(math.NaN())
			}
		}
		if err := m.Nearest(match.Map{Data: masked, Height: c.h1, Width: c.w1, Dim: c.dim}, match.Map{Data: two.Data, Height: c.h2, Width: c.w2, Dim: c.dim}, want[0], want[1]); err != nil {
			t.Fatal(err)
		}
		wrong, unequal := 0, 0
		for side, d := range []backend.Descriptors{one, two} {
			o := []backend.Descriptors{two, one}[side]
			for i, j := range want[side] {
				n := got[side]
				if (n.Used[i] != 0) != (j >= 0) || j >= 0 && n.To[i] != j {
					wrong++
				} else if j >= 0 && n.Score[i] != kernel.Dot(d.Data[i*c.dim:][:c.dim], o.Data[int(j)*c.dim:][:c.dim]) {
					unequal++
				}
			}
		}
		if wrong > 0 || unequal > 0 {
			t.Errorf("%+v: %d neighbours and %d scores differ", c, wrong, unequal)
		}
	}
	long := backend.Descriptors{N: 1, Dim: 2, Data: []float32{100, 0}}
	if _, err := b.Nearest(context.Background(), long, long); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("descriptors of length 100: %v, want ErrUnsupported", err)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
