// SPDX-License-Identifier: Apache-2.0

package cpu

import "math"

// PadEverything pads the rows of all values compiled until restore is called.
func PadEverything() (restore func()) {
	from, multiple := padFrom, padMultiple
	padFrom, padMultiple = 1, 1
	return func() { padFrom, padMultiple = from, multiple }
}

// AlwaysWinograd uses the transform for maps of any size until restore is called.
func AlwaysWinograd() (restore func()) { return setWinogradMin(0) }

// NeverWinograd uses the direct form until restore is called.
func NeverWinograd() (restore func()) { return setWinogradMin(math.Inf(1)) }

func setWinogradMin(v float64) (restore func()) {
	old := winogradMin
	winogradMin = v
	return func() { winogradMin = old }
}

// Poison fills the arena and the scratch with NaN.
func (b *Backend) Poison() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range [][]byte{b.arena.b, b.scratch.b} {
		for i := range m {
			m[i] = 0xff
		}
	}
}

// SmallPatches makes the gradients of convolutions work in chunks of one row of
// pixels until the returned function is called.
func SmallPatches() (restore func()) {
	old := patchBytes
	patchBytes = 1
	return func() { patchBytes = old }
}
