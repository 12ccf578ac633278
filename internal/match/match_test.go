// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
)

// unit makes a field of unit descriptors.
func unit(r *rand.Rand, h, w int) Map {
	return unitMap(field(r, h, w, 24, random))
}

func mustMatch(t *testing.T, m *Matcher, v1, v2 View, o Options) *Result {
	t.Helper()
	r, err := m.Match(v1, v2, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Idx1) != len(r.Idx2) || len(r.Idx1) != len(r.Confidence) {
		t.Fatalf("lengths %d, %d, %d", len(r.Idx1), len(r.Idx2), len(r.Confidence))
	}
	for k := 1; k < len(r.Idx1); k++ {
		c := cmp.Or(cmp.Compare(r.Confidence[k], r.Confidence[k-1]), cmp.Compare(r.Idx1[k-1], r.Idx1[k]), cmp.Compare(r.Idx2[k-1], r.Idx2[k]))
		if c >= 0 {
			t.Fatalf("entry %d out of order", k)
		}
	}
	return r
}

type pair [2]int64

func pairSet(r *Result) map[pair]float32 {
	s := map[pair]float32{}
	for k := range r.Idx1 {
		s[pair{r.Idx1[k], r.Idx2[k]}] = r.Confidence[k]
	}
	return s
}

// all is the threshold that drops nothing.
var all = float32(math.Inf(-1))

// TestPlantedPermutation: a shuffled copy is recovered exactly, both ways.
func TestPlantedPermutation(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	m := newMatcher(t, 2)
	a := unit(r, 30, 41)
	perm := r.Perm(a.Pixels())
	b := Map{make([]float32, len(a.Data)), 41, 30, 24}
	for i, j := range perm {
		copy(b.Data[j*24:(j+1)*24], a.Data[i*24:(i+1)*24])
	}
	for _, oneWay := range []bool{false, true} {
		res := mustMatch(t, m, View{Desc: a}, View{Desc: b}, Options{Reciprocal: !oneWay, MinConfidence: 0.99})
		if len(res.Idx1) != a.Pixels() {
			t.Fatalf("%d matches, want %d", len(res.Idx1), a.Pixels())
		}
		for k, i := range res.Idx1 {
			if res.Idx2[k] != int64(perm[i]) {
				t.Fatalf("pixel %d matched %d, want %d", i, res.Idx2[k], perm[i])
			}
		}
	}
}

// TestDuplicates: of equal descriptors only the first of each side matches.
func TestDuplicates(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 2))
	m := newMatcher(t, 2)
	d := unit(r, 1, 3)
	rep := func(order ...int) Map {
		out := Map{nil, 1, len(order), 24}
		for _, i := range order {
			out.Data = append(out.Data, d.Data[i*24:(i+1)*24]...)
		}
		return out
	}
	res := mustMatch(t, m, View{Desc: rep(0, 0, 1, 2, 1)}, View{Desc: rep(2, 1, 2, 1, 0)}, Options{Reciprocal: true})
	want := map[pair]bool{{0, 4}: true, {2, 1}: true, {3, 0}: true}
	if len(res.Idx1) != len(want) {
		t.Fatalf("%d matches, want %d", len(res.Idx1), len(want))
	}
	for p := range pairSet(res) {
		if !want[p] {
			t.Errorf("unexpected match %v", p)
		}
	}
	// All equal scores: order falls back to the pixels.
	one := mustMatch(t, m, View{Desc: rep(0, 0, 0)}, View{Desc: rep(0, 0)}, Options{})
	if !slices.Equal(one.Idx1, []int64{0, 1, 2}) || !slices.Equal(one.Idx2, []int64{0, 0, 0}) {
		t.Errorf("ties: %v -> %v", one.Idx1, one.Idx2)
	}
}

