// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"path/filepath"
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

func TestReferenceViews(t *testing.T) {
	Views(t, optest.Reference, filepath.Join("..", "..", "..", SmallViews), 1e-5)
	dir := golden.Path(t, "golden", "da3")
	Views(t, optest.Reference, dir, 1e-5)
	Posed(t, optest.Reference, dir, 1e-5)
}

func TestReferenceTiny(t *testing.T) {
	if testing.Short() {
		t.Skip("the plain loops need a while for the real head widths")
	}
	Tiny(t, optest.Reference, "mast3r_tiny", 1e-5)
	Tiny(t, optest.Reference, "dunemast3r_tiny", 1e-5)
}
