// SPDX-License-Identifier: Apache-2.0

package synth

import (
	"path/filepath"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// TestPublishedSizes: what a network of the published dimensions is made of has as
// many numbers and, as a file, as many bytes as the published one.
func TestPublishedSizes(t *testing.T) {
	for name, want := range map[string]struct {
		tensors, parameters int
		bytes               int64
	}{
		"da3_tiny":  {0, 315639, 0},
		"da3_small": {437, 34299463, 137248940},
		"da3_base":  {437, 135366599, 541518028},
	} {
		d, err := Variant(name)
		if err != nil {
			t.Fatal(err)
		}
		specs, sum := d.Files()[0].Specs, 0
		for _, s := range specs {
			sum += s.Shape.Numel()
		}
		if sum != want.parameters || want.tensors != 0 && len(specs) != want.tensors {
			t.Errorf("%s: %d parameters in %d tensors, want %d in %d", name, sum, len(specs), want.parameters, want.tensors)
		}
		if want.bytes == 0 {
			continue
		}
		w, err := weights.Create(filepath.Join(t.TempDir(), "model.safetensors"), specs, d.Metadata(name), 0)
		if err != nil {
			t.Fatal(err)
		}
		if w.Size() != want.bytes {
			t.Errorf("%s: a file of %d bytes, want %d", name, w.Size(), want.bytes)
		}
		w.Abort()
	}
}

// TestNamesOfTheGoldenFile: the tiny network has the tensors of the published code's.
func TestNamesOfTheGoldenFile(t *testing.T) {
	f, err := weights.Open(filepath.Join("..", "..", "da3", "testdata", "tiny.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := Variant("da3_tiny")
	if err != nil {
		t.Fatal(err)
	}
	pool := par.New(1)
	defer pool.Close()
	specs := d.Files()[0].Specs
	for _, s := range specs {
		if x, ok := f.Tensor(s.Name); !ok || !x.Shape.Equal(s.Shape) {
			t.Errorf("%s %v is not in the golden file", s.Name, s.Shape)
		}
	}
	if n := len(f.Names()); n != len(specs) {
		t.Errorf("%d tensors, the golden file has %d", len(specs), n)
	}
}
