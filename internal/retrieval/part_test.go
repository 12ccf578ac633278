// SPDX-License-Identifier: Apache-2.0

package retrieval

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func madeUp(rng *rand.Rand, n, dim int) *Features {
	f := &Features{Values: make([]float32, n*dim), N: n, Dim: dim}
	for i := range f.Values {
		f.Values[i] = float32(rng.NormFloat64())
	}
	return f
}

func emptyIndex(t *testing.T, words, dim int) *Index {
	t.Helper()
	book := &Codebook{Words: words, Dim: dim, Centroids: madeUp(rand.New(rand.NewPCG(1, 2)), words, dim).Values}
	x, err := NewIndex(book, nearest(book))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func merge(x *Index, tensors []weights.Tensor) error {
	part, err := OpenPart(weights.NewSetTensors(tensors, nil))
	if err != nil {
		return err
	}
	return x.Merge(part)
}

// TestPartsAreTheWhole: an index that was written in parts and merged is the one that all pictures
// were added to, bit for bit, also where a picture has no feature.
func TestPartsAreTheWhole(t *testing.T) {
	const words, dim = 20, 70
	rng := rand.New(rand.NewPCG(3, 4))
	var pictures []*Features
	for _, n := range []int{9, 1, 30, 0, 5, 12, 8} {
		pictures = append(pictures, madeUp(rng, n, dim))
	}
	whole, merged := emptyIndex(t, words, dim), emptyIndex(t, words, dim)
	for _, f := range pictures {
		if _, err := whole.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range [][]*Features{pictures[:3], {}, pictures[3:4], pictures[4:]} {
		x := emptyIndex(t, words, dim)
		for _, f := range part {
			if _, err := x.Add(f); err != nil {
				t.Fatal(err)
			}
		}
		if err := merge(merged, x.Tensors(0)); err != nil {
			t.Fatal(err)
		}
	}
	if merged.Len() != len(pictures) {
		t.Fatalf("%d pictures, want %d", merged.Len(), len(pictures))
	}
	for i, f := range pictures {
		got, err := merged.Score(f)
		if err != nil {
			t.Fatal(err)
		}
		want, err := whole.Score(f)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("picture %d: scores %v, want %v", i, got, want)
		}
	}
	// The last pictures alone, out of the whole index, are a part too.
	tail := emptyIndex(t, words, dim)
	for _, list := range [][]weights.Tensor{whole.Tensors(5), whole.Tensors(len(pictures))} {
		if err := merge(tail, list); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := tail.Score(pictures[0]); err != nil {
		t.Fatal(err)
	} else if want, _ := whole.Score(pictures[0]); !slices.Equal(got, want[5:]) {
		t.Errorf("the last two pictures: scores %v, want %v", got, want[5:])
	}
	for i, a := range merged.Tensors(0) {
		if b := whole.Tensors(0)[i]; string(a.Data) != string(b.Data) || !slices.Equal(a.Shape, b.Shape) {
			t.Errorf("tensor %s of the merged index differs", a.Name)
		}
	}
}

// TestHostileParts: what no index wrote is refused, and leaves the index as it was.
func TestHostileParts(t *testing.T) {
	const words, dim = 20, 70
	x := emptyIndex(t, words, dim)
	for range 2 {
		if _, err := x.Add(madeUp(rand.New(rand.NewPCG(5, 6)), 6, dim)); err != nil {
			t.Fatal(err)
		}
	}
	put := func(i, k int, v int32) func([]weights.Tensor) {
		return func(l []weights.Tensor) { binary.LittleEndian.PutUint32(l[i].Data[4*k:], uint32(v)) }
	}
	for name, damage := range map[string]func([]weights.Tensor){
		"no counts":        func(l []weights.Tensor) { l[0].Name = "other" },
		"no words":         func(l []weights.Tensor) { l[1].Name = "other" },
		"no bits":          func(l []weights.Tensor) { l[2].Name = "other" },
		"counts as floats": func(l []weights.Tensor) { l[0].DType = tensor.F32 },
		"words as floats":  func(l []weights.Tensor) { l[1].DType = tensor.F32 },
		"a negative count": put(0, 0, -1),
		"a huge count":     put(0, 1, 1<<30),
		"a count short":    put(0, 1, 0),
		"a negative word":  put(1, 0, -5),
		"a word too large": put(1, 0, words),
		"a word twice":     func(l []weights.Tensor) { copy(l[1].Data[4:8], l[1].Data[:4]) },
		"a bit behind":     func(l []weights.Tensor) { l[2].Data[15] = 0x80 },
	} {
		list := x.Tensors(0)
		damage(list)
		into := emptyIndex(t, words, dim)
		if err := merge(into, list); err == nil {
			t.Errorf("%s: merged", name)
		}
		if into.Len() != 0 || len(into.lists) != 0 {
			t.Errorf("%s: %d pictures and %d lists were left", name, into.Len(), len(into.lists))
		}
	}
	other := emptyIndex(t, words, 200)
	if err := merge(other, x.Tensors(0)); err == nil {
		t.Error("a part of dimension 70 was merged into an index of 200")
	}
}
