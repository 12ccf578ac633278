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

// cellMatcher returns a Matcher that goes by cells, on tiles or their model.
func cellMatcher(t *testing.T, threads int) *Matcher {
	if !isa.AVX512AMX.Usable() {
		t.Cleanup(isa.ModelTiles())
	}
	m := newMatcher(t, threads)
	for _, k := range kernel.All() {
		if k.Int8 != nil && k.Int8.HasCells() {
			m = newWith(m.pool, k)
			m.prefilter = prefilterAlways
			return m
		}
	}
	t.Skip("no byte products on this machine")
	return nil
}

// The search by cells gives the neighbours of the float pass, in maps of several strips and
// blocks with ties and without: where all rows reach the score from the sample, where some do
// not, and where too many cells are left.
func TestCellsMatchFloatPass(t *testing.T) {
	m := cellMatcher(t, 2)
	r := rand.New(rand.NewPCG(4, 7))
	// planted returns maps of unit descriptors that have a good partner each, but for one in so
	// many, whose partner is fair. Where there is room in another cell, partners have a twin
	// there that rounding does not tell from them.
	planted := func(every int) (a, b Map) {
		a, b = field(r, 41, 43, 24, random), field(r, 70, 67, 24, random)
		taken := map[int]bool{}
		for i := range 41 * 43 {
			taken[i*11%(70*67)] = true
		}
		for i := range 41 * 43 {
			noise := float32(0.1)
			if i%every == min(5, every-1) {
				noise = 0.6
			}
			to := i * 11 % (70 * 67)
			for k := range 24 {
				b.Data[to*24+k] = a.Data[i*24+k] + float32(r.NormFloat64())*noise
			}
			if twin := (to + 64) % (70 * 67); !taken[twin] {
				for k := range 24 {
					b.Data[twin*24+k] = b.Data[to*24+k] * (1 + float32(r.NormFloat64())*1e-3)
				}
			}
		}
		for _, d := range []Map{a, b} {
			for i := range d.Pixels() {
				row, sum := d.Data[i*24:(i+1)*24], float32(0)
				for _, v := range row {
					sum += v * v
				}
				for k := range row {
					row[k] /= float32(math.Sqrt(float64(sum)))
				}
			}
		}
		return a, b
	}
	most, mostB := planted(97)
	few, fewB := planted(2)
	ties, tiesB := planted(97)
	copy(ties.Data[500*24:900*24], ties.Data[100*24:])
	copy(tiesB.Data[1500*24:1510*24], tiesB.Data[300*24:])
	ties.Data[1234] = float32(math.NaN())
	for i := range 20 { // many of one cell are as good
		copy(tiesB.Data[(1100+i)*24:(1101+i)*24], tiesB.Data[1100*24:1101*24])
	}
	short, shortB := planted(97)
	for i := 5; i < short.Pixels(); i += 97 { // not of the sample; any cell may hold their neighbours
		for k := range 24 {
			short.Data[i*24+k] *= 0.1
		}
	}
	for _, c := range []struct {
		name string
		a, b Map
	}{
		{"most", most, mostB},
		{"few", few, fewB},
		{"ties", ties, tiesB},
		{"short", short, shortB},
		{"noise", field(r, 41, 43, 24, random), field(r, 31, 53, 24, random)},
		{"flat", field(r, 41, 43, 24, flat), field(r, 31, 53, 24, flat)},
		{"small", field(r, 41, 43, 24, random), field(r, 3, 4, 24, random)},
	} {
		var nn [2][2][]int32
		for i, mode := range []prefilterMode{prefilterAlways, prefilterOff} {
			m.prefilter = mode
			nn[i] = [2][]int32{make([]int32, c.a.Pixels()), make([]int32, c.b.Pixels())}
			if err := m.Nearest(c.a, c.b, nn[i][0], nn[i][1]); err != nil {
				t.Fatal(err)
			}
			if m.int8.ready != (mode == prefilterAlways) {
				t.Fatalf("%s: mode %v: prefilter used: %v", c.name, mode, m.int8.ready)
			}
		}
		if !slices.Equal(nn[0][0], nn[1][0]) || !slices.Equal(nn[0][1], nn[1][1]) {
			t.Errorf("%s: neighbours by cells and those of the float pass differ", c.name)
		}
	}
}
