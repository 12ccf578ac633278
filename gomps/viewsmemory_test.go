// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// TestEstimateMemoryOfViews: eight views of the base network at its own size fit into 4 GiB,
// and more views need more.
func TestEstimateMemoryOfViews(t *testing.T) {
	last := int64(0)
	for _, n := range []int{2, 8, 16} {
		m, err := gomps.EstimateMemory(t.Context(), gomps.MemoryOptions{Variant: "da3_base", Precision: "fp32", Pictures: n, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d views: %+v", n, m)
		if m.Height1 != 378 || m.Width1 != 504 || m.Total <= last || m.Weights < 400<<20 {
			t.Errorf("%d views: %+v", n, m)
		}
		if n == 8 && m.Total > 4<<30 {
			t.Errorf("eight views need %d bytes, want at most 4 GiB", m.Total)
		}
		last = m.Total
	}
}

// TestScenesTooLargeForMemory: they are refused before anything is allocated for the
// network, and the engine goes on.
func TestScenesTooLargeForMemory(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 8192}, "da3_tiny")
	_, err := e.InferViews(t.Context(), pictures(40, 60, 90), gomps.ViewsOptions{Window: 40})
	var lack *gomps.MemoryError
	if !errors.As(err, &lack) || lack.Need <= lack.Free {
		t.Fatalf("forty views of 8190 pixels: %v", err)
	}
	if n := e.Info().LiveBuffers; n != 0 {
		t.Errorf("%d buffers were left by a call that was refused", n)
	}
	s := inferViews(t, e, pictures(2, 56, 84), gomps.ViewsOptions{Raw: true})
	if len(s.View) != 2 {
		t.Errorf("%d views after a refusal", len(s.View))
	}
}

// TestSequencesTooLargeForMemory: the results of a sequence of pairs are all kept, so a long
// one is refused before its pictures are touched.
func TestSequencesTooLargeForMemory(t *testing.T) {
	e := open(t, gomps.Config{}, "da3_tiny")
	big := gomps.Image{Pix: make([]byte, 3*378*504), Height: 378, Width: 504}
	images := make([]gomps.Image, 1<<17)
	for i := range images {
		images[i] = big
	}
	_, err := e.InferSequence(t.Context(), images, gomps.InferOptions{Raw: true})
	var lack *gomps.MemoryError
	if !errors.As(err, &lack) || lack.Need < 1<<17*2*16*378*504 {
		t.Fatalf("a sequence of %d pictures: %v", len(images), err)
	}
	if n := e.Info().LiveBuffers; n != 0 {
		t.Errorf("%d buffers were left by a call that was refused", n)
	}
}
