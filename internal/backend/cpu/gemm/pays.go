// SPDX-License-Identifier: Apache-2.0

package gemm

import "time"

// mmlaLeast is how many times the products of float32 those of BFMMLA must be. Some of
// what they gain goes into rounding.
const mmlaLeast = 1.3

// mmlaRatio is what was measured when the package began, 0 where it was not.
var mmlaRatio float64

// mmlaPays measures the largest kernels of both on operands in the first-level cache,
// for less than a tenth of a millisecond. Nobody has run them for us on a processor
// that has BFMMLA, so that no ratio is known from before.
func mmlaPays() bool {
	const calls, rounds = 30, 5
	im, m := impls[NEONMMLA], new(peakMem)
	k := m.args()
	var best [2]time.Duration
	for r := range rounds {
		for i, kind := range [2]int{kF32, kBF16} {
			start := time.Now()
			for range calls {
				im.kern[kind].call(&k)
			}
			if d := time.Since(start); r == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	// A step of bfloat16 is two products. A clock that stood still shows nothing.
	if best[1] > 0 {
		mmlaRatio = 2 * float64(best[0]) / float64(best[1])
	}
	return mmlaRatio >= mmlaLeast
}
