// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
)

// int8Matcher returns a Matcher that always uses the prefilter.
func int8Matcher(t testing.TB, threads int) *Matcher {
	m := newMatcher(t, threads)
	if m.kern.Int8 == nil {
		t.Skip("no byte products on this machine")
	}
	m.prefilter = prefilterAlways
	return m
}

// TestPrefilter compares with the definition on every kind of data, the flat
// kinds being where most strips survive.
func TestPrefilter(t *testing.T) {
	ms := []*Matcher{int8Matcher(t, 1), int8Matcher(t, 2)}
	if !isa.AVX512AMX.Usable() {
		defer isa.ModelTiles()() // then the strips run their model
	}
	for _, k := range kernel.All() {
		if k.Int8 != nil && k.Int8.Tiles {
			m := newWith(ms[1].pool, k)
			m.prefilter = prefilterAlways
			ms = append(ms, m)
		}
	}
	for kind := range kinds {
		for _, dim := range []int{24, 1, 3, 30, 64} {
			r := rand.New(rand.NewPCG(uint64(kind), uint64(dim)))
			checkNearest(t, field(r, 7, 9, dim, kind), field(r, 5, 13, dim, kind), ms...)
			checkNearest(t, field(r, 1, 13, dim, kind), field(r, 40, 60, dim, kind), ms...)
			checkNearest(t, field(r, 40, 60, dim, kind), field(r, 3, 2, dim, kind), ms...)
		}
	}
}

// TestPrefilterScales: sizes of values that are tiny, subnormal or huge, or
// differ between the maps, do not break the bound.
func TestPrefilterScales(t *testing.T) {
	m := int8Matcher(t, 2)
	for _, s := range [][2]float32{{1, 1}, {0x1p40, 0x1p-40}, {0x1p44, 0x1p44}, {0x1p-60, 0x1p-60}, {0x1p-75, 0x1p-70}, {0x1p-120, 1}, {0x1p-145, 0x1p3}} {
		r := rand.New(rand.NewPCG(1, 2))
		a, b := field(r, 20, 30, 24, ties), field(r, 33, 41, 24, random)
		for i := range a.Data {
			a.Data[i] *= s[0]
		}
		for i := range b.Data {
			b.Data[i] *= s[1]
		}
		checkNearest(t, a, b, m)
	}
}

// TestPrefilterNegative: where every score is negative, or so small that all
// round to the same zero, no neighbour is lost below a floor of 0.
func TestPrefilterNegative(t *testing.T) {
	m := int8Matcher(t, 2)
	for _, s := range []float32{1, 0x1p-60, 0x1p-76, 0x1p-97} {
		r := rand.New(rand.NewPCG(1, 3))
		a, b := field(r, 20, 30, 24, random), field(r, 33, 41, 24, random)
		for i, v := range a.Data {
			a.Data[i] = s * max(v, -v)
		}
		for i, v := range b.Data {
			b.Data[i] = s * min(v, -v)
			if i >= len(b.Data)/2 {
				b.Data[i] /= 8 // the best come late
			}
		}
		checkNearest(t, a, b, m)
		if !m.int8.ready {
			t.Errorf("scale %v: the prefilter did not run", s)
		}
		for i := range 100 * 24 { // positive, unless they all round to zero
			b.Data[len(b.Data)-1-i] *= -1
		}
		checkNearest(t, a, b, m)
	}
}

// TestPrefilterRuns makes sure that the tests above test the prefilter, both
// with few survivors and through the float fallback of a flat tile.
func TestPrefilterRuns(t *testing.T) {
	m := int8Matcher(t, 1)
	r := rand.New(rand.NewPCG(4, 4))
	for _, c := range []struct {
		kind int
		flat bool
	}{{random, false}, {flat, true}} {
		a, b := field(r, 100, 60, 24, c.kind), field(r, 100, 60, 24, c.kind)
		m.prepare(&m.a, a, nil)
		m.prepare(&m.b, b, nil)
		m.nnA, m.nnB = grow(m.nnA, m.a.n), grow(m.nnB, m.b.n)
		if !m.nearestInt8() {
			t.Fatal("the prefilter refused to run")
		}
		if rest := m.sampleRest(&m.workers[0], &m.a, &m.b, m.nnA); (rest == 1) != c.flat {
			t.Errorf("kind %d: %.3f of the pairs are left", c.kind, rest)
		}
	}
	m.prefilter, m.int8.ready = prefilterAuto, false
	if m.nearestInt8() {
		t.Error("the prefilter ran on a map that is too small for it")
	}
}

