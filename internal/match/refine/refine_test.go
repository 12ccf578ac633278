// SPDX-License-Identifier: Apache-2.0

package refine

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// scene is a smooth random brightness over the plane, known everywhere.
type scene struct{ wave [][5]float64 }

func newScene(seed uint64) scene {
	r := rand.New(rand.NewPCG(seed, 1))
	var s scene
	for range 40 {
		length := 6 * math.Exp(2.2*r.Float64()) // pixels
		turn := 2 * math.Pi * r.Float64()
		k := 2 * math.Pi / length
		s.wave = append(s.wave, [5]float64{k * math.Cos(turn), k * math.Sin(turn), 2 * math.Pi * r.Float64(), length, 0})
	}
	return s
}

func (s scene) at(x, y float64) float64 {
	v := 0.0
	for _, w := range s.wave {
		v += math.Sqrt(w[3]) * math.Sin(w[0]*x+w[1]*y+w[2])
	}
	return v
}

// shot renders the scene where to takes the picture's pixels, with a gain, an
// offset and noise.
func (s scene) shot(width, height int, to func(x, y float64) (float64, float64), gain, offset, noise float64, seed uint64) Picture {
	r := rand.New(rand.NewPCG(seed, 2))
	p := Picture{make([]byte, 3*width*height), width, height, 3 * width}
	for y := range height {
		for x := range width {
			u, v := to(float64(x), float64(y))
			g := 128 + offset + gain*1.5*s.at(u, v) + noise*r.NormFloat64()
			for c := range 3 {
				p.Pix[3*(y*width+x)+c] = byte(math.Round(max(0, min(255, g))))
			}
		}
	}
	return p
}

// pair is two pictures of one scene: pixel p of picture 1 shows the scene at p,
// and lies at h(p) in picture 2.
type pair struct {
	one, two Picture
	h        func(x, y float64) (float64, float64)
}

func newPair(size int, zoom, turn, tilt, noise float64, seed uint64) pair {
	s := newScene(seed)
	c := float64(size) / 2
	a := linear{zoom * math.Cos(turn), -zoom * math.Sin(turn), zoom * tilt * math.Sin(turn), zoom * tilt * math.Cos(turn)}
	back := a.inverse()
	return pair{
		s.shot(size, size, func(x, y float64) (float64, float64) { return x, y }, 1, 0, noise, seed),
		s.shot(size, size, func(x, y float64) (float64, float64) {
			u, v := back.at(x-c-3.3, y-c+1.7)
			return u + c, v + c
		}, 0.8, -9, noise, seed+100),
		func(x, y float64) (float64, float64) {
			u, v := a.at(x-c, y-c)
			return u + c + 3.3, v + c - 1.7
		},
	}
}

// matches are a grid of true places, each coordinate of picture 2 off by a
// uniform error.
func (p pair) matches(step int, off float64, seed uint64) (xy1, xy2, truth []float64) {
	r := rand.New(rand.NewPCG(seed, 3))
	for y := step / 2; y < p.one.Height; y += step {
		for x := step / 2; x < p.one.Width; x += step {
			u, v := p.h(float64(x)+0.3, float64(y)-0.2)
			if u < 10 || v < 10 || u > float64(p.two.Width-11) || v > float64(p.two.Height-11) {
				continue
			}
			xy1 = append(xy1, float64(x)+0.3, float64(y)-0.2)
			truth = append(truth, u, v)
			xy2 = append(xy2, u+off*(2*r.Float64()-1), v+off*(2*r.Float64()-1))
		}
	}
	return xy1, xy2, truth
}

