// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// TestLanes: pairs go side by side where they are small, as many as threads, and there is
// memory for all of them, which the estimate counts; else one after the other.
func TestLanes(t *testing.T) {
	ctx := context.Background()
	e, err := Open(Config{Backend: "cpu", Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Load(ctx, "../python/mast3r_runtime/models/mast3r_tiny"); err != nil {
		t.Fatal(err)
	}
	l := e.loaded
	image := func(h, w int) Image { return Image{Pix: make([]byte, h*w*3), Height: h, Width: w} }
	small, large := [2]Image{image(32, 48), image(32, 48)}, [2]Image{image(32, 48), image(256, 208)}
	for name, c := range map[string]struct {
		pairs [][2]Image
		want  int
	}{
		"small":    {[][2]Image{small, small, small, small}, 3},
		"few":      {[][2]Image{small, small}, 0},
		"large":    {[][2]Image{small, small, large}, 0},
		"large at": {[][2]Image{small, small, small, large}, 3},
	} {
		j := e.newJob(ctx, l, 0)
		if n := j.divided(c.pairs, InferOptions{Raw: true}); n != c.want {
			t.Errorf("%s: %d pairs side by side, want %d", name, n, c.want)
		}
		j.close()
	}

	for _, c := range []struct{ pairs, threads, want int }{
		{1, 1, 0}, {5, 1, 0}, {1, 2, 0}, {2, 2, 2}, {3, 4, 0}, {5, 8, 0}, {6, 8, 6}, {7, 8, 7}, {9, 8, 8}, {11, 16, 0}, {12, 16, 12}, {31, 16, 16},
	} {
		if n := lanes(c.pairs, c.threads, smallPixels); n != c.want {
			t.Errorf("%d pairs on %d threads: %d side by side, want %d", c.pairs, c.threads, n, c.want)
		}
	}
	if n := lanes(9, 3, 1, smallPixels+1); n != 0 {
		t.Errorf("a larger picture: %d side by side", n)
	}

	count := e.dev.(backend.Planner).Footprint
	one := call{h1: 32, w1: 48, h2: 32, w2: 48, pictures: 2, want: wanted(0)}
	three := one
	three.lanes = 3
	a, err1 := one.memory(ctx, count, l.model, l.programs.opt)
	b, err2 := three.memory(ctx, count, l.model, l.programs.opt)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if b.Weights != a.Weights || b.Activations != 3*a.Activations || b.Buffers != 3*a.Buffers || b.Results != 3*a.Results {
		t.Errorf("three side by side need %+v, one %+v", b, a)
	}
}