// TestOptionsAgainstDefinition compares filters and order with a plain loop.
func TestOptionsAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 3))
	m := newMatcher(t, 2)
	v1, v2 := View{Desc: unit(r, 20, 25)}, View{Desc: unit(r, 22, 18)}
	for _, v := range []*View{&v1, &v2} {
		v.Weight = make([]float32, v.Desc.Pixels())
		for i := range v.Weight {
			v.Weight[i] = float32(math.Exp(r.NormFloat64()))
		}
	}
	nnA, nnB := bruteForce(v1.Desc, v2.Desc)
	for _, o := range []Options{
		{MinConfidence: all, Reciprocal: true}, {MinConfidence: 0.6, Reciprocal: true}, {MinConfidence: all, TopK: 7, Reciprocal: true}, {MinConfidence: all, TopK: 100000, Reciprocal: true},
		{MinConfidence: all, Weighted: true, Reciprocal: true}, {MinConfidence: 0.8, Weighted: true, Border: 3, Reciprocal: true}, {MinConfidence: all, Border: 11, Reciprocal: true},
		{MinConfidence: all}, {MinConfidence: 0.5, TopK: 50, Border: 1, Weighted: true},
	} {
		want := map[pair]float32{}
		for i, j := range nnA {
			c := (&Matcher{}).confidence(v1, v2, int32(i), j, o.Weighted)
			x1, y1, x2, y2 := i%25, i/25, int(j)%18, int(j)/18
			in := x1 >= o.Border && y1 >= o.Border && x1 < 25-o.Border && y1 < 20-o.Border &&
				x2 >= o.Border && y2 >= o.Border && x2 < 18-o.Border && y2 < 22-o.Border
			if (!o.Reciprocal || int(nnB[j]) == i) && in && c >= o.MinConfidence {
				want[pair{int64(i), int64(j)}] = c
			}
		}
		res := mustMatch(t, m, v1, v2, o)
		n := len(want)
		if o.TopK > 0 {
			n = min(n, o.TopK)
		}
		if len(res.Idx1) != n {
			t.Fatalf("%+v: %d matches, want %d", o, len(res.Idx1), n)
		}
		for p, c := range pairSet(res) {
			if w, ok := want[p]; !ok || w != c {
				t.Fatalf("%+v: match %v of confidence %v, want %v %v", o, p, c, w, ok)
			}
			delete(want, p)
		}
		for p, c := range want { // what TopK left out is no better
			if c > res.Confidence[n-1] {
				t.Fatalf("%+v: %v of confidence %v was dropped", o, p, c)
			}
		}
	}
}

// TestConfidenceIsTheScore: unit descriptors give the cosine, weighting the
// geometric mean of known weights.
func TestConfidenceIsTheScore(t *testing.T) {
	m := newMatcher(t, 1)
	v1 := View{Desc: Map{[]float32{1, 0, 0, 1}, 1, 2, 2}, Weight: []float32{4, 1}}
	v2 := View{Desc: Map{[]float32{0.6, 0.8, 1, 0}, 1, 2, 2}, Weight: []float32{9, 16}}
	res := mustMatch(t, m, v1, v2, Options{Reciprocal: true})
	if !slices.Equal(res.Idx1, []int64{0, 1}) || !slices.Equal(res.Idx2, []int64{1, 0}) || !slices.Equal(res.Confidence, []float32{1, 0.8}) {
		t.Errorf("plain: %+v", res)
	}
	res = mustMatch(t, m, v1, v2, Options{Weighted: true, Reciprocal: true})
	if !slices.Equal(res.Confidence, []float32{8, float32(0.8) * 3}) {
		t.Errorf("weighted: %+v", res)
	}
	v1.Weight[0] = float32(math.NaN())
	if res = mustMatch(t, m, v1, v2, Options{Weighted: true, MinConfidence: all, Reciprocal: true}); len(res.Idx1) != 1 {
		t.Errorf("NaN weight: %+v", res)
	}
	res = mustMatch(t, m, v1, v2, Options{MinWeight: 2, MinConfidence: all, Reciprocal: true})
	if len(res.Idx1) != 0 { // pixel 1 weighs 1, pixel 0 NaN
		t.Errorf("descriptor threshold: %+v", res)
	}
	v1.Weight[1] = 2 // the threshold itself is kept
	res = mustMatch(t, m, v1, v2, Options{MinWeight: 2, MinConfidence: all, Reciprocal: true})
	if !slices.Equal(res.Idx1, []int64{1}) || !slices.Equal(res.Idx2, []int64{0}) {
		t.Errorf("descriptor threshold: %+v", res)
	}
}

