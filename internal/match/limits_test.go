// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// TestMaskAndWeight: a masked pixel stays out whatever its weight, one below the least
// weight whatever the mask, and a weight of exactly the least stays in.
func TestMaskAndWeight(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	r := rand.New(rand.NewPCG(1, 2))
	m := New(pool)
	d := unit(r, 6, 7)
	v := View{Desc: d, Mask: make([]uint8, 42), Weight: make([]float32, 42)}
	for i := range v.Mask {
		v.Mask[i], v.Weight[i] = uint8(i%3&1), float32(i%4)
	}
	whole := View{Desc: d, Weight: v.Weight}
	found := pairSet(mustMatch(t, m, v, whole, Options{Reciprocal: true, MinWeight: 2, MinConfidence: all}))
	n := 0
	for i := range v.Mask {
		_, in := found[pair{int64(i), int64(i)}]
		if want := v.Mask[i] != 0 && v.Weight[i] >= 2; in != want {
			t.Errorf("pixel %d, mask %d, weight %g: in the result: %v", i, v.Mask[i], v.Weight[i], in)
		} else if in {
			n++
		}
	}
	if n == 0 || n != len(found) {
		t.Errorf("%d of %d", n, len(found))
	}
}

// TestThresholdItself: a match whose confidence is the least one is kept, the next lower
// is not.
func TestThresholdItself(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	r := rand.New(rand.NewPCG(3, 4))
	m := New(pool)
	v1, v2 := View{Desc: unit(r, 6, 7)}, View{Desc: unit(r, 6, 7)}
	every := mustMatch(t, m, v1, v2, Options{Reciprocal: true, MinConfidence: all})
	for k, c := range every.Confidence {
		if k+1 < len(every.Confidence) && every.Confidence[k+1] == c {
			continue
		}
		if got := mustMatch(t, m, v1, v2, Options{Reciprocal: true, MinConfidence: c}); len(got.Idx1) != k+1 {
			t.Fatalf("threshold %g: %d matches, want %d", c, len(got.Idx1), k+1)
		}
	}
}

// TestBothWaysByDefinition: a match that starts in picture 2 is added where at least one
// of its squares, of either picture, holds none yet.
func TestBothWaysByDefinition(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	const h, w, step = 24, 32, 4
	added, dropped := 0, 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := New(pool)
		v1, v2 := View{Desc: unit(r, h, w)}, View{Desc: unit(r, h, w)}
		o := Options{Reciprocal: true, Subsample: step, MinConfidence: all}
		want := pairSet(mustMatch(t, m, v1, v2, o))
		square := func(p int64) int64 { return p/w/step*1000 + p%w/step }
		var taken [2]map[int64]bool
		for i := range taken {
			taken[i] = map[int64]bool{}
			for p := range want {
				taken[i][square(p[i])] = true
			}
		}
		// In the order of the keys: pixel of picture 2, then of picture 1.
		back := mustMatch(t, m, v2, v1, o)
		list := map[pair]bool{}
		for k := range back.Idx1 {
			list[pair{back.Idx1[k], back.Idx2[k]}] = true
		}
		for q := range int64(h * w) {
			for p := range int64(h * w) {
				if !list[pair{q, p}] {
					continue
				}
				free := !taken[0][square(p)] || !taken[1][square(q)]
				taken[0][square(p)], taken[1][square(q)] = true, true
				if free {
					want[pair{p, q}] = 0
					added++
				} else {
					dropped++
				}
			}
		}
		o.BothWays = true
		got := pairSet(mustMatch(t, m, v1, v2, o))
		for p := range want {
			if _, ok := got[p]; !ok {
				t.Errorf("seed %d: %v is missing", seed, p)
			}
		}
		if len(got) != len(want) {
			t.Errorf("seed %d: %d matches, want %d", seed, len(got), len(want))
		}
	}
	if added == 0 || dropped == 0 {
		t.Errorf("%d added, %d dropped: nothing was tried", added, dropped)
	}
}
