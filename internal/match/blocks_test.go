// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// unitMap brings a map's descriptors to length 1.
func unitMap(d Map) Map {
	for i := 0; i < len(d.Data); i += d.Dim {
		row, square := d.Data[i:i+d.Dim], 0.0
		for _, v := range row {
			square += float64(v) * float64(v)
		}
		if square == 0 {
			row[0], square = 1, 1
		}
		for k := range row {
			row[k] = float32(float64(row[k]) / math.Sqrt(square))
		}
	}
	return d
}

// gentle is a map whose neighbouring descriptors are alike in both directions.
func gentle(r *rand.Rand, h, w int) Map {
	d := field(r, h, w, 24, random)
	for i := range d.Data {
		if y := i / 24 / w; y > 0 {
			d.Data[i] = 0.5*d.Data[i] + d.Data[i-24*w]
		}
		if x := i / 24 % w; x > 0 {
			d.Data[i] = 0.5*d.Data[i] + d.Data[i-24]
		}
	}
	return unitMap(d)
}

// TestBlockSearch: the search by blocks finds what the plain one finds, on maps that are
// gentle, wild, flat, the same, opposite or full of copies, of any size, masked or not.
func TestBlockSearch(t *testing.T) {
	ms := []*Matcher{int8Matcher(t, 1), int8Matcher(t, 3)}
	plain := newMatcher(t, 2)
	plain.prefilter = prefilterOff
	if ms[0].kern.Blocks == nil {
		t.Skip("no kernel for blocks on this machine")
	}
	r := rand.New(rand.NewPCG(8, 8))
	type maps struct{ a, b Map }
	pairs := map[string]maps{
		"gentle":   {gentle(r, 60, 70), gentle(r, 45, 83)},
		"tiny":     {gentle(r, 3, 2), gentle(r, 1, 5)},
		"wild":     {unitMap(field(r, 40, 41, 24, random)), unitMap(field(r, 40, 42, 24, random))},
		"ties":     {unitMap(field(r, 40, 41, 24, ties)), unitMap(field(r, 40, 42, 24, ties))},
		"flat":     {unitMap(field(r, 20, 30, 24, flat)), unitMap(field(r, 20, 30, 24, flat))},
		"copies":   {gentle(r, 60, 64), gentle(r, 60, 64)},
		"shifted":  {gentle(r, 64, 64), gentle(r, 64, 64)},
		"opposite": {gentle(r, 30, 30), gentle(r, 30, 30)},
	}
	c := pairs["copies"]
	copy(c.b.Data[1000*24:], c.a.Data[500*24:1500*24])
	copy(c.b.Data[2500*24:], c.a.Data[500*24:1500*24])
	copy(c.a.Data[2000*24:], c.b.Data[1000*24:1800*24])
	s := pairs["shifted"]
	copy(s.b.Data[(3*64+5)*24:], s.a.Data)
	o := pairs["opposite"]
	for i := range o.b.Data {
		o.b.Data[i] = -o.a.Data[i]
	}
	for name, p := range pairs {
		for _, masked := range []bool{false, true} {
			v1, v2 := View{Desc: p.a}, View{Desc: p.b}
			if masked {
				v1.Mask, v2.Mask = patches(r, p.a), patches(r, p.b)
			}
			for _, o := range []Options{{Subsample: 8}, {Subsample: 2}, {Subsample: 3, BothWays: true}, {}} {
				o.Reciprocal, o.MinConfidence = true, negInf
				checkBlockSearch(t, name, plain, ms, v1, v2, o)
			}
		}
	}
}

// patches masks a map but for every other square of 7 x 7 pixels, and a few pixels more.
func patches(r *rand.Rand, d Map) []uint8 {
	mask := make([]uint8, d.Pixels())
	for i := range mask {
		if (i/d.Width/7+i%d.Width/7)%2 == 0 && r.IntN(20) > 0 {
			mask[i] = 1
		}
	}
	return mask
}

func checkBlockSearch(t *testing.T, name string, plain *Matcher, ms []*Matcher, v1, v2 View, o Options) {
	t.Helper()
	want, err := plain.Match(v1, v2, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		got, err := m.Match(v1, v2, o)
		if err != nil {
			t.Fatal(err)
		}
		if !m.blocks.ready {
			t.Fatalf("%s: not searched by blocks", name)
		}
		if !slices.Equal(got.Idx1, want.Idx1) || !slices.Equal(got.Idx2, want.Idx2) || !slices.Equal(got.Confidence, want.Confidence) {
			t.Errorf("%s, every %d pixels, both ways %v, masked %v: %d matches, want %d, or others", name, o.Subsample, o.BothWays, v1.Mask != nil, len(got.Idx1), len(want.Idx1))
		}
	}
}

// TestBlockSearchDeclines: descriptors of another length than 1, or too wild for blocks to
// pay, go the other way.
func TestBlockSearchDeclines(t *testing.T) {
	m := int8Matcher(t, 1)
	if m.kern.Blocks == nil {
		t.Skip("no kernel for blocks on this machine")
	}
	r := rand.New(rand.NewPCG(9, 9))
	long := gentle(r, 40, 40)
	for k := range 24 {
		long.Data[24*77+k] *= 1.01
	}
	o := Options{Reciprocal: true, Subsample: 8}
	if _, err := m.Match(View{Desc: long}, View{Desc: gentle(r, 40, 40)}, o); err != nil || m.blocks.ready {
		t.Errorf("a descriptor of length 1.01: by blocks %v (%v)", m.blocks.ready, err)
	}
	m.prefilter = prefilterAuto
	wild := unitMap(field(r, 300, 300, 24, random))
	if _, err := m.Match(View{Desc: wild}, View{Desc: wild}, o); err != nil || m.blocks.ready {
		t.Errorf("noise: by blocks %v (%v)", m.blocks.ready, err)
	}
	tame := gentle(r, 300, 300)
	if _, err := m.Match(View{Desc: tame}, View{Desc: tame}, o); err != nil || m.blocks.ready == m.kern.Int8.Tiles { // see blockUp
		t.Errorf("a map matched with itself: by blocks %v (%v)", m.blocks.ready, err)
	}
	small := gentle(r, 20, 20)
	if _, err := m.Match(View{Desc: small}, View{Desc: small}, o); err != nil || m.blocks.ready {
		t.Errorf("a small map: by blocks %v (%v)", m.blocks.ready, err)
	}
}
