// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Pairs lists matched pixels: Idx1[k] of map 1 with Idx2[k] of map 2.
type Pairs struct {
	Idx1, Idx2 []int32
}

// fastReciprocal is fastKeys alone, on every pixel of both maps.
func (m *Matcher) fastReciprocal(a, b Map, step int) (Pairs, error) {
	if err := checkPair(a, b); err != nil {
		return Pairs{}, err
	}
	m.prepare(&m.a, a, nil)
	m.prepare(&m.b, b, nil)
	keys, err := m.fastKeys(&m.a, &m.b, a, step)
	var p Pairs
	for _, k := range keys {
		p.Idx1, p.Idx2 = append(p.Idx1, int32(k>>32)), append(p.Idx2, int32(uint32(k)))
	}
	return p, err
}

// walk is fastKeys for one seed by the definition, on brute-force
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
			got, err := m.fastReciprocal(a, b, s)
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

// TestFastReciprocalExcluded: unusable seeds and targets never appear.
func TestFastReciprocalExcluded(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	m := newMatcher(t, 2)
	a, b := field(r, 15, 16, 24, broken), field(r, 14, 17, 24, broken)
	p, err := m.fastReciprocal(a, b, 1)
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
	if p, err = m.fastReciprocal(a, b, 1); err != nil || len(p.Idx1) != 0 {
		t.Errorf("all of map 2 NaN: %d pairs, error %v", len(p.Idx1), err)
	}
}
