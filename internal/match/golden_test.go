// SPDX-License-Identifier: Apache-2.0

package match

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/match/kernel"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// golden is one file of reference data, decoded by hand: this package does not
// import the weights reader.
type golden struct {
	t     *testing.T
	f32   map[string][]float32
	ints  map[string][]int64
	shape map[string][]int
}

// shared returns a file of the reference data beside the repository, or skips.
func shared(t testing.TB, elem ...string) string {
	t.Helper()
	root := os.Getenv("MAST3R_SHARED")
	for dir, _ := filepath.Abs("."); root == "" && filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if s, err := os.Stat(filepath.Join(dir, "shared", "golden")); err == nil && s.IsDir() {
			root = filepath.Join(dir, "shared")
		}
	}
	path := filepath.Join(append([]string{root}, elem...)...)
	if _, err := os.Stat(path); root == "" || err != nil {
		t.Skipf("reference data %v not found: set MAST3R_SHARED to its folder", elem)
	}
	return path
}

func loadGolden(t *testing.T, path string) *golden {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(path) == ".gz" {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if data, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	n := binary.LittleEndian.Uint64(data)
	var header map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	g := &golden{t, map[string][]float32{}, map[string][]int64{}, map[string][]int{}}
	for name, raw := range header {
		if name == "__metadata__" {
			continue
		}
		var e struct {
			Dtype   string
			Shape   []int
			Offsets [2]uint64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		g.add(name, e.Dtype, e.Shape, data[8+n+e.Offsets[0]:8+n+e.Offsets[1]])
	}
	return g
}

func (g *golden) add(name, dtype string, shape []int, b []byte) {
	g.shape[name] = shape
	switch dtype {
	case "F32":
		v := make([]float32, len(b)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		g.f32[name] = v
	case "I32":
		v := make([]int64, len(b)/4)
		for i := range v {
			v[i] = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		}
		g.ints[name] = v
	case "I64":
		v := make([]int64, len(b)/8)
		for i := range v {
			v[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		}
		g.ints[name] = v
	default:
		g.t.Fatalf("%s: dtype %s", name, dtype)
	}
}

func (g *golden) desc(name string) Map {
	s := g.shape[name]
	if len(s) != 3 {
		g.t.Fatalf("no map %s", name)
	}
	return Map{g.f32[name], s[0], s[1], s[2]}
}

func (g *golden) int32s(name string) []int32 {
	v, ok := g.ints[name]
	if !ok {
		g.t.Fatalf("no integers %s", name)
	}
	out := make([]int32, len(v))
	for i := range v {
		out[i] = int32(v[i])
	}
	return out
}

// pairs checks a list of pixels against out.NAME.xy1/xy2, stored as (x, y).
func (g *golden) pairs(name string, p Pairs, err error, w1, w2 int) {
	g.t.Helper()
	if err != nil {
		g.t.Fatalf("%s: %v", name, err)
	}
	for side, got := range [2][]int32{p.Idx1, p.Idx2} {
		width := [2]int{w1, w2}[side]
		xy, ok := g.ints["out."+name+[2]string{".xy1", ".xy2"}[side]]
		if !ok || len(xy) == 0 {
			g.t.Fatalf("%s: no reference", name)
		}
		want := make([]int32, len(xy)/2)
		for i := range want {
			want[i] = int32(xy[2*i+1])*int32(width) + int32(xy[2*i])
		}
		if !slices.Equal(got, want) {
			g.t.Fatalf("%s: side %d: %d pixels differ from the reference's %d", name, side+1, len(got), len(want))
		}
	}
}

func (g *golden) conf(name string, got []float32) {
	g.t.Helper()
	if want := g.f32["out."+name+".conf"]; !slices.Equal(got, want) {
		g.t.Errorf("%s: confidences differ", name)
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
	g := loadGolden(t, "testdata/match_sizes.safetensors.gz")
	m := newMatcher(t, 2)
	a, b := g.desc("in.desc1"), g.desc("in.desc2")
	nnA, nnB := make([]int32, a.Pixels()), make([]int32, b.Pixels())
	if err := m.Nearest(a, b, nnA, nnB); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(nnA, g.int32s("out.brute.nn_A")) || !slices.Equal(nnB, g.int32s("out.brute.nn_B")) {
		t.Error("brute force neighbours differ")
	}
	p, err := m.FastReciprocal(a, b, FastOptions{Subsample: 3})
	g.pairs("fast3", p, err, a.Width, b.Width)
	p, err = m.FastReciprocal(a, b, FastOptions{Subsample: 8})
	g.pairs("fast8", p, err, a.Width, b.Width)
	p, err = m.FastReciprocal(b, a, FastOptions{Subsample: 8})
	g.pairs("fast8_21", p, err, b.Width, a.Width)
	c, err := m.CorrespondencesNonsym(a, b, g.f32["in.conf1"], g.f32["in.conf2"], 4, 0)
	g.pairs("corres_nonsym4", c.Pairs, err, a.Width, b.Width)
	g.conf("corres_nonsym4", c.Conf)
}

// TestGoldenMaps: every variant on planted, noisy correspondences.
func TestGoldenMaps(t *testing.T) {
	g := loadGolden(t, shared(t, "golden", "matching", "match_96x128.safetensors"))
	m := newMatcher(t, 2)
	a, b := g.desc("in.desc11"), g.desc("in.desc21")
	w := a.Width
	if m.kern.Name != "portable" { // 151 million pairs take it a minute
		nnA, nnB := make([]int32, a.Pixels()), make([]int32, b.Pixels())
		if err := m.Nearest(a, b, nnA, nnB); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(nnA, g.int32s("out.brute.nn_A")) || !slices.Equal(nnB, g.int32s("out.brute.nn_B")) {
			t.Error("brute force neighbours differ")
		}
	}
	for name, s := range map[string]int{"fast4": 4, "fast5": 5, "fast8": 8, "fast16": 16} {
		p, err := m.FastReciprocal(a, b, FastOptions{Subsample: s})
		g.pairs(name, p, err, w, w)
	}
	p, err := m.FastReciprocal(b, a, FastOptions{Subsample: 8})
	g.pairs("fast8_21", p, err, w, w)

	basin := make([]int32, a.Pixels())
	p, err = m.FastReciprocal(a, b, FastOptions{Subsample: 8, Basin: basin})
	g.pairs("fast8_basin", p, err, w, w)
	// The reference's map has one more entry, for its "no pixel" of -1.
	if want := g.int32s("out.fast8_basin.basin"); !slices.Equal(basin, want[:len(basin)]) {
		t.Error("basins differ")
	}
	if !slices.Equal(p.Idx1, g.int32s("out.fast8_idx.i1")) || !slices.Equal(p.Idx2, g.int32s("out.fast8_idx.i2")) {
		t.Error("fast8 linear indices differ")
	}
	p, err = m.FastReciprocal(a, b, FastOptions{Seeds: grid(nil, a, 8), PixelTol: 5})
	g.pairs("tol5", p, err, w, w)
	var seeds []int32
	for i, x := range g.ints["in.points_x"] {
		seeds = append(seeds, int32(g.ints["in.points_y"][i])*int32(w)+int32(x))
	}
	p, err = m.FastReciprocal(a, b, FastOptions{Seeds: seeds})
	g.pairs("points_tol0", p, err, w, w)
	p, err = m.FastReciprocal(a, b, FastOptions{Seeds: seeds, PixelTol: 3})
	g.pairs("points_tol3", p, err, w, w)
}

func TestGoldenCorrespondences(t *testing.T) {
	g := loadGolden(t, shared(t, "golden", "matching", "match_96x128.safetensors"))
	m := newMatcher(t, 2)
	var maps [4]Map
	var confs [4][]float32
	for i, v := range []string{"11", "21", "22", "12"} {
		maps[i], confs[i] = g.desc("in.desc"+v), g.f32["in.qonf"+v]
	}
	w := maps[0].Width
	c, err := m.CorrespondencesSym(maps, confs, 8)
	g.pairs("corres_sym8", c.Pairs, err, w, w)
	g.conf("corres_sym8", c.Conf)
	for name, tol := range map[string]float64{"corres_nonsym_tol0": 0, "corres_nonsym_tol5": 5} {
		c, err := m.CorrespondencesNonsym(maps[0], maps[1], confs[0], confs[1], 8, tol)
		g.pairs(name, c.Pairs, err, w, w)
		g.conf(name, c.Conf)
	}
	p, first, err := Merge(g.int32s("in.merge_idx1"), g.int32s("in.merge_idx2"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Idx1, g.int32s("out.merge.idx1")) || !slices.Equal(p.Idx2, g.int32s("out.merge.idx2")) ||
		!slices.Equal(first, g.int32s("out.merge.index")) {
		t.Error("merge differs")
	}
}

// TestGoldenL2 matches a slice of each map by Euclidean distance.
func TestGoldenL2(t *testing.T) {
	g := loadGolden(t, shared(t, "golden", "matching", "match_96x128.safetensors"))
	m := newMatcher(t, 2)
	cut := func(name string, lo, hi int) Map {
		d := g.desc(name)
		return Map{d.Data[lo*d.Dim : hi*d.Dim], 1, hi - lo, d.Dim}
	}
	a, b := cut("in.desc11", 0, 1500), cut("in.desc21", 300, 2300)
	nnA, nnB := make([]int32, a.Pixels()), make([]int32, b.Pixels())
	if err := m.NearestL2(a, b, nnA, nnB); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(nnA, g.int32s("out.brute_l2.nn_A")) || !slices.Equal(nnB, g.int32s("out.brute_l2.nn_B")) {
		t.Error("L2 neighbours differ")
	}
}

// hashBits is the reference data's hash generator (golden/README.md section 1).
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

// planted384 makes the 384x512 pair of golden/README.md section 7.
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
	if kernel.Best().Name == "portable" {
		t.Skip("full-size maps take minutes without an assembly kernel")
	}
	g := loadGolden(t, shared(t, "golden", "matching", "match_384x512.safetensors"))
	a, b, conf := planted384()
	for name, got := range map[string][]float32{"check.desc1_head": a.Data, "check.desc2_head": b.Data, "check.conf1_head": conf[0]} {
		if want := g.f32[name]; !slices.Equal(got[:len(want)], want) {
			t.Fatalf("%s: the generator is wrong", name)
		}
	}
	m := newMatcher(t, 2)
	p, err := m.FastReciprocal(a, b, FastOptions{Subsample: 8})
	g.pairs("fast8", p, err, a.Width, b.Width)
	if !slices.Equal(p.Idx1, g.int32s("out.fast8_idx.i1")) || !slices.Equal(p.Idx2, g.int32s("out.fast8_idx.i2")) {
		t.Error("linear indices differ")
	}
	c, err := m.CorrespondencesNonsym(a, b, conf[0], conf[1], 8, 0)
	g.pairs("corres_nonsym_tol0", c.Pairs, err, a.Width, b.Width)
	g.conf("corres_nonsym_tol0", c.Conf)
}
