// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package memory

import "testing"

// TestShort: a tenth is low, a twentieth is critical, exactly that much is not yet.
func TestShort(t *testing.T) {
	for _, c := range []struct {
		free          uint64
		low, critical bool
	}{{1000, false, false}, {100, false, false}, {99, true, false}, {50, true, false}, {49, true, true}, {0, true, true}} {
		if low, critical := short(c.free, 1000); low != c.low || critical != c.critical {
			t.Errorf("%d of 1000 free: low %v, critical %v, want %v, %v", c.free, low, critical, c.low, c.critical)
		}
	}
}
