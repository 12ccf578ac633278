// SPDX-License-Identifier: Apache-2.0

package retrieval

import "testing"

// A list that is too long is refused before it is in memory, at the exact number.
func TestPairsAreBounded(t *testing.T) {
	const n = 2897 // 2897*2896/2 = 4194856, just above 1<<22; 2896*2895/2 = 4191960
	for _, c := range []struct {
		n     int
		graph string
		opt   PairOptions
		fine  bool
	}{
		{n - 1, "complete", PairOptions{}, true},
		{n, "complete", PairOptions{}, false},
		{n - 1, "complete", PairOptions{Symmetrize: true}, false},
		{1 << 14, "complete", PairOptions{}, false},
		{1 << 40, "complete", PairOptions{}, false},
		{1 << 14, "swin-257", PairOptions{}, false},
		{10, "swin-9223372036854775807", PairOptions{}, true},
		{10, "logwin-9223372036854775807", PairOptions{}, true},
	} {
		if testing.Short() && c.fine && c.n > 100 {
			continue
		}
		pairs, err := Pairs(c.n, c.graph, c.opt)
		if c.fine != (err == nil) {
			t.Errorf("%s of %d: %d pairs, %v", c.graph, c.n, len(pairs), err)
		}
	}
}

// A product that does not fit 64 bits is too many, whatever is left of it.
func TestManyPairsOverflow(t *testing.T) {
	for _, c := range []struct{ a, b int }{{1 << 32, 1 << 32}, {1 << 62, 4}, {1 << 40, 1 << 24}} {
		if tooMany(c.a, "complete", c.b, 2) == nil {
			t.Errorf("%d x %d / 2 pairs: accepted", c.a, c.b)
		}
	}
	if err := tooMany(1<<12, "complete", 1<<11, 2); err != nil {
		t.Error(err)
	}
}
