// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// walk is FastReciprocal for one seed by the definition, on brute-force
// neighbours: it returns the final pair and whether the seed came to rest.
func walk(nnA, nnB []int32, seed int32, rounds int) (i1, i2 int32, rest bool) {
	cur1, cur2 := seed, int32(-1)
	for range rounds {
		old1, old2 := cur1, cur2
		if cur2 = nnA[cur1]; cur2 == old2 {
			return cur1, cur2, true
		}
		if cur1 = nnB[cur2]; cur1 == old1 {
			return cur1, cur2, true
		}
	}
	return cur1, cur2, false
}

// smooth is a field whose walks take several rounds: neighbouring descriptors
// resemble each other.
func smooth(r *rand.Rand, h, w, dim int) Map {
	d := field(r, h, w, dim, random)
	for i := dim; i < len(d.Data); i++ {
		d.Data[i] = 0.9*d.Data[i-dim] + 0.3*d.Data[i]
	}
	return d
}

func TestFastReciprocalFollowsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	m := newMatcher(t, 2)
	moved := 0
	for range 20 {
		a, b := smooth(r, 1+r.IntN(30), 1+r.IntN(30), 5), smooth(r, 1+r.IntN(30), 1+r.IntN(30), 5)
		nnA, nnB := bruteForce(a, b)
		for s := 1; s <= 5; s++ {
			basin := make([]int32, a.Pixels())
			got, err := m.FastReciprocal(a, b, FastOptions{Subsample: s, Basin: basin})
			if err != nil {
				t.Fatal(err)
			}
			want := map[[2]int32]bool{}
			for _, seed := range grid(nil, a, s) {
				i1, i2, rest := walk(nnA, nnB, seed, 10)
				if !rest {
					continue
				}
				want[[2]int32{i1, i2}] = true
				if nnA[i1] != i2 || nnB[i2] != i1 {
					t.Fatal("the definition itself returned a pair that is not mutual")
				}
				if basin[seed] != i1 {
					t.Fatalf("basin of seed %d is %d, want %d", seed, basin[seed], i1)
				}
				if i1 != seed {
					moved++
				}
			}
			if len(got.Idx1) != len(want) {
				t.Fatalf("%d pairs, want %d", len(got.Idx1), len(want))
			}
			for k := range got.Idx1 {
				if !want[[2]int32{got.Idx1[k], got.Idx2[k]}] {
					t.Fatalf("unexpected pair %d, %d", got.Idx1[k], got.Idx2[k])
				}
			}
		}
	}
	if moved == 0 {
		t.Error("no seed ever moved: the data does not test the walk")
	}
}

func TestFastReciprocalTolerance(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	m := newMatcher(t, 2)
	a, b := smooth(r, 20, 30, 4), smooth(r, 25, 20, 4)
	nnA, nnB := bruteForce(a, b)
	seeds := []int32{599, 3, 3, 0, 250, 77, 301}
	for _, tol := range []float64{1, 2, 4, 9, math.Inf(1)} {
		got, err := m.FastReciprocal(a, b, FastOptions{Seeds: seeds, PixelTol: tol})
		if err != nil {
			t.Fatal(err)
		}
		var want Pairs
		for _, s := range []int32{0, 3, 77, 250, 301, 599} {
			back := nnB[nnA[s]]
			if math.Hypot(float64(back%30-s%30), float64(back/30-s/30)) < tol {
				want.Idx1, want.Idx2 = append(want.Idx1, s), append(want.Idx2, nnA[s])
			}
		}
		if !slices.Equal(got.Idx1, want.Idx1) || !slices.Equal(got.Idx2, want.Idx2) {
			t.Errorf("tolerance %v: %v, want %v", tol, got, want)
		}
	}
}

func TestFastReciprocalOptions(t *testing.T) {
	m := newMatcher(t, 1)
	d := Map{make([]float32, 24), 2, 3, 4}
	for name, c := range map[string]struct {
		o    FastOptions
		want error
	}{
		"no seeds":           {FastOptions{}, ErrOption},
		"grid and tolerance": {FastOptions{Subsample: 1, PixelTol: 1}, ErrOption},
		"negative tolerance": {FastOptions{Seeds: []int32{0}, PixelTol: -1}, ErrOption},
		"NaN tolerance":      {FastOptions{Seeds: []int32{0}, PixelTol: math.NaN()}, ErrOption},
		"seed outside":       {FastOptions{Seeds: []int32{6}}, ErrOption},
		"negative seed":      {FastOptions{Seeds: []int32{-1}}, ErrOption},
		"short basin":        {FastOptions{Subsample: 1, Basin: make([]int32, 5)}, ErrShape},
	} {
		if _, err := m.FastReciprocal(d, d, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
}

// TestFastReciprocalExcluded: unusable seeds and targets never appear.
func TestFastReciprocalExcluded(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	m := newMatcher(t, 2)
	a, b := field(r, 15, 16, 24, broken), field(r, 14, 17, 24, broken)
	p, err := m.FastReciprocal(a, b, FastOptions{Subsample: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Idx1) == 0 {
		t.Fatal("no pairs")
	}
	nnA, nnB := bruteForce(a, b)
	for k, i := range p.Idx1 {
		if nnA[i] != p.Idx2[k] || nnB[p.Idx2[k]] != i {
			t.Fatalf("pair %d, %d is not mutual among usable descriptors", i, p.Idx2[k])
		}
	}
	for i := range b.Data {
		b.Data[i] = float32(math.NaN())
	}
	if p, err = m.FastReciprocal(a, b, FastOptions{Subsample: 1}); err != nil || len(p.Idx1) != 0 {
		t.Errorf("all of map 2 NaN: %d pairs, error %v", len(p.Idx1), err)
	}
}
