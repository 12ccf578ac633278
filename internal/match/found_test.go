// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// finderOf answers by another Matcher. Scores and neighbours of pixels that are left
// out are rubbish, as those of a GPU may be.
func finderOf(m *Matcher, asked *int) Finder {
	return func(v1, v2 View) (n [2]Neighbours, ok bool, err error) {
		*asked++
		a, b := v1.Desc, v2.Desc
		m.prepare(&m.a, a, v1.Mask)
		m.prepare(&m.b, b, v2.Mask)
		if m.a.n > 0 && m.b.n > 0 {
			if err := m.nearestBoth(); err != nil {
				return n, false, err
			}
		}
		nn := [2][]int32{m.nnA, m.nnB}
		data := [2]Map{a, b}
		for i, s := range []*side{&m.a, &m.b} {
			o := []*side{&m.b, &m.a}[i]
			pixels := data[i].Pixels()
			n[i] = Neighbours{make([]int32, pixels), make([]float32, pixels), make([]uint8, pixels)}
			for p := range pixels {
				n[i].To[p], n[i].Score[p] = 1<<30, float32(math.NaN())
			}
			for c, p := range s.index[:s.n] {
				n[i].Used[p] = 1
				if o.n == 0 {
					continue
				}
				q := o.index[nn[i][c]]
				n[i].To[p] = q
				n[i].Score[p] = kernel.Dot(data[i].Data[int(p)*a.Dim:][:a.Dim], data[1-i].Data[int(q)*a.Dim:][:a.Dim])
			}
		}
		return n, true, nil
	}
}

// TestFound: with the neighbours found by somebody else, Match gives the same result
// to the last bit, for every kind of search, with masks and unusable descriptors.
func TestFound(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	const h, w, dim = 96, 176, 24 // more than finderPairs
	r := rand.New(rand.NewPCG(31, 1))
	a, b := unit(r, h, w), unit(r, h, w)
	copy(b.Data[:len(b.Data)/2], a.Data[dim*7:]) // many mutual pairs
	a.Data[5*dim+3], b.Data[9*dim] = float32(math.NaN()), float32(math.Inf(1))
	weight := make([]float32, h*w)
	mask := make([]uint8, h*w)
	for i := range weight {
		weight[i], mask[i] = float32(i%5), uint8(i%3)
	}
	none := make([]uint8, h*w)
	for name, o := range map[string]Options{
		"reciprocal": {Reciprocal: true}, "one way": {}, "seeds": {Reciprocal: true, Subsample: 8},
		"both ways": {Reciprocal: true, Subsample: 8, BothWays: true, Subpixel: true}, "one way seeds": {Subsample: 4},
		"weights": {Reciprocal: true, MinWeight: 2, Weighted: true, TopK: 50, Spread: true},
	} {
		for _, m := range [][]uint8{nil, mask, none} {
			v1, v2 := View{Desc: a, Mask: m, Weight: weight}, View{Desc: b, Weight: weight}
			want, err := New(pool).Match(v1, v2, o)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			got, err := New(pool).Find(finderOf(New(pool), &asked)).Match(v1, v2, o)
			if err != nil || asked != 1 {
				t.Fatalf("%s: asked %d times, %v", name, asked, err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, mask %v: %d matches, want %d, or others", name, m != nil, len(got.Idx1), len(want.Idx1))
			}
			if m == nil && len(want.Idx1) == 0 {
				t.Errorf("%s: no matches: nothing is compared", name)
			}
		}
	}
}

// TestFinderDeclines: without an answer the CPU works, and a failure is reported.
func TestFinderDeclines(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	r := rand.New(rand.NewPCG(31, 2))
	a, b := unit(r, 96, 176), unit(r, 96, 176)
	v1, v2 := View{Desc: a}, View{Desc: b}
	want, err := New(pool).Match(v1, v2, Options{Reciprocal: true})
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("broken")
	for _, c := range []struct {
		ok  bool
		err error
	}{{false, nil}, {false, failure}} {
		m := New(pool).Find(func(_, _ View) (n [2]Neighbours, ok bool, err error) { return n, c.ok, c.err })
		got, err := m.Match(v1, v2, Options{Reciprocal: true})
		if !errors.Is(err, c.err) || c.err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	small := unit(r, 8, 8)
	m := New(pool).Find(func(_, _ View) ([2]Neighbours, bool, error) {
		t.Error("asked for a small map")
		return [2]Neighbours{}, false, nil
	})
	if _, err := m.Match(View{Desc: small}, View{Desc: small}, Options{Reciprocal: true}); err != nil {
		t.Error(err)
	}
}

// farMap counts how it is read.
type farMap struct {
	m         Map
	all, rows int
}

func (f *farMap) All() ([]float32, error) { f.all++; return f.m.Data, nil }

func (f *farMap) Rows(pixels []int32) (out []float32, err error) {
	f.rows++
	for _, p := range pixels {
		out = append(out, f.m.Data[int(p)*f.m.Dim:][:f.m.Dim]...)
	}
	return out, nil
}

// TestFar: descriptors that the host cannot read give the same matches; where somebody else
// finds the neighbours, they are not brought, and of them only those beside the matches.
func TestFar(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	const h, w, dim = 96, 176, 24
	r := rand.New(rand.NewPCG(31, 1))
	a, b := unit(r, h, w), unit(r, h, w)
	copy(b.Data[:len(b.Data)/2], a.Data[dim*7:])
	o := Options{Reciprocal: true, Subsample: 8, BothWays: true, Subpixel: true}
	want, err := New(pool).Match(View{Desc: a}, View{Desc: b}, o)
	if err != nil {
		t.Fatal(err)
	}
	far := func(m Map) (View, *farMap) {
		f := &farMap{m: m}
		return View{Desc: Map{Height: m.Height, Width: m.Width, Dim: m.Dim}, Far: f}, f
	}
	for _, found := range []bool{true, false} {
		m, asked := New(pool), 0
		if found {
			other := finderOf(New(pool), &asked)
			m.Find(func(x, y View) ([2]Neighbours, bool, error) {
				x.Desc, y.Desc = x.Far.(*farMap).m, y.Far.(*farMap).m
				return other(x, y)
			})
		}
		d1, f1 := far(a)
		d2, f2 := far(b)
		got, err := m.Match(d1, d2, o)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("found %v: %d matches, want the same %d", found, len(got.Idx1), len(want.Idx1))
		}
		for _, f := range []*farMap{f1, f2} {
			if found && (f.all != 0 || f.rows != 1) || !found && (f.all != 1 || f.rows != 0) {
				t.Errorf("found %v: the whole map was read %d times, rows %d times", found, f.all, f.rows)
			}
		}
	}
}
