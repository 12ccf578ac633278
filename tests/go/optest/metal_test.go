// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// onMetal runs on the simulator, on a Mac on the GPU. The whole suite runs there
// in internal/backend/metal.
func onMetal(t *testing.T, cfg metal.Config, opt backend.Options) Runner {
	t.Helper()
	metalsim.Open(t)
	b, err := metal.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return Backend(b, opt)
}
