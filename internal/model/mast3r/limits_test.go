// SPDX-License-Identifier: Apache-2.0

package mast3r

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
)

// TestDimsAtTheirLimits: dimensions with which no graph can be built are refused by
// themselves, before anything is computed with them; their neighbours are not.
func TestDimsAtTheirLimits(t *testing.T) {
	good := Dims{Patch: 16, EncDim: 64, EncDepth: 1, EncHeads: 2, DecDim: 48, DecDepth: 10, DecHeads: 3, DescDim: 24,
		Hooks: [4]int{0, 5, 7, 10}, Resolution: 16}
	const local = 25 * 256
	if err := good.check(local); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(d *Dims) int{
		"no patch":                  func(d *Dims) int { d.Patch = 0; return local },
		"no encoder":                func(d *Dims) int { d.EncDim = 0; return local },
		"no decoder":                func(d *Dims) int { d.DecDim = 0; return local },
		"encoder heads":             func(d *Dims) int { d.EncHeads = 3; return local },
		"no encoder heads":          func(d *Dims) int { d.EncHeads = 0; return local },
		"decoder heads":             func(d *Dims) int { d.DecHeads = 5; return local },
		"decoder heads of 2":        func(d *Dims) int { d.DecHeads = 24; return local },
		"no block in the encoder":   func(d *Dims) int { d.EncDepth = 0; return local },
		"no block in the decoder":   func(d *Dims) int { d.DecDepth = 0; return local },
		"broken descriptors":        func(*Dims) int { return local + 16 },
		"no descriptors":            func(d *Dims) int { d.DescDim = 0; return local },
		"resolution":                func(d *Dims) int { d.Resolution = 15; return local },
		"hook behind the end":       func(d *Dims) int { d.Hooks = [4]int{0, 5, 7, 11}; return local },
		"hook behind, in the order": func(d *Dims) int { d.Hooks = [4]int{0, 5, 11, 10}; return local },
		"negative hook":             func(d *Dims) int { d.Hooks = [4]int{-1, 5, 7, 10}; return local },
		"hook twice":                func(d *Dims) int { d.Hooks = [4]int{0, 5, 5, 10}; return local },
		"first hook":                func(d *Dims) int { d.Hooks = [4]int{1, 5, 7, 10}; return local },
		"last hook":                 func(d *Dims) int { d.Hooks = [4]int{0, 5, 7, 9}; return local },
	} {
		d := good
		n := change(&d)
		if err := d.check(n); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	last := good
	last.DecDepth, last.Hooks = 11, [4]int{0, 5, 7, 11}
	if err := last.check(local); err != nil {
		t.Errorf("a hook at the last block: %v", err)
	}
}

// TestHeadsAtTheirLimits: there are two views, and a batch has one picture at least.
func TestHeadsAtTheirLimits(t *testing.T) {
	list, meta := tensors(t, "mast3r_micro")
	m, err := Open(weights.NewSetTensors(list, meta))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		view, batch int
		want        Outputs
		good        bool
	}{{1, 1, AllOutputs, true}, {2, 1, Conf, true}, {0, 1, AllOutputs, false}, {3, 1, AllOutputs, false}, {-1, 1, AllOutputs, false},
		{1, 0, AllOutputs, false}, {1, -1, AllOutputs, false}, {1, 1, 0, false}, {1, 1, AllOutputs + 1, false}} {
		_, err := m.Head(c.view, c.batch, 16, 16, c.want)
		if (err == nil) != c.good {
			t.Errorf("view %d of %d pictures, outputs %#x: %v", c.view, c.batch, c.want, err)
		}
	}
}
