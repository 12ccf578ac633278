// SPDX-License-Identifier: Apache-2.0

package match

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
)

// reference is one file of reference data.
type reference struct {
	*golden.Case
	t *testing.T
}

func openReference(t *testing.T, path string) reference { return reference{golden.Load(t, path), t} }

// openTestdata unpacks the reference data that travels with the package.
func openTestdata(t *testing.T, name string) reference {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return openReference(t, path)
}

func (g reference) floats(name string) []float32 {
	v, _ := g.Floats(g.t, name)
	return v
}

func (g reference) desc(name string) Map {
	v, s := g.Floats(g.t, name)
	if len(s) != 3 {
		g.t.Fatalf("%s: shape %v is no map", name, s)
	}
	return Map{v, s[0], s[1], s[2]}
}

func (g reference) int32s(name string) []int32 {
	v, _ := g.Ints(g.t, name)
	out := make([]int32, len(v))
	for i := range v {
		out[i] = int32(v[i])
	}
	return out
}

// pairs checks a list of pixels against out.NAME.xy1/xy2, stored as (x, y).
func (g reference) pairs(name string, p Pairs, err error, w1, w2 int) {
	g.t.Helper()
	if err != nil {
		g.t.Fatalf("%s: %v", name, err)
	}
	for side, got := range [2][]int32{p.Idx1, p.Idx2} {
		width := [2]int{w1, w2}[side]
		xy := g.int32s("out." + name + [2]string{".xy1", ".xy2"}[side])
		want := make([]int32, len(xy)/2)
		for i := range want {
			want[i] = xy[2*i+1]*int32(width) + xy[2*i]
		}
		if !slices.Equal(got, want) {
			g.t.Fatalf("%s: side %d: %d pixels differ from the reference's %d", name, side+1, len(got), len(want))
		}
	}
}

func newMatcher(t testing.TB, threads int) *Matcher {
	pool := par.New(threads)
	t.Cleanup(pool.Close)
	return New(pool)
}

// TestGoldenSizes: maps of different sizes whose scores are exact in float32
// in any order of summation, so there is no excuse for a difference.
func TestGoldenSizes(t *testing.T) {
	g := openTestdata(t, "match_sizes.safetensors")
	m := newMatcher(t, 2)
	a, b := g.desc("in.desc1"), g.desc("in.desc2")
	nnA, nnB := make([]int32, a.Pixels()), make([]int32, b.Pixels())
	if err := m.Nearest(a, b, nnA, nnB); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(nnA, g.int32s("out.brute.nn_A")) || !slices.Equal(nnB, g.int32s("out.brute.nn_B")) {
		t.Error("brute force neighbours differ")
	}
	p, err := m.fastReciprocal(a, b, 3)
	g.pairs("fast3", p, err, a.Width, b.Width)
	p, err = m.fastReciprocal(a, b, 8)
	g.pairs("fast8", p, err, a.Width, b.Width)
	p, err = m.fastReciprocal(b, a, 8)
	g.pairs("fast8_21", p, err, b.Width, a.Width)
}

// TestGoldenMaps: every variant on planted, noisy correspondences.
func TestGoldenMaps(t *testing.T) {
	g := openReference(t, golden.Path(t, "golden", "matching", "match_96x128.safetensors"))
	m := newMatcher(t, 2)
	a, b := g.desc("in.desc11"), g.desc("in.desc21")
	w := a.Width
	if m.kern.ISA != isa.Portable && !testing.Short() { // 151 million pairs take it a minute
		nnA, nnB := make([]int32, a.Pixels()), make([]int32, b.Pixels())
		if err := m.Nearest(a, b, nnA, nnB); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(nnA, g.int32s("out.brute.nn_A")) || !slices.Equal(nnB, g.int32s("out.brute.nn_B")) {
			t.Error("brute force neighbours differ")
		}
	}
	for name, s := range map[string]int{"fast4": 4, "fast5": 5, "fast8": 8, "fast16": 16} {
		p, err := m.fastReciprocal(a, b, s)
		g.pairs(name, p, err, w, w)
	}
	p, err := m.fastReciprocal(b, a, 8)
	g.pairs("fast8_21", p, err, w, w)

	p, err = m.fastReciprocal(a, b, 8)
	g.pairs("fast8", p, err, w, w)
	if !slices.Equal(p.Idx1, g.int32s("out.fast8_idx.i1")) || !slices.Equal(p.Idx2, g.int32s("out.fast8_idx.i2")) {
		t.Error("fast8 linear indices differ")
	}
}

// hashBits is the reference data's hash generator (golden.md 1).
func hashBits(name string, i uint64) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	z := h + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// planted384 makes the 384x512 pair of golden.md 7.
func planted384() (a, b Map, conf [2][]float32) {
	const h, w, c = 384, 512, 24
	component := func(name string, i int) int {
		u := hashBits(name, uint64(i))
		m := 256 + int(u>>48&255)
		if u>>63 != 0 {
			return -m
		}
		return m
	}
	d1, d2 := make([]float32, h*w*c), make([]float32, h*w*c)
	for i := range d1 {
		y, x, k := i/c/w, i/c%w, i%c
		d1[i] = float32(component("match384/d1", i)) / 512
		v := component("match384/d2", i)
		if y < 373 && x < 384 {
			from := ((y+11)*w+x+17)*c + k
			v = component("match384/d1", from) + int(hashBits("match384/noise", uint64(i))>>56) - 128
		}
		d2[i] = float32(v) / 512
	}
	for s, name := range []string{"match384/c1", "match384/c2"} {
		conf[s] = make([]float32, h*w)
		for j := range conf[s] {
			conf[s][j] = float32(1 + float64(hashBits(name, uint64(j))>>48)/65536)
		}
	}
	return Map{d1, h, w, c}, Map{d2, h, w, c}, conf
}

func TestGoldenFullSize(t *testing.T) {
	if testing.Short() {
		t.Skip("full-size maps in -short mode")
	}
	if kernel.Best().ISA == isa.Portable {
		t.Skip("full-size maps take minutes without an assembly kernel")
	}
	g := openReference(t, golden.Path(t, "golden", "matching", "match_384x512.safetensors"))
	a, b, conf := planted384()
	for name, got := range map[string][]float32{"check.desc1_head": a.Data, "check.desc2_head": b.Data, "check.conf1_head": conf[0]} {
		if want := g.floats(name); !slices.Equal(got[:len(want)], want) {
			t.Fatalf("%s: the generator is wrong", name)
		}
	}
	m := newMatcher(t, 2)
	p, err := m.fastReciprocal(a, b, 8)
	g.pairs("fast8", p, err, a.Width, b.Width)
	if !slices.Equal(p.Idx1, g.int32s("out.fast8_idx.i1")) || !slices.Equal(p.Idx2, g.int32s("out.fast8_idx.i2")) {
		t.Error("linear indices differ")
	}
}
