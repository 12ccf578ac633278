// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// usable is the rule of which descriptors take part.
func usable(row []float32) bool {
	for _, v := range row {
		if !(math.Abs(float64(v)) <= limit) {
			return false
		}
	}
	return true
}

// bruteForce is the definition: every pair through the scalar score, excluded
// descriptors skipped, strictly better replaces.
func bruteForce(a, b Map) (nnA, nnB []int32) {
	nnA, nnB = make([]int32, a.Pixels()), make([]int32, b.Pixels())
	bestA, bestB := make([]float32, len(nnA)), make([]float32, len(nnB))
	fill(nnA, -1)
	fill(nnB, -1)
	for i := range nnA {
		x := a.Data[i*a.Dim : (i+1)*a.Dim]
		if !usable(x) {
			continue
		}
		for j := range nnB {
			y := b.Data[j*b.Dim : (j+1)*b.Dim]
			if !usable(y) {
				continue
			}
			s := kernel.Dot(x, y)
			if nnA[i] < 0 || s > bestA[i] {
				bestA[i], nnA[i] = s, int32(j)
			}
			if nnB[j] < 0 || s > bestB[j] {
				bestB[j], nnB[j] = s, int32(i)
			}
		}
	}
	return nnA, nnB
}

// fields of test descriptors.
const (
	random = iota
	ties   // few distinct descriptors
	broken // ties, and a tenth of the pixels hold NaN, infinities or giants
	flat   // all nearly equal: the worst case of the prefilter
	zeros
	kinds
)

var poison = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 3e38, -0x1p49}

func field(r *rand.Rand, h, w, dim, kind int) Map {
	d := Map{make([]float32, h*w*dim), h, w, dim}
	n := h * w
	for i := range n {
		row := d.Data[i*dim : (i+1)*dim]
		for k := range row {
			switch kind {
			case flat:
				row[k] = 1 + float32(r.NormFloat64())*1e-4
			case zeros:
			default:
				row[k] = float32(r.NormFloat64())
			}
		}
		if (kind == ties || kind == broken) && i >= 7 {
			j := r.IntN(7)
			copy(row, d.Data[j*dim:(j+1)*dim])
		}
	}
	if kind == broken {
		for i := range n {
			if r.IntN(10) == 0 {
				d.Data[i*dim+r.IntN(dim)] = poison[r.IntN(len(poison))]
			}
		}
	}
	return d
}

// checkNearest compares one call of each matcher with the definition.
func checkNearest(t *testing.T, a, b Map, ms ...*Matcher) {
	t.Helper()
	wantA, wantB := bruteForce(a, b)
	gotA, gotB := make([]int32, len(wantA)), make([]int32, len(wantB))
	for _, m := range ms {
		if err := m.Nearest(a, b, gotA, gotB); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(gotA, wantA) || !slices.Equal(gotB, wantB) {
			t.Fatalf("%s, %d threads: %dx%d against %dx%d, dim %d: neighbours differ from the definition",
				m.kern.ISA, m.pool.Threads(), a.Height, a.Width, b.Height, b.Width, a.Dim)
		}
	}
}

// matchers returns one for every kernel of the machine and thread count. Tests
// use each for many calls: stale scratch must not show.
func matchers(t testing.TB, threads ...int) []*Matcher {
	var ms []*Matcher
	for _, n := range threads {
		pool := par.New(n)
		t.Cleanup(pool.Close)
		for _, k := range kernel.All() {
			ms = append(ms, newWith(pool, k))
		}
	}
	return ms
}

// TestNearest uses sizes that fall on and off the edges of groups, panels,
// strips and blocks.
func TestNearest(t *testing.T) {
	ms := matchers(t, 1, 2, 3)
	sizes := [][4]int{{1, 1, 1, 1}, {1, 5, 3, 7}, {12, 8, 4, 24}, {31, 3, 1, 97}, {1, 1200, 37, 2}, {15, 17, 17, 19}}
	for _, s := range sizes {
		for kind := range kinds {
			for _, dim := range []int{24, 3} {
				r := rand.New(rand.NewPCG(uint64(kind), uint64(s[0])))
				checkNearest(t, field(r, s[0], s[1], dim, kind), field(r, s[2], s[3], dim, kind), ms...)
			}
		}
	}
}

