// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// TestWordsAreFoundOnce looks a picture up that was added before: its words are
// known, so the device is not needed, which this takes away to see it.
func TestWordsAreFoundOnce(t *testing.T) {
	const n, dim, size = 7, 16, 40
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = rng.Float32() - 0.5
		}
		return v
	}
	path := filepath.Join(t.TempDir(), "codebook.safetensors")
	book := weights.FromFloat32s("centroids", tensor.Shape{size, dim}, random(size*dim))
	if err := weights.Write(path, []weights.Tensor{book}, nil, 0); err != nil {
		t.Fatal(err)
	}
	e, err := Open(Config{Backend: "cpu", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r := &Retrieval{Features: random(n * dim), N: n, Dim: dim, Attention: make([]float32, n)}
	scores := func(forget bool) []float64 {
		x, err := e.OpenIndex(t.Context(), path, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if _, err := x.Add(r); err != nil {
			t.Fatal(err)
		}
		if forget {
			clear(x.seen)
		} else {
			x.words.dev = nil
		}
		s, err := x.Score(r)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	known := scores(false)
	if again := scores(true); !slices.Equal(known, again) || known[0] <= 0 {
		t.Errorf("score %v with words that are known, %v with words found again", known, again)
	}
}
