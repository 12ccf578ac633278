// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// onMetal runs on the simulator, on a Mac on the GPU. The whole suite runs there
// in internal/backend/metal.
func onMetal(t *testing.T, p backend.Precision) optest.Runner {
	t.Helper()
	metalsim.Open(t)
	b, err := metal.New(metal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return optest.Backend(b, backend.Options{Precision: p})
}