// TestNearestManyBlocks crosses several strips and several row blocks, with
// ties across their borders.
func TestNearestManyBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a, b := field(r, 20, 21, 24, broken), field(r, 50, 47, 24, broken)
	checkNearest(t, a, b, matchers(t, 2)...)
}

// TestNearestLong uses descriptors too long for a whole strip.
func TestNearestLong(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	checkNearest(t, field(r, 9, 11, 700, random), field(r, 13, 9, 700, ties), matchers(t, 2)...)
}

func FuzzNearest(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(4), uint8(5), uint8(6), uint8(24), uint8(0))
	f.Add(uint64(2), uint8(0), uint8(4), uint8(5), uint8(6), uint8(1), uint8(2))
	ms := matchers(f, 2)
	f.Fuzz(func(t *testing.T, seed uint64, h1, w1, h2, w2, dim, kind uint8) {
		r := rand.New(rand.NewPCG(seed, 0))
		d := 1 + int(dim%40)
		a := field(r, int(h1%20), int(w1%20), d, int(kind)%kinds)
		b := field(r, int(h2%20), int(w2%20), d, int(kind)%kinds)
		checkNearest(t, a, b, ms...)
	})
}

func TestNearestErrors(t *testing.T) {
	m := newMatcher(t, 1)
	ok := Map{make([]float32, 24), 2, 3, 4}
	nn := make([]int32, 6)
	for name, c := range map[string]struct {
		a, b Map
		n, k []int32
	}{
		"short data":      {Map{make([]float32, 23), 2, 3, 4}, ok, nn, nn},
		"long data":       {ok, Map{make([]float32, 25), 2, 3, 4}, nn, nn},
		"negative height": {Map{nil, -2, 3, 4}, ok, nn, nn},
		"no dim":          {Map{nil, 2, 3, 0}, ok, nn, nn},
		"empty with data": {Map{make([]float32, 1), 0, 3, 4}, ok, nil, nn},
		"overflow":        {Map{nil, math.MaxInt, math.MaxInt, 2}, ok, nn, nn},
		"overflow dim":    {Map{nil, 1 << 15, 1 << 15, math.MaxInt}, ok, nn, nn},
		"dims differ":     {ok, Map{make([]float32, 24), 2, 4, 3}, nn, make([]int32, 8)},
		"short output":    {ok, ok, nn[:5], nn},
		"short output 2":  {ok, ok, nn, nn[:5]},
	} {
		if err := m.Nearest(c.a, c.b, c.n, c.k); !errors.Is(err, ErrShape) {
			t.Errorf("%s: error %v, want ErrShape", name, err)
		}
	}
}

// TestNearestEmpty: an empty side leaves every pixel of the other unmatched.
func TestNearestEmpty(t *testing.T) {
	m := newMatcher(t, 2)
	full := Map{make([]float32, 24), 2, 3, 4}
	for _, empty := range []Map{{nil, 0, 3, 4}, {nil, 3, 0, 4}, {nil, 0, 0, 4}} {
		nn := []int32{5, 5, 5, 5, 5, 5}
		if err := m.Nearest(full, empty, nn, nil); err != nil {
			t.Fatal(err)
		}
		if slices.Max(nn) != -1 {
			t.Errorf("neighbours %v, want all -1", nn)
		}
		if err := m.Nearest(empty, empty, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSteadyState: after the first call nothing that grows with the maps is
// allocated. The few closures handed to the pool are the rest.
func TestSteadyState(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	a, b := field(r, 60, 50, 24, random), field(r, 50, 60, 24, random)
	m := newMatcher(t, 2)
	nn1, nn2 := make([]int32, 3000), make([]int32, 3000)
	run := func() {
		if err := m.Nearest(a, b, nn1, nn2); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Match(View{Desc: a}, View{Desc: b}, Options{TopK: 10, Reciprocal: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Match(View{Desc: a}, View{Desc: b}, Options{TopK: 10, Subsample: 4, Reciprocal: true}); err != nil {
			t.Fatal(err)
		}
	}
	run()
	const calls = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		run()
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / calls; per > 8192 {
		t.Errorf("%d bytes allocated per call, want a few closures", per)
	}
}
