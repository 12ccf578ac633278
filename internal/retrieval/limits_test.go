// SPDX-License-Identifier: Apache-2.0

package retrieval

import (
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// TestPairsByHand lists the pairs of small graphs.
func TestPairsByHand(t *testing.T) {
	for _, c := range []struct {
		n     int
		graph string
		want  []Pair
	}{
		{4, "swin-1", []Pair{{0, 1}, {0, 3}, {1, 2}, {2, 3}}},
		{4, "swin-1-noncyclic", []Pair{{0, 1}, {1, 2}, {2, 3}}},
		{4, "swin-2-noncyclic", []Pair{{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}}},
		{6, "logwin-2-noncyclic", []Pair{{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}, {2, 4}, {3, 4}, {3, 5}, {4, 5}}},
		{3, "oneref-2", []Pair{{2, 0}, {2, 1}}},
		{3, "complete", []Pair{{1, 0}, {2, 0}, {2, 1}}},
		{1, "swin-1", nil},
	} {
		got, err := Pairs(c.n, c.graph, PairOptions{})
		if err != nil || len(got) != len(c.want) || len(got) > 0 && !slices.Equal(got, c.want) {
			t.Errorf("%s of %d pictures: %v, %v, want %v", c.graph, c.n, got, err, c.want)
		}
	}
	for _, graph := range []string{"oneref-3", "oneref-4"} {
		if p, err := Pairs(3, graph, PairOptions{}); err == nil {
			t.Errorf("%s of 3 pictures: %v", graph, p)
		}
	}
}

// TestIndexByHand: words are compared by their bits, what agrees in less than half of
// them counts nothing, and features of another length are refused.
func TestIndexByHand(t *testing.T) {
	const dim = 32
	book := &Codebook{Words: 1, Dim: dim, Centroids: make([]float32, dim)}
	x, err := NewIndex(book, nearest(book))
	if err != nil {
		t.Fatal(err)
	}
	// One feature whose first n numbers are negative.
	signs := func(n int) *Features {
		f := &Features{Values: make([]float32, dim), N: 1, Dim: dim}
		for i := range f.Values {
			f.Values[i] = 1
			if i < n {
				f.Values[i] = -1
			}
		}
		return f
	}
	for _, n := range []int{0, 8, 16, 20, 32} {
		if _, err := x.Add(signs(n)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := x.Score(signs(0))
	if err != nil {
		t.Fatal(err)
	}
	if want := []float64{1, 0.125, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("scores %v, want %v", got, want)
	}
	for _, d := range []int{dim - 1, dim + 1} {
		f := &Features{Values: make([]float32, d), N: 1, Dim: d}
		if _, err := x.Add(f); err == nil {
			t.Errorf("features of length %d were added to a codebook of %d", d, dim)
		}
		if _, err := x.Score(f); err == nil {
			t.Errorf("features of length %d were looked up in a codebook of %d", d, dim)
		}
	}
}

// TestApplyCountsItsNumbers: as many numbers as the tokens have, no more and no fewer.
func TestApplyCountsItsNumbers(t *testing.T) {
	pool := par.New(1)
	defer pool.Close()
	h := &Head{Dim: 4, Out: 4}
	for _, c := range []struct{ numbers, tokens int }{{7, 2}, {9, 2}, {0, 1}, {4, 0}, {4, -1}} {
		if _, err := h.Apply(pool, make([]float32, c.numbers), c.tokens); err == nil {
			t.Errorf("%d numbers were taken for %d tokens of 4", c.numbers, c.tokens)
		}
	}
}

// TestFarthestByHand: pictures on a line; each next anchor is the one farthest from
// those before it.
func TestFarthestByHand(t *testing.T) {
	at := []float64{0, 1, 2, 5, 9}
	distance := func(i, j int) float64 { return max(at[i]-at[j], at[j]-at[i]) }
	for count, want := range map[int][]int{1: {0}, 2: {0, 4}, 3: {0, 4, 3}, 4: {0, 4, 3, 2}} {
		if got := farthest(len(at), count, 0, distance); !slices.Equal(got, want) {
			t.Errorf("%d anchors: %v, want %v", count, got, want)
		}
	}
}
