// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestJudgeOverlap(t *testing.T) {
	v := views(600, 1, false, 1)
	r := rand.New(rand.NewPCG(2, 2))
	wild := make([]Vec2, 600)
	for i := range wild {
		wild[i] = Vec2{640 * r.Float64(), 480 * r.Float64()}
	}
	for name, c := range map[string]struct {
		a, b    []Vec2
		seeds   int
		want    Verdict
		certain float64 // 0: not given
	}{
		"right":         {v.a, v.noisy(0.3, 0, 1), 3000, OverlapYes, 0},
		"certain":       {v.a, v.noisy(0.3, 0, 1), 3000, OverlapYes, 2.5},
		"half certain":  {v.a, v.noisy(0.3, 0, 1), 3000, OverlapUnsure, 2.3},
		"hardly":        {v.a, v.noisy(0.3, 0, 1), 3000, OverlapUnsure, 1.5},
		"not certain":   {v.a, v.noisy(0.3, 0, 1), 3000, OverlapNo, 1.3},
		"no number":     {v.a, v.noisy(0.3, 0, 1), 3000, OverlapNo, math.NaN()},
		"wild, certain": {v.a, wild, 3000, OverlapNo, 9},
		"every third":   {v.a, v.noisy(0.3, 3, 1), 3000, OverlapYes, 0},
		"wild":          {v.a, wild, 3000, OverlapNo, 0},
		"few":           {v.a[:40], v.b[:40], 3000, OverlapNo, 0},
		"next to none":  {v.a[:3], v.b[:3], 3000, OverlapNo, 0},
		"none":          {nil, nil, 3000, OverlapNo, 0},
		"on the border": {v.a[:92], v.b[:92], 3000, OverlapUnsure, 0},
	} {
		var certainty []float64
		for range c.a {
			if c.certain != 0 {
				certainty = append(certainty, c.certain)
			}
		}
		o, err := JudgeOverlap(c.a, c.b, certainty, c.seeds, 1)
		if err != nil || o.Verdict != c.want || o.Reason == "" || math.IsNaN(o.Score) {
			t.Errorf("%s: %v (%v), want %v: %+v", name, o.Verdict, err, c.want, o)
		}
	}
	if _, err := JudgeOverlap(v.a, v.b, []float64{3}, 3000, 1); err == nil {
		t.Error("one certainty for many matches: no error")
	}
	if _, err := JudgeOverlap(v.a, v.b, nil, 0, 1); err == nil {
		t.Error("no starting points: no error")
	}
	if _, err := JudgeOverlap(v.a, v.b[1:], nil, 10, 1); err == nil {
		t.Error("unequal lengths: no error")
	}
}

func TestMetricScale(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	points, depth := make([]Vec3, 300), make([]float64, 300)
	for i := range points {
		points[i] = Vec3{r.NormFloat64(), r.NormFloat64(), 2 + 5*r.Float64()}
		depth[i] = 0.35 * points[i][2] * math.Exp(0.1*r.NormFloat64())
		if i%5 == 0 {
			depth[i] *= 4
		}
	}
	depth[3], points[4][2], depth[6] = math.NaN(), -1, -2
	length, spread, ok := MetricScale(points, depth)
	if !ok || math.Abs(length/0.35-1) > 0.06 || spread < 0.07 || spread > 0.2 {
		t.Errorf("length %g, spread %g, %v, want 0.35 and about 0.12", length, spread, ok)
	}
	if _, _, ok := MetricScale(points[:5], depth); ok {
		t.Error("a scale from five points")
	}
	if _, _, ok := MetricScale(nil, nil); ok {
		t.Error("a scale from nothing")
	}
}