// TestPrefilterMatchesFloatPass compares with the float pass at a size with
// many strips and blocks, on smooth data with ties; the share of survivors is
// between the extremes.
func TestPrefilterMatchesFloatPass(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	m := int8Matcher(t, 2)
	a, b := smooth(r, 96, 100, 24), smooth(r, 90, 110, 24)
	copy(a.Data[5000*24:7000*24], a.Data[100*24:])
	copy(b.Data[2000*24:6000*24], a.Data[1000*24:])
	a.Data[12345] = float32(math.NaN())
	var nn [2][2][]int32
	for i, mode := range []prefilterMode{prefilterAlways, prefilterOff} {
		m.prefilter = mode
		nn[i] = [2][]int32{make([]int32, a.Pixels()), make([]int32, b.Pixels())}
		if err := m.Nearest(a, b, nn[i][0], nn[i][1]); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(nn[0][0], nn[1][0]) || !slices.Equal(nn[0][1], nn[1][1]) {
		t.Error("prefiltered and float neighbours differ")
	}
}

// TestPrefilterQueries: the seeded and the one-way search give the same with
// and without the prefilter, on every kind of data, in maps of several strips,
// and over more queries than one slab (131 * 132).
func TestPrefilterQueries(t *testing.T) {
	m := int8Matcher(t, 2)
	type maps struct{ a, b Map }
	r := rand.New(rand.NewPCG(4, 6))
	pairs := []maps{{smooth(r, 70, 100, 24), smooth(r, 60, 110, 24)}, {field(r, 131, 132, 5, ties), field(r, 30, 40, 5, ties)}}
	for kind := range kinds {
		pairs = append(pairs, maps{field(r, 40, 60, 24, kind), field(r, 50, 60, 24, kind)})
	}
	for i, p := range pairs {
		for _, o := range []Options{{Subsample: 8, Reciprocal: true}, {Subsample: 3, Reciprocal: true}, {}, {Subsample: 5}} {
			o.MinConfidence = negInf
			var got [2]*Result
			for j, mode := range []prefilterMode{prefilterAlways, prefilterOff} {
				m.prefilter = mode
				var err error
				if got[j], err = m.Match(View{Desc: p.a}, View{Desc: p.b}, o); err != nil {
					t.Fatal(err)
				}
				// All zeros have no scale.
				if want := mode == prefilterAlways && m.a.abs > 0; m.int8.ready != want {
					t.Fatalf("pair %d, mode %v: prefilter used: %v", i, mode, m.int8.ready)
				}
			}
			if !slices.Equal(got[0].Idx1, got[1].Idx1) || !slices.Equal(got[0].Idx2, got[1].Idx2) {
				t.Errorf("pair %d, %+v: %d and %d matches differ", i, o, len(got[0].Idx1), len(got[1].Idx1))
			}
		}
	}
}

func FuzzPrefilter(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(40), uint8(24), uint8(0), int8(0), int8(0))
	f.Add(uint64(2), uint8(20), uint8(4), uint8(5), uint8(3), int8(-40), int8(30))
	m := int8Matcher(f, 2)
	f.Fuzz(func(t *testing.T, seed uint64, n1, n2, dim, kind uint8, e1, e2 int8) {
		r := rand.New(rand.NewPCG(seed, 0))
		d := 1 + int(dim%int8MaxDim)
		a, b := field(r, 1, int(n1), d, int(kind)%kinds), field(r, int(n2), 5, d, int(kind)%kinds)
		for i := range a.Data {
			a.Data[i] = float32(math.Ldexp(float64(a.Data[i]), int(e1)))
		}
		for i := range b.Data {
			b.Data[i] = float32(math.Ldexp(float64(b.Data[i]), int(e2)))
		}
		checkNearest(t, a, b, m)
		nnA, _ := bruteForce(a, b)
		m.round(math.MaxInt)
		found := make([]int32, m.a.n)
		all := make([]int32, m.a.n)
		for i := range all {
			all[i] = int32(i)
		}
		if m.b.n == 0 {
			return
		}
		if err := m.nearestOf(&m.a, all, nil, &m.b, found); err != nil {
			t.Fatal(err)
		}
		for i, j := range found {
			if got, want := m.b.index[j], nnA[m.a.index[i]]; got != want {
				t.Fatalf("query %d: %d, want %d", m.a.index[i], got, want)
			}
		}
	})
}
