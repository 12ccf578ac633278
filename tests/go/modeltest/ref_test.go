// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// The graphs are right before any backend is: the plain loops run them.
func TestReferenceMicro(t *testing.T) {
	Micro(t, optest.Reference, "mast3r_micro", golden.FP32)
	Micro(t, optest.Reference, "dune_micro", golden.FP32)
	Symmetric(t, optest.Reference, golden.FP32)
}

func TestReferenceTiny(t *testing.T) {
	if testing.Short() {
		t.Skip("the plain loops need a while for the real head widths")
	}
	Tiny(t, optest.Reference, "mast3r_tiny", 1e-5)
	Tiny(t, optest.Reference, "dunemast3r_tiny", 1e-5)
}
