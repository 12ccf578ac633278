// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Stats are float64 summaries of the whole tensors of a full-size run, whose
// golden files hold only a subsample.
type Stats map[string]struct {
	Shape   tensor.Shape `json:"shape"`
	Mean    float64      `json:"mean"`
	L2, RMS float64
}

// LoadStats reads fullsize/VARIANT.json for one size, for example "96x64".
func LoadStats(tb testing.TB, path, size string) Stats {
	tb.Helper()
	var all map[string]struct {
		Stats Stats `json:"stats"`
	}
	ReadJSON(tb, path, &all)
	if len(all[size].Stats) == 0 {
		tb.Fatalf("golden: %s has no stats for size %q", path, size)
	}
	return all[size].Stats
}

// Check fails the test when the norm or the mean of a tensor is off by more
// than limit, relative to the norm and to the root mean square. The data's own
// checker uses 1e-4.
func (s Stats) Check(tb testing.TB, name string, got []float32, shape tensor.Shape, limit float64) {
	tb.Helper()
	w, ok := s[name]
	if !ok {
		tb.Errorf("golden: no statistics of %q", name)
		return
	}
	if !shape.Equal(w.Shape) || len(got) != shape.Numel() {
		tb.Errorf("golden: %s: %d values of shape %v, want %v", name, len(got), shape, w.Shape)
		return
	}
	var sum, sum2 float64
	for _, v := range got {
		sum += float64(v)
		sum2 += float64(v) * float64(v)
	}
	l2, mean := math.Sqrt(sum2), sum/float64(len(got))
	e1 := math.Abs(l2-w.L2) / max(w.L2, 1e-30)
	e2 := math.Abs(mean-w.Mean) / max(w.RMS, 1e-30)
	// Negated, so that NaN fails.
	if !(e1 < limit && e2 < limit) {
		tb.Errorf("golden: %s: L2 norm %g, want %g; mean %g, want %g (limit %g)", name, l2, w.L2, mean, w.Mean, limit)
	}
}