// TestMasks: a mask acts as if the other pixels did not exist.
func TestMasks(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 4))
	m := newMatcher(t, 2)
	d1, d2 := unit(r, 20, 21), unit(r, 19, 23)
	mask := func(n int) []uint8 {
		k := make([]uint8, n)
		for i := range k {
			k[i] = uint8(r.IntN(3)) // any value but 0 keeps
		}
		return k
	}
	v1, v2 := View{Desc: d1, Mask: mask(420)}, View{Desc: d2, Mask: mask(437)}
	masked := func(v View) Map {
		d := Map{slices.Clone(v.Desc.Data), v.Desc.Height, v.Desc.Width, 24}
		for i, k := range v.Mask {
			if k == 0 {
				d.Data[i*24] = float32(math.NaN())
			}
		}
		return d
	}
	for _, o := range []Options{{MinConfidence: all, Reciprocal: true}, {MinConfidence: all}, {MinConfidence: all, Subsample: 3, Reciprocal: true}} {
		got := pairSet(mustMatch(t, m, v1, v2, o))
		want := pairSet(mustMatch(t, m, View{Desc: masked(v1)}, View{Desc: masked(v2)}, o))
		if len(got) == 0 || len(got) != len(want) {
			t.Fatalf("%+v: %d matches, want %d", o, len(got), len(want))
		}
		for p := range got {
			if _, ok := want[p]; !ok || v1.Mask[p[0]] == 0 || v2.Mask[p[1]] == 0 {
				t.Fatalf("%+v: unexpected match %v", o, p)
			}
		}
	}
	v1.Mask = make([]uint8, 420)
	if res := mustMatch(t, m, v1, v2, Options{Reciprocal: true}); len(res.Idx1) != 0 {
		t.Errorf("everything masked: %d matches", len(res.Idx1))
	}
}

// TestSubsampleRelation is the relation that Options.Subsample documents.
func TestSubsampleRelation(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 5))
	m := newMatcher(t, 2)
	v1, v2 := View{Desc: smooth(r, 40, 48, 24)}, View{Desc: smooth(r, 44, 36, 24)}
	for _, oneWay := range []bool{false, true} {
		full := pairSet(mustMatch(t, m, v1, v2, Options{Reciprocal: !oneWay, MinConfidence: all}))
		for _, s := range []int{2, 3, 8, 100} {
			sub := pairSet(mustMatch(t, m, v1, v2, Options{Reciprocal: !oneWay, Subsample: s, MinConfidence: all}))
			if s < 100 && len(sub) == 0 || len(sub) > ceilDiv(40, s)*ceilDiv(48, s) {
				t.Errorf("subsample %d: %d matches", s, len(sub))
			}
			for p, c := range sub {
				if w, ok := full[p]; !ok || w != c {
					t.Fatalf("subsample %d: %v is not among the full matches", s, p)
				}
			}
			if !oneWay {
				continue
			}
			for _, seed := range grid(nil, v1.Desc, s) {
				found := false
				for p := range sub {
					found = found || p[0] == int64(seed)
				}
				if !found {
					t.Fatalf("subsample %d: seed %d has no match", s, seed)
				}
			}
		}
	}
}

func TestMatchThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 6))
	v1, v2 := View{Desc: field(r, 40, 50, 24, broken)}, View{Desc: field(r, 31, 60, 24, broken)}
	for _, o := range []Options{{MinConfidence: all, Reciprocal: true}, {MinConfidence: all, Subsample: 2, Reciprocal: true}, {MinConfidence: all}} {
		want := mustMatch(t, newMatcher(t, 1), v1, v2, o)
		for threads := 2; threads < 6; threads++ {
			got := mustMatch(t, newMatcher(t, threads), v1, v2, o)
			if !slices.Equal(got.Idx1, want.Idx1) || !slices.Equal(got.Idx2, want.Idx2) || !slices.Equal(got.Confidence, want.Confidence) {
				t.Errorf("%+v: %d threads differ from one", o, threads)
			}
		}
	}
}

