// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Pack refuses what would read outside its source: a negative stride, one element too
// few.
func TestPackStaysInside(t *testing.T) {
	const n, k = 5, 7
	size, err := PackedSize(tensor.F32, n, k)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		elements int
		change   func(*Source)
		fine     bool
	}{
		"exact":           {n * k, func(*Source) {}, true},
		"one too few":     {n*k - 1, func(*Source) {}, false},
		"negative row":    {n * k, func(s *Source) { s.StrideN = -k }, false},
		"negative column": {n * k, func(s *Source) { s.StrideC = -1 }, false},
		"negative tap":    {n * k, func(s *Source) { s.Taps, s.StrideTap = k, -1 }, false},
		"negative batch":  {n * k, func(s *Source) { s.StrideB = -1 }, false},
		"huge row":        {n * k, func(s *Source) { s.StrideN = 1 << 62 }, false},
	} {
		batch := 1
		if name == "negative batch" {
			batch = 2
		}
		p, err := NewPacked(tensor.F32, n, k, batch, Alloc(size*batch))
		if err != nil {
			t.Fatal(err)
		}
		s := Source{Data: Bytes(make([]float32, c.elements)), Type: tensor.F32, StrideN: k, StrideC: 1}
		c.change(&s)
		if err := p.Pack(nil, s); c.fine != (err == nil) || err != nil && !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
