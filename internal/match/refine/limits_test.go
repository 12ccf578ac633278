// SPDX-License-Identifier: Apache-2.0

package refine

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/refine/kernel"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// TestPatchesNearTheEdge: a patch is compared where its middle lies at least three pixels
// inside the picture, on each of the four sides.
func TestPatchesNearTheEdge(t *testing.T) {
	p := newPair(96, 1, 0, 1, 1, 3)
	pool := par.New(1)
	defer pool.Close()
	levels := build(pool, kernel.Best(), p.one, 1)
	for _, c := range []struct {
		x, y float64
		ok   bool
	}{
		{3, 3, true}, {92, 92, true}, {50, 3, true}, {50, 92, true}, {3, 50, true}, {92, 50, true},
		{2.99, 50, false}, {92.01, 50, false}, {50, 2.99, false}, {50, 92.01, false},
		{-1, 50, false}, {96, 50, false}, {50, -0.5, false}, {50, 96, false},
		{math.NaN(), 50, false}, {50, math.NaN(), false}, {50, math.Inf(1), false},
	} {
		var scratch tracker
		at := place{levels, 0, c.x, c.y, linear{1, 0, 0, 1}}
		if ok := scratch.cut(at, &scratch.win1, side, 0); ok != c.ok {
			t.Errorf("a patch at (%g, %g) of 96 x 96: compared %v, want %v", c.x, c.y, ok, c.ok)
		}
	}
}

// TestWindows: a window is read anew when it lacks something of the place, its level or its
// picture, and only then; what it has is what one read on its own has.
func TestWindows(t *testing.T) {
	p := newPair(400, 1, 0, 1, 1, 3)
	pool := par.New(1)
	defer pool.Close()
	one, two := build(pool, kernel.Best(), p.one, 1), build(pool, kernel.Best(), p.two, 1)
	unit := linear{1, 0, 0, 1}
	for name, c := range map[string]struct {
		then place
		anew bool
	}{
		"the same":        {place{one, 0, 100, 100, unit}, false},
		"a pixel on":      {place{one, 0, 101, 99, unit}, false},
		"two pixels on":   {place{one, 0, 102, 100, unit}, true},
		"two pixels back": {place{one, 0, 98, 100, unit}, true},
		"two pixels up":   {place{one, 0, 100, 98, unit}, true},
		"two pixels down": {place{one, 0, 100, 102, unit}, true},
		"larger":          {place{one, 0, 100, 100, unit.scaled(1.5)}, true},
		"coarser":         {place{one, 1, 200.5, 200.5, unit.scaled(2)}, true},
		"another picture": {place{two, 0, 100, 100, unit}, true},
	} {
		var scratch tracker
		w, fresh := &window{}, &window{}
		if !scratch.cut(place{one, 0, 100, 100, unit}, w, rim, maxMove) {
			t.Fatal("no window")
		}
		before := *w
		if !scratch.cut(c.then, w, rim, maxMove) || !scratch.cut(c.then, fresh, rim, maxMove) {
			t.Fatal(name, ": no window")
		}
		same := w.of == before.of && w.level == before.level && w.left == before.left && w.top == before.top && w.width == before.width
		if same == c.anew {
			t.Errorf("%s: read anew %v, want %v", name, !same, c.anew)
		}
		k, a, b := kernel.Best(), make([]float32, kernel.RimSamples), make([]float32, kernel.RimSamples)
		if !k.Read(a, w.pix, w.width, w.height, c.then.grid(w, rim)) || !k.Read(b, fresh.pix, fresh.width, fresh.height, c.then.grid(fresh, rim)) {
			t.Errorf("%s: a window that does not hold its patch", name)
		}
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-3 {
				t.Errorf("%s: sample %d is %v, in a window of its own %v", name, i, a[i], b[i])
				break
			}
		}
	}
}

// TestReachAndSigma: each is above 0 and below 10,000, whatever the other is.
func TestReachAndSigma(t *testing.T) {
	p := newPair(96, 1, 0, 1, 1, 3)
	pool := par.New(1)
	defer pool.Close()
	for _, c := range []struct {
		reach, sigma float64
		ok           bool
	}{
		{1, 0, true}, {1, 1, true}, {9999, 9999, true},
		{0, 1, false}, {-1, 1, false}, {1e4, 1, false}, {math.NaN(), 1, false}, {math.Inf(1), 1, false},
		{1, -1, false}, {1, 1e4, false}, {1, math.NaN(), false}, {0, 0, false},
	} {
		_, err := Refine(context.Background(), pool, p.one, p.two, nil, nil, Options{Reach: c.reach, Sigma: c.sigma})
		if (err == nil) != c.ok {
			t.Errorf("reach %g, sigma %g: %v", c.reach, c.sigma, err)
		}
	}
}

// TestMatchesThatDoNotComeBack: on soft, noisy pictures a match that begins eight pixels from its place
// correlates well wherever it stops. Many of the wrong ones are found out by looking back from
// there: the way back ends elsewhere. (Measured: 373 held, 535 without the look back.)
func TestMatchesThatDoNotComeBack(t *testing.T) {
	held, began := 0, 0
	for seed := range uint64(4) {
		s := newScene(seed + 30)
		s.wave = s.wave[:16]
		for i := range s.wave {
			s.wave[i][0], s.wave[i][1] = s.wave[i][0]/3.8, s.wave[i][1]/3.8
		}
		p := pair{
			s.shot(240, 240, func(x, y float64) (float64, float64) { return x, y }, 1, 0, 4, 1),
			s.shot(240, 240, func(x, y float64) (float64, float64) { return x - 5, y + 4 }, 0.9, 0, 4, 2),
			func(x, y float64) (float64, float64) { return x + 5, y - 4 },
		}
		xy1, xy2, truth := p.matches(10, 0.5, seed)
		r := rand.New(rand.NewPCG(seed, 1))
		for i := 0; i < len(xy2); i += 2 {
			if r.Float64() < 0.8 {
				a := 2 * math.Pi * r.Float64()
				xy2[i], xy2[i+1] = truth[i]+8*math.Cos(a), truth[i+1]+8*math.Sin(a)
				began++
			}
		}
		got := refined(t, 2, p, xy1, xy2, 6)
		for i, ok := range got.Refined {
			if ok && math.Hypot(got.XY2[2*i]-truth[2*i], got.XY2[2*i+1]-truth[2*i+1]) > 1 {
				held++
			}
		}
	}
	t.Logf("%d of %d matches that began far from their place hold at a wrong one", held, began)
	if held > 450 {
		t.Errorf("%d of %d matches hold at a wrong place, want at most 450", held, began)
	}
}
