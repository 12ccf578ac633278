// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"math"
	"slices"
)

// MetricScale is the length of a pose's baseline by the depths that something else,
// as a rule the network, gives to the points it sees: the median of their ratios
// to the points' own depths, which are in units of the baseline. spread is the
// robust standard deviation of the ratios' logarithms. Of the network's depths it
// tells how they scatter, not how far all of them are off. ok is false where fewer
// than minInliers have both depths in front of the camera.
func MetricScale(points []Vec3, depth []float64) (length, spread float64, ok bool) {
	var logs []float64
	for i, p := range points {
		if i < len(depth) && p[2] > 0 && depth[i] > 0 && finite(p[2], depth[i]) {
			logs = append(logs, math.Log(depth[i]/p[2]))
		}
	}
	if len(logs) < minInliers {
		return 0, 0, false
	}
	slices.Sort(logs)
	middle := logs[len(logs)/2]
	off := make([]float64, len(logs))
	for i, v := range logs {
		off[i] = math.Abs(v - middle)
	}
	slices.Sort(off)
	return math.Exp(middle), 1.4826 * off[len(off)/2], true
}