func TestMatchEmptyAndErrors(t *testing.T) {
	m := newMatcher(t, 2)
	d := Map{make([]float32, 24), 2, 3, 4}
	for _, e := range []Map{{nil, 0, 7, 4}, {nil, 0, 0, 4}} {
		for _, o := range []Options{{Reciprocal: true}, {}, {Subsample: 8, Reciprocal: true}, {TopK: 3, Border: 2, MinWeight: 0, Reciprocal: true}} {
			for _, v := range [][2]Map{{e, d}, {d, e}, {e, e}} {
				res := mustMatch(t, m, View{Desc: v[0]}, View{Desc: v[1]}, o)
				if len(res.Idx1) != 0 || res.Idx1 == nil || res.Idx2 == nil || res.Confidence == nil {
					t.Errorf("empty side: %+v", res)
				}
			}
		}
	}
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		v    View
		o    Options
		want error
	}{
		"mask":               {View{Desc: d, Mask: make([]uint8, 5)}, Options{Reciprocal: true}, ErrShape},
		"empty mask":         {View{Desc: d, Mask: []uint8{}}, Options{Reciprocal: true}, ErrShape},
		"confidence":         {View{Desc: d, Weight: make([]float32, 7)}, Options{Reciprocal: true}, ErrShape},
		"no confidence":      {View{Desc: d}, Options{Weighted: true, Reciprocal: true}, ErrShape},
		"no confidence 2":    {View{Desc: d}, Options{MinWeight: 1, Reciprocal: true}, ErrShape},
		"subsample":          {View{Desc: d}, Options{Subsample: -1, Reciprocal: true}, ErrOption},
		"top k":              {View{Desc: d}, Options{TopK: -1, Reciprocal: true}, ErrOption},
		"border":             {View{Desc: d}, Options{Border: -1, Reciprocal: true}, ErrOption},
		"threshold":          {View{Desc: d}, Options{MinConfidence: nan, Reciprocal: true}, ErrOption},
		"negative threshold": {View{Desc: d, Weight: make([]float32, 6)}, Options{MinWeight: -1, Reciprocal: true}, ErrOption},
		"map":                {View{Desc: Map{nil, 2, 3, 4}}, Options{Reciprocal: true}, ErrShape},
	} {
		if _, err := m.Match(c.v, View{Desc: d, Weight: make([]float32, 6)}, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s, view 1: error %v, want %v", name, err, c.want)
		}
		if _, err := m.Match(View{Desc: d, Weight: make([]float32, 6)}, c.v, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s, view 2: error %v, want %v", name, err, c.want)
		}
	}
}

// TestSorted: keys of candidates are sorted, with many ties, any number of them.
func TestSorted(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{0, 1, 2, 2047, 2048, 2049, 50_000} {
		for _, mask := range []uint64{math.MaxUint64, 0xff << 32, 0x7ff800_00000000, 0} {
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = r.Uint64()&mask&^math.MaxUint32 | uint64(i)
			}
			want := slices.Clone(keys)
			slices.Sort(want)
			if got := sorted(keys, make([]uint64, n)); !slices.Equal(got, want) {
				t.Errorf("%d keys within %#x are not in order", n, mask)
			}
		}
	}
}

func TestDescendingKey(t *testing.T) {
	inf := float32(math.Inf(1))
	order := []float32{inf, 3e38, 1.5, 1, 1e-45, 0, -1e-45, -2, -inf}
	for i, c := range order {
		if got := fromDescending(descending(c)); got != c {
			t.Errorf("%v comes back as %v", c, got)
		}
		if i > 0 && descending(order[i-1]) >= descending(c) {
			t.Errorf("%v does not sort before %v", order[i-1], c)
		}
	}
	neg := float32(math.Copysign(0, -1))
	if c := (&Matcher{}).confidence(View{Desc: Map{[]float32{neg}, 1, 1, 1}}, View{Desc: Map{[]float32{1}, 1, 1, 1}}, 0, 0, false); math.Signbit(float64(c)) {
		t.Error("a confidence of -0 would sort after 0")
	}
	if kernel.Dot([]float32{neg}, []float32{1}) != 0 {
		t.Error("-0")
	}
}
