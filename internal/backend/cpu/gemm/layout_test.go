// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"crypto/sha256"
	"fmt"
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Files on disk hold packed bytes: whoever changes the layout, and with it these
// digests, must raise LayoutVersion.
func TestLayoutVersion(t *testing.T) {
	want := map[int]map[tensor.DType]string{
		2: {tensor.F32: "1e5b728affac5740", tensor.F16: "321f22a895a1d4cb", tensor.BF16: "cb7246676a8f0c3b"},
	}[LayoutVersion]
	if want == nil {
		t.Fatalf("no digests of layout %d here", LayoutVersion)
	}
	const n, k = 45, 71
	w := make([]float32, n*k)
	for i := range w {
		w[i] = float32(math.Sin(float64(i)))
	}
	was := Active()
	defer func() { _ = Force(was) }()
	for _, isa := range ISAs() {
		if err := Force(isa); err != nil {
			t.Fatal(err)
		}
		for d, sum := range want {
			if !Supports(d) {
				continue
			}
			p := mustPack(t, d, n, k, 1, Rows(Bytes(w), tensor.F32, k))
			if got := fmt.Sprintf("%x", sha256.Sum256(p.data))[:16]; got != sum {
				t.Errorf("%v %v: bytes of digest %s, want %s", isa, d, got, sum)
			}
		}
	}
}
