// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
)

func TestShapesOfTheFamily(t *testing.T) {
	for _, device := range []string{"cpu", "metal"} {
		t.Run(device, func(t *testing.T) { Shapes(t, onMetalOrCPU(t, device, 0), 1e-5) })
	}
	m := shapesOfTheFamily(t)["sky"]
	if _, err := m.Trunk(2, vit.Grid{Rows: 3, Cols: 4}, false); err == nil {
		t.Error("two views were accepted by a network of one")
	}
}

func TestIntermediatesAgree(t *testing.T) {
	for _, device := range []string{"cpu", "metal"} {
		t.Run(device, func(t *testing.T) {
			Agree(t, onMetalOrCPU(t, device, 0), "mast3r_micro", 1e-5)
			Agree(t, onMetalOrCPU(t, device, 0), "dune_micro", 1e-5)
		})
	}
}
