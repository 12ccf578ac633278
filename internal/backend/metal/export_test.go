// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal

import "testing"

// SetCutFLOPs changes where the parts of a network are cut for one test.
func SetCutFLOPs(t *testing.T, v float64) {
	old := cutFLOPs
	cutFLOPs = v
	t.Cleanup(func() { cutFLOPs = old })
}

// SetMaxFLOPs changes the length of command buffers for one test.
func SetMaxFLOPs(t *testing.T, v float64) {
	old := maxFLOPs
	maxFLOPs = v
	t.Cleanup(func() { maxFLOPs = old })
}

// CommitBehindItsBack commits the open command buffer of a work, so that its Submit fails.
func CommitBehindItsBack(t *testing.T, b *Backend, of any) {
	t.Helper()
	w := of.(*work)
	if err := b.dev.Do(w.commit); err != nil {
		t.Fatal(err)
	}
}
