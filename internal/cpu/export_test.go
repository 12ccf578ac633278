// SPDX-License-Identifier: Apache-2.0

package cpu

// PadEverything pads the rows of all values compiled until restore is called.
func PadEverything() (restore func()) {
	from, multiple := padFrom, padMultiple
	padFrom, padMultiple = 1, 1
	return func() { padFrom, padMultiple = from, multiple }
}