func refined(t *testing.T, threads int, p pair, xy1, xy2 []float64, reach float64) *Result {
	t.Helper()
	pool := par.New(threads)
	defer pool.Close()
	r, err := Refine(context.Background(), pool, p.one, p.two, xy1, xy2, Options{Reach: reach})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// errorsOf are the distances from the truth of the matches that were refined.
func errorsOf(r *Result, truth []float64) (e []float64) {
	for i, ok := range r.Refined {
		if ok {
			e = append(e, math.Hypot(r.XY2[2*i]-truth[2*i], r.XY2[2*i+1]-truth[2*i+1]))
		}
	}
	slices.Sort(e)
	return e
}

func TestRefineFindsTheTruth(t *testing.T) {
	for name, c := range map[string]struct {
		zoom, turn, tilt, noise, off, reach float64
		share, median                       float64
	}{
		"shift":             {1, 0, 1, 0, 0.8, 2.5, 0.95, 0.02},
		"turned and tilted": {1.05, 0.3, 0.8, 2, 0.8, 2.5, 0.9, 0.06},
		"noisy":             {1, 0.1, 1, 12, 0.8, 2.5, 0.8, 0.3},
		"larger in 2":       {1.9, 0.2, 1, 2, 1.5, 5, 0.85, 0.1},
		"smaller in 2":      {0.52, 0.2, 1, 2, 0.5, 1.5, 0.8, 0.045},
		"far off":           {1, 0.1, 1, 2, 4, 13, 0.8, 0.05},
	} {
		p := newPair(240, c.zoom, c.turn, c.tilt, c.noise, 5)
		xy1, xy2, truth := p.matches(10, c.off, 9)
		r := refined(t, 2, p, xy1, xy2, c.reach)
		e := errorsOf(r, truth)
		share := float64(len(e)) / float64(len(r.Refined))
		if !(share >= c.share) {
			t.Errorf("%s: %.2f of %d matches refined, want %.2f", name, share, len(r.Refined), c.share)
			continue
		}
		t.Logf("%s: %.2f refined, error median %.3f, 90%% %.3f, worst %.3f", name, share, e[len(e)/2], e[len(e)*9/10], e[len(e)-1])
		if !(e[len(e)/2] <= c.median) {
			t.Errorf("%s: median error %.3f px, want %.3f", name, e[len(e)/2], c.median)
		}
	}
}

// TestCovariance compares the covariances with the errors: of a right one, the
// squared error over the covariance has mean 2.
func TestCovariance(t *testing.T) {
	for _, noise := range []float64{1, 4, 12} {
		var normal []float64
		for seed := range uint64(3) {
			p := newPair(240, 1.1, 0.15, 0.85, noise, 20+seed)
			xy1, xy2, truth := p.matches(10, 0.8, seed)
			r := refined(t, 2, p, xy1, xy2, 2.5)
			for i, ok := range r.Refined {
				if !ok {
					continue
				}
				c := r.Covariance[4*i : 4*i+4]
				xx, xy, yy := float64(c[0]), float64(c[1]), float64(c[3])
				det := xx*yy - xy*xy
				if !(xx > 0 && det > 0) || c[1] != c[2] {
					t.Fatalf("match %d: covariance %v is none", i, c)
				}
				dx, dy := r.XY2[2*i]-truth[2*i], r.XY2[2*i+1]-truth[2*i+1]
				normal = append(normal, (yy*dx*dx-2*xy*dx*dy+xx*dy*dy)/det)
			}
		}
		slices.Sort(normal)
		// The median and the 90th percentile of chi squared with 2 degrees.
		m, p90 := normal[len(normal)/2]/1.386, normal[len(normal)*9/10]/4.605
		t.Logf("noise %g: %d matches, squared error over expected: median %.2f, 90%% %.2f", noise, len(normal), m, p90)
		if !(m > 0.25 && m < 2.5 && p90 > 0.25 && p90 < 2.5) {
			t.Errorf("noise %g: squared errors are %.2f (median) and %.2f (90 %%) of what the covariances say", noise, m, p90)
		}
	}
}

// TestUnrefined: what cannot be refined keeps its place to the last bit, and says so.
func TestUnrefined(t *testing.T) {
	p := newPair(240, 1, 0, 1, 2, 5)
	other := newPair(240, 1, 0, 1, 2, 77)
	flat := Picture{slices.Repeat([]byte{90}, len(p.one.Pix)), p.one.Width, p.one.Height, p.one.Stride}
	xy1, xy2, _ := p.matches(10, 0.8, 1)
	for name, c := range map[string]pair{"other scene": {one: p.one, two: other.two}, "flat": {one: flat, two: p.two}, "flat 2": {one: p.one, two: flat}} {
		r := refined(t, 2, c, xy1, xy2, 2.5)
		n := 0
		for i, ok := range r.Refined {
			if ok {
				n++
				continue
			}
			if r.XY2[2*i] != xy2[2*i] || r.XY2[2*i+1] != xy2[2*i+1] {
				t.Fatalf("%s: match %d is not refined and moved", name, i)
			}
			if want := float32(2.5 / 4 * 2.5 / 4); r.Covariance[4*i] != want || r.Covariance[4*i+1] != 0 || r.Covariance[4*i+3] != want {
				t.Fatalf("%s: covariance %v, want %g in both", name, r.Covariance[4*i:4*i+4], want)
			}
		}
		if n > len(r.Refined)/50 {
			t.Errorf("%s: %d of %d matches refined, want next to none", name, n, len(r.Refined))
		}
	}
	for _, few := range []int{0, 1, near} {
		r := refined(t, 1, p, xy1[:2*few], xy2[:2*few], 2.5)
		if len(r.Refined) != few || !slices.Equal(r.XY2, xy2[:2*few]) || slices.Contains(r.Refined, true) {
			t.Errorf("%d matches: %v", few, r)
		}
	}
}

// TestWrongMatchesSpoilNoMaps: a match's map comes from its neighbours, of which
// many are wrong where pictures are turned far. Right ones must be as exact as
// among right ones.
func TestWrongMatchesSpoilNoMaps(t *testing.T) {
	p := newPair(320, 1, 2.1, 1, 2, 6)
	xy1, xy2, truth := p.matches(7, 0.4, 3)
	most := func(xy2 []float64) (int, float64) {
		r := refined(t, 2, p, xy1, xy2, 2.5)
		e := errorsOf(r, truth)
		return len(e), e[len(e)*9/10]
	}
	_, clean := most(xy2)
	r := rand.New(rand.NewPCG(4, 4))
	wrong := 0
	for i := range len(xy2) / 2 {
		if r.Float64() < 0.4 {
			wrong++
			turn := 2 * math.Pi * r.Float64()
			far := 6 + 14*r.Float64()
			xy2[2*i] += far * math.Cos(turn)
			xy2[2*i+1] += far * math.Sin(turn)
		}
	}
	n, spoiled := most(xy2)
	right := len(xy2)/2 - wrong
	t.Logf("%d of %d right matches refined, 90 %% within %.3f pixels, %.3f without wrong ones", n, right, spoiled, clean)
	if float64(n) < 0.85*float64(right) || spoiled > 1.3*clean {
		t.Errorf("%d of %d right matches refined, 90 %% within %.3f pixels; %.3f without wrong ones", n, right, spoiled, clean)
	}
}

// TestThreads: the same bits for any number of threads.
func TestThreads(t *testing.T) {
	p := newPair(240, 1.3, 0.4, 0.9, 3, 8)
	xy1, xy2, _ := p.matches(7, 2, 2)
	want := refined(t, 1, p, xy1, xy2, 8)
	for _, threads := range []int{2, 3, 7} {
		got := refined(t, threads, p, xy1, xy2, 8)
		if !slices.Equal(got.XY2, want.XY2) || !slices.Equal(got.Covariance, want.Covariance) ||
			!slices.Equal(got.Correlation, want.Correlation) || !slices.Equal(got.Refined, want.Refined) {
			t.Errorf("%d threads: another answer than one", threads)
		}
	}
}

// TestHostile: strange numbers are errors or unrefined matches, never a panic.
func TestHostile(t *testing.T) {
	p := newPair(240, 1, 0, 1, 2, 5)
	pool := par.New(2)
	defer pool.Close()
	xy1, xy2, _ := p.matches(20, 0.5, 1)
	try := func(one, two Picture, a, b []float64, o Options) error {
		_, err := Refine(context.Background(), pool, one, two, a, b, o)
		return err
	}
	with := func(xy []float64, i int, v float64) []float64 {
		c := slices.Clone(xy)
		c[i] = v
		return c
	}
	good := Options{Reach: 3}
	for name, err := range map[string]error{
		"NaN":          try(p.one, p.two, with(xy1, 3, math.NaN()), xy2, good),
		"infinite":     try(p.one, p.two, xy1, with(xy2, 0, math.Inf(-1)), good),
		"lengths":      try(p.one, p.two, xy1, xy2[2:], good),
		"odd":          try(p.one, p.two, xy1[1:], xy2[1:], good),
		"reach":        try(p.one, p.two, xy1, xy2, Options{Reach: -1}),
		"NaN reach":    try(p.one, p.two, xy1, xy2, Options{Reach: math.NaN()}),
		"no picture":   try(Picture{}, p.two, xy1, xy2, good),
		"short":        try(p.one, Picture{p.two.Pix[1:], 240, 240, 720}, xy1, xy2, good),
		"small stride": try(p.one, Picture{p.two.Pix, 240, 240, 719}, xy1, xy2, good),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	far, same := slices.Clone(xy2), slices.Clone(xy1)
	for i := range far {
		far[i] = 9e6 * math.Pow(-1, float64(i))
		same[i] = 100
	}
	tiny := Picture{make([]byte, 3), 1, 1, 3}
	for name, err := range map[string]error{
		"far outside": try(p.one, p.two, xy1, far, Options{Reach: 9000}),
		"one place":   try(p.one, p.two, same, xy2, good),
		"both one":    try(p.one, p.two, same, same, good),
		"tiny":        try(tiny, tiny, xy1, xy2, good),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Refine(ctx, pool, p.one, p.two, xy1, xy2, good); err == nil {
		t.Error("cancelled: no error")
	}
}

// TestUnsureMatchesKeepTheirPlace has a picture whose right half is full of
// noise: the patches there still correlate, but tell the place much less exactly.
// Such matches do not count as refined, and have moved nearer to the truth.
func TestUnsureMatchesAreNotRefined(t *testing.T) {
	p := newPair(320, 1, 0, 1, 1, 4)
	r := rand.New(rand.NewPCG(1, 9))
	for y := range 320 {
		for x := 160; x < 320; x++ {
			n := 30 * r.NormFloat64()
			for c := range 3 {
				at := &p.two.Pix[3*(y*320+x)+c]
				*at = byte(max(0, min(255, float64(*at)+n)))
			}
		}
	}
	xy1, xy2, truth := p.matches(8, 1.5, 2)
	got := refined(t, 2, p, xy1, xy2, 6)
	var sigmas []float64
	left, right := 0, 0
	moved, before, after := 0, 0.0, 0.0
	off := func(xy []float64, i int) float64 { return math.Hypot(xy[2*i]-truth[2*i], xy[2*i+1]-truth[2*i+1]) }
	for i, ok := range got.Refined {
		if !ok {
			if got.Covariance[4*i] != 1.5*1.5 {
				moved, before, after = moved+1, before+off(xy2, i), after+off(got.XY2, i)
			} else if got.XY2[2*i] != xy2[2*i] {
				t.Fatalf("match %d moved and kept its covariance", i)
			}
			continue
		}
		xx, xy, yy := float64(got.Covariance[4*i]), float64(got.Covariance[4*i+1]), float64(got.Covariance[4*i+3])
		sigmas = append(sigmas, math.Sqrt((xx+yy)/2+math.Hypot((xx-yy)/2, xy)))
		if truth[2*i] < 150 {
			left++
		} else {
			right++
		}
	}
	slices.Sort(sigmas)
	middle, last := sigmas[len(sigmas)/2], sigmas[len(sigmas)-1]
	t.Logf("%d refined on the left, %d on the right; deviation %.3f in the median, at most %.3f", left, right, middle, last)
	if left < 400 || last > max(0.2, 2.1*middle) {
		t.Errorf("%d refined on the left, deviations up to %.3f, the median is %.3f", left, last, middle)
	}
	if moved < 300 || after > before/2 {
		t.Errorf("%d unsure matches moved; they are off by %.0f pixels in all, before %.0f", moved, after, before)
	}
	if e := errorsOf(got, truth); e[len(e)*99/100] > 0.5 {
		t.Errorf("one refined match of a hundred is off by %.2f pixels or more", e[len(e)*99/100])
	}
}

// large renders the scene where the map takes the picture's pixels: the waves are
// plane, so that sums of angles make 12 megapixels quick.
func (s scene) large(width, height int, to linear, gain, noise float64, seed uint64) Picture {
	r := rand.New(rand.NewPCG(seed, 2))
	p := Picture{make([]byte, 3*width*height), width, height, 3 * width}
	grey := make([]float32, width)
	row := make([][2]float32, width*len(s.wave))
	for k, w := range s.wave {
		size := 1.5 * gain * math.Sqrt(w[3])
		for x := range width {
			sin, cos := math.Sincos((w[0]*to.a + w[1]*to.c) * float64(x))
			row[k*width+x] = [2]float32{float32(size * sin), float32(size * cos)}
		}
	}
	for y := range height {
		clear(grey)
		for k, w := range s.wave {
			sin, cos := math.Sincos((w[0]*to.b+w[1]*to.d)*float64(y) + w[2])
			for x, c := range row[k*width : (k+1)*width] {
				grey[x] += c[0]*float32(cos) + c[1]*float32(sin)
			}
		}
		for x, g := range grey {
			v := byte(max(0, min(255, 128+float64(g)+noise*float64(r.Uint32()>>8)/(1<<24))))
			p.Pix[3*(y*width+x)], p.Pix[3*(y*width+x)+1], p.Pix[3*(y*width+x)+2] = v, v, v
		}
	}
	return p
}

// BenchmarkRefine refines 1,500 matches of a 12-megapixel pair on two threads.
func BenchmarkRefine(b *testing.B) {
	const w, h = 4000, 3000
	s := newScene(5)
	s.wave = s.wave[:20]
	to := linear{1.01 * math.Cos(0.05), -math.Sin(0.05), 1.02 * math.Sin(0.05), math.Cos(0.05)}
	one, two := s.large(w, h, linear{1, 0, 0, 1}, 1, 6, 1), s.large(w, h, to, 0.8, 6, 2)
	back := to.inverse()
	r := rand.New(rand.NewPCG(1, 1))
	var xy1, xy2, truth []float64
	for len(xy1) < 2*1500 {
		x, y := 100+(w-200)*r.Float64(), 100+(h-200)*r.Float64()
		u, v := back.at(x, y)
		if u > 100 && v > 100 && u < w-100 && v < h-100 {
			xy1, truth = append(xy1, x, y), append(truth, u, v)
			xy2 = append(xy2, u+6*r.Float64()-3, v+6*r.Float64()-3)
		}
	}
	pool := par.New(2)
	defer pool.Close()
	b.ResetTimer()
	for range b.N {
		r, err := Refine(context.Background(), pool, one, two, xy1, xy2, Options{Reach: 15})
		if err != nil {
			b.Fatal(err)
		}
		e := errorsOf(r, truth)
		b.ReportMetric(float64(len(e)), "refined")
		b.ReportMetric(e[len(e)/2], "px")
	}
}
