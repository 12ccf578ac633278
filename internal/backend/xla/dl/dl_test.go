// SPDX-License-Identifier: Apache-2.0

package dl_test

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/dl"
)

func TestMissingLibraryIsAnError(t *testing.T) {
	for _, global := range []bool{false, true} {
		if lib, err := dl.Open("/no/such/library.so", global); err == nil {
			t.Errorf("global %v: got library %#x, want an error", global, lib)
		}
	}
}
