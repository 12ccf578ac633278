// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// wavy is a map of unit descriptors that change smoothly with the place, shifted
// by (dx, dy) pixels.
func wavy(w, h, dim int, dx, dy float64) View {
	r := rand.New(rand.NewPCG(4, 4))
	type wave struct{ kx, ky, phase float64 }
	waves := make([]wave, dim)
	for i := range waves {
		waves[i] = wave{0.9 * r.NormFloat64() / 3, 0.9 * r.NormFloat64() / 3, 2 * math.Pi * r.Float64()}
	}
	d := Map{make([]float32, w*h*dim), h, w, dim}
	for y := range h {
		for x := range w {
			row := d.Data[(y*w+x)*dim:][:dim]
			sum := 0.0
			for i, k := range waves {
				v := math.Sin(k.kx*(float64(x)-dx) + k.ky*(float64(y)-dy) + k.phase)
				row[i] = float32(v)
				sum += v * v
			}
			for i := range row {
				row[i] /= float32(math.Sqrt(sum))
			}
		}
	}
	return View{Desc: d}
}

func TestSubpixel(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	m := New(pool)
	for _, shift := range [][2]float64{{0, 0}, {0.3, -0.4}, {2.25, 1.45}, {-3.5, 0.1}} {
		one, two := wavy(40, 30, 24, 0, 0), wavy(40, 30, 24, shift[0], shift[1])
		whole, err := m.Match(one, two, Options{Subsample: 4, Border: 5, Reciprocal: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Match(one, two, Options{Subsample: 4, Border: 5, Subpixel: true, Reciprocal: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Idx1) < 20 || whole.XY2 != nil || !slices.Equal(whole.Idx2, r.Idx2) {
			t.Fatalf("shift %v: %d matches, want the whole-pixel search's %d", shift, len(r.Idx1), len(whole.Idx1))
		}
		var fine, coarse float64
		for k, p := range r.Idx1 {
			x, y := float64(p%40)+shift[0], float64(p/40)+shift[1]
			fine += math.Hypot(float64(r.XY2[2*k])-x, float64(r.XY2[2*k+1])-y)
			coarse += math.Hypot(float64(r.Idx2[k]%40)-x, float64(r.Idx2[k]/40)-y)
		}
		n := float64(len(r.Idx1))
		if !(fine/n < 0.12) {
			t.Errorf("shift %v: mean error %.3f px (whole pixels %.3f), want below 0.12", shift, fine/n, coarse/n)
		}
	}
}

// TestSubpixelAtTheRim has matches on every side and beside descriptors that are
// not finite: places stay inside the map and are numbers.
func TestSubpixelAtTheRim(t *testing.T) {
	pool := par.New(1)
	defer pool.Close()
	one, two := wavy(20, 16, 24, 0, 0), wavy(20, 16, 24, 0.4, 0.4)
	for p := 3; p < 20*16; p += 7 {
		two.Desc.Data[p*24+5] = float32(math.Inf(1))
	}
	r, err := New(pool).Match(one, two, Options{Subpixel: true, Reciprocal: true})
	if err != nil || len(r.Idx1) == 0 {
		t.Fatalf("%v, %v", r, err)
	}
	for k, q := range r.Idx2 {
		x, y := float64(r.XY2[2*k]), float64(r.XY2[2*k+1])
		if !(math.Abs(x-float64(q%20)) <= 0.5 && math.Abs(y-float64(q/20)) <= 0.5 && x >= 0 && y >= 0 && x <= 19 && y <= 15) {
			t.Errorf("match at pixel %d is placed at %g, %g", q, x, y)
		}
	}
}

// TestSpread plants the best matches in one corner: chosen plainly all lie there,
// spread ones everywhere, the best of each part first.
func TestSpread(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	m := New(pool)
	const w, h = 48, 32
	one, two := wavy(w, h, 24, 0, 0), wavy(w, h, 24, 0, 0)
	for p := range w * h {
		if p%w > 12 || p/w > 12 { // shorter descriptors: less similar
			for i := range 24 {
				two.Desc.Data[p*24+i] *= 0.9
			}
		}
	}
	quarters := func(r *Result) (count [4]int) {
		for _, p := range r.Idx1 {
			count[2*(int(p)/w/(h/2))+int(p)%w/(w/2)]++
		}
		return count
	}
	plain, err := m.Match(one, two, Options{TopK: 96, Reciprocal: true})
	if err != nil {
		t.Fatal(err)
	}
	wide, err := m.Match(one, two, Options{TopK: 96, Spread: true, Reciprocal: true})
	if err != nil {
		t.Fatal(err)
	}
	if c := quarters(plain); c[1]+c[2]+c[3] != 0 {
		t.Fatalf("plain: matches by quarter %v, want all in the first", c)
	}
	c := quarters(wide)
	if len(wide.Idx1) != 96 || slices.Min(c[:]) < 20 {
		t.Errorf("spread: matches by quarter %v, want about 24 in each", c)
	}
	if !slices.IsSortedFunc(wide.Confidence, func(a, b float32) int { return int(math.Copysign(1, float64(b-a))) }) && wide.Confidence[0] < wide.Confidence[95] {
		t.Error("spread matches are not in the order of their confidence")
	}
	all, _ := m.Match(one, two, Options{Reciprocal: true})
	for k := range wide.Idx1 {
		if !slices.Contains(all.Idx1, wide.Idx1[k]) {
			t.Errorf("pixel %d is no match of the whole search", wide.Idx1[k])
		}
	}
}

// TestBothWays has a part of picture 1 enlarged in picture 2: seeds of both find
// more than those of map 1, and every match is one of the whole search.
func TestBothWays(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	m := New(pool)
	one, two := wavy(64, 48, 24, 0, 0), wavy(64, 48, 24, 0, 0)
	one.Mask = make([]uint8, 64*48)
	for y := 20; y < 28; y++ {
		for x := 20; x < 28; x++ {
			one.Mask[y*64+x] = 1
		}
	}
	single, err := m.Match(one, two, Options{Subsample: 8, Reciprocal: true})
	if err != nil {
		t.Fatal(err)
	}
	both, err := m.Match(one, two, Options{Subsample: 8, BothWays: true, Reciprocal: true})
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := m.Match(one, two, Options{Reciprocal: true})
	if single.Seeds != 48 || both.Seeds != 48 || whole.Seeds != 64*48 {
		t.Errorf("seeds %d, %d and %d, want 48, 48 and 3072", single.Seeds, both.Seeds, whole.Seeds)
	}
	if len(both.Idx1) < len(single.Idx1) {
		t.Errorf("%d matches from the seeds of both, %d from those of map 1", len(both.Idx1), len(single.Idx1))
	}
	for k, p := range both.Idx1 {
		i := slices.Index(whole.Idx1, p)
		if i < 0 || whole.Idx2[i] != both.Idx2[k] {
			t.Errorf("match %d - %d is none of the whole search", p, both.Idx2[k])
		}
	}
	if both.Idx1 == nil || len(both.Idx1) > len(whole.Idx1) {
		t.Errorf("%d matches, the whole search has %d", len(both.Idx1), len(whole.Idx1))
	}
}
