// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal

import "testing"

// SetMaxFLOPs changes the length of command buffers for one test.
func SetMaxFLOPs(t *testing.T, v float64) {
	old := maxFLOPs
	maxFLOPs = v
	t.Cleanup(func() { maxFLOPs = old })
}
