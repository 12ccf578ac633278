// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"context"
	"testing"
)

// A plane allows two motions that fit all matches. A pose is found where one of them puts a
// part of the plane behind a camera, and none where nothing tells: never the wrong one.
func TestRelativePoseOfFlatScenes(t *testing.T) {
	two := 0
	for seed := range uint64(100) {
		v := views(300, 1.2, true, seed)
		b := v.noisy(0.3, 3*int(seed%2), seed) // every other set with a third of wrong matches
		r, err := RelativePose(context.Background(), v.a, b, v.k1, v.k2, RelativeOptions{Sigma: 0.3})
		if err != nil {
			t.Fatal(err)
		}
		if r.Pose == nil {
			if two++; r.Reason != TwoPoses {
				t.Errorf("seed %d: %q", seed, r.Reason)
			}
			continue
		}
		if turn, direction := v.angles(*r.Pose); turn > 1 || direction > 3 {
			t.Errorf("seed %d: turn off by %g, direction by %g degrees, %d inliers", seed, turn, direction, len(r.Inliers))
		}
	}
	if two < 20 || two > 80 {
		t.Errorf("%d of 100 planes have two poses", two)
	}
}
