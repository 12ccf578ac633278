// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
)

func TestReferenceRelativePositions(t *testing.T) { RelativePositions(t, Reference) }

func TestCPURelativePositions(t *testing.T) { RelativePositions(t, onCPU(t)) }

func TestMetalRelativePositions(t *testing.T) {
	RelativePositions(t, onMetal(t, metal.Config{}, backend.Options{}))
}

// With logits this large softmax picks one key for nearly every query. Rounding a
// logit of 1e4 to float32 moves it by 5e-4, and so the weights of near ties; in
// half precision q and k themselves are rounded, by 2^-11, which moves a logit by
// several units: there the result only has to be finite and of the right kind.
func TestCPULargeLogits(t *testing.T) { LargeLogits(t, onCPU(t), 1e-3) }

func TestMetalLargeLogits(t *testing.T) {
	LargeLogits(t, onMetal(t, metal.Config{}, backend.Options{}), 1e-3)
}

func TestMetalLargeLogitsHalf(t *testing.T) {
	LargeLogits(t, onMetal(t, metal.Config{}, backend.Options{Precision: backend.FP16}), 0.6)
}
