// SPDX-License-Identifier: Apache-2.0

package retrieval

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
)

func head(t *testing.T, file string) *Head {
	t.Helper()
	s, err := weights.OpenSet(filepath.Join(golden.Path(t, "golden", "retrieval_micro"), file+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, err := Open(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHeadGolden(t *testing.T) {
	dir := golden.Path(t, "golden", "retrieval_micro")
	pool := par.New(0)
	defer pool.Close()
	backbone := golden.Load(t, filepath.Join(dir, "retrieval_micro.safetensors"))
	for file, weightsFile := range map[string]string{"retrieval_micro": "retrieval_weights", "retrieval_micro_proj": "retrieval_proj_weights"} {
		c := golden.Load(t, filepath.Join(dir, file+".safetensors"))
		h := head(t, weightsFile)
		for i := range 5 {
			at := fmt.Sprintf("img%d.", i)
			x, s := backbone.Floats(t, at+"backbone_feat")
			f, err := h.Apply(pool, x, s[1])
			if err != nil {
				t.Fatal(err)
			}
			check := func(name string, v []float32, shape ...int) {
				c.CheckRel(t, at+name, v, append(tensor.Shape{1}, shape...), 2e-6)
			}
			check("feat", f.Values, f.N, f.Dim)
			check("attn", f.Attention, f.N)
			check("global", f.Global(), f.Dim)
			top, index, err := f.Top(30)
			if err != nil {
				t.Fatal(err)
			}
			check("topk_feat", top.Values, 30, f.Dim)
			check("topk_attn", top.Attention, 30)
			if want, _ := c.Ints(t, at+"topk_index"); !slices.Equal(index, want) {
				t.Errorf("%s%s: top %v, want %v", file, at, index, want)
			}
		}
	}
	// The fractional example of index.json: a quarter of 49 tokens.
	x, s := backbone.Floats(t, "img4.backbone_feat")
	f, err := head(t, "retrieval_weights").Apply(pool, x, s[1])
	if err != nil {
		t.Fatal(err)
	}
	_, index, err := f.Top(-0.25)
	if err != nil || !slices.Equal(index, []int{35, 16, 36, 9, 0, 44, 37, 22, 42, 18, 21, 12}) {
		t.Errorf("a quarter of the tokens: %v, %v", index, err)
	}
}

// nearest is a Quantizer in plain loops.
func nearest(c *Codebook) Quantizer {
	return func(features []float32, n, k int) ([]int32, error) {
		var out []int32
		for i := range n {
			d := make([]float64, c.Words)
			order := make([]int32, c.Words)
			for w := range d {
				order[w] = int32(w)
				for j, v := range c.Centroids[w*c.Dim:][:c.Dim] {
					e := float64(features[i*c.Dim+j]) - float64(v)
					d[w] += e * e
				}
			}
			slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(d[a], d[b]) })
			out = append(out, order[:k]...)
		}
		return out, nil
	}
}

func TestASMKGolden(t *testing.T) {
	c := golden.Load(t, golden.Path(t, "golden", "retrieval_micro", "asmk.safetensors"))
	for _, p := range []string{"plain.", "proj."} {
		centroids, s := c.Floats(t, p+"codebook")
		book := &Codebook{Words: s[0], Dim: s[1], Centroids: centroids}
		x, err := NewIndex(book, nearest(book))
		if err != nil {
			t.Fatal(err)
		}
		values, _ := c.Floats(t, p+"features")
		ids, _ := c.Ints(t, p+"image_ids")
		var images [5]*Features
		for i := range images {
			images[i] = &Features{Dim: book.Dim}
		}
		for i, id := range ids {
			images[id].N++
			images[id].Values = append(images[id].Values, values[i*book.Dim:][:book.Dim]...)
		}
		for i, f := range images {
			if n, err := x.Add(f); err != nil || n != i {
				t.Fatal(n, err)
			}
			for kind, k := range map[string]int{"build": IndexAssignments, "query": QueryAssignments} {
				checkCodes(t, c, x, f, fmt.Sprintf("%simg%d.%s", p, i, kind), k)
			}
		}
		var scores []float32
		for _, f := range images {
			row, err := x.Score(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range row {
				scores = append(scores, float32(v))
			}
		}
		c.CheckRel(t, p+"scores", scores, tensor.Shape{5, 5}, 1e-7)
	}
}

func checkCodes(t *testing.T, c *golden.Case, x *Index, f *Features, name string, k int) {
	t.Helper()
	codes, err := x.codes(f, k)
	if err != nil {
		t.Fatal(err)
	}
	words, _ := c.Ints(t, name+"_words")
	bits, s := c.Ints(t, name+"_bits")
	if len(codes) != len(words) {
		t.Fatalf("%s: %d words, want %d", name, len(codes), len(words))
	}
	for i, code := range codes {
		if int(code.word) != words[i] {
			t.Fatalf("%s: word %d is %d, want %d", name, i, code.word, words[i])
		}
		for j := range x.book.Dim {
			want := bits[i*s[1]+j/32]>>(31-j%32)&1 == 1
			if got := code.bits[j/64]>>(j%64)&1 == 1; got != want {
				t.Fatalf("%s: word %d, bit %d is %v, want %v", name, words[i], j, got, want)
			}
		}
	}
}

func TestPairsGolden(t *testing.T) {
	var file struct {
		N     int            `json:"n"`
		Sim   [][]float64    `json:"sim_matrix"`
		Pairs map[string]any `json:"pairs"`
	}
	golden.ReadJSON(t, golden.Path(t, "golden", "retrieval_micro", "pairs.json"), &file)
	var sim []float64
	for _, row := range file.Sim {
		sim = append(sim, row...)
	}
	compared := 0
	for key, value := range file.Pairs {
		list, ok := value.([]any)
		if !ok {
			continue // an error of the reference, checked in TestPairsErrors
		}
		parts := strings.Split(key, "|")
		opt := PairOptions{Similarity: sim, Anchor: 7, Symmetrize: parts[1] == "symmetrize=True"}
		if f := strings.TrimPrefix(parts[2], "prefilter="); f != "None" {
			opt.Prefilter = f
		}
		got, err := Pairs(file.N, parts[0], opt)
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		var want []Pair
		for _, p := range list {
			q := p.([]any)
			pair := Pair{int(q[0].(float64)), int(q[1].(float64))}
			if pair.First != pair.Second { // a picture with itself: ours leaves it out
				want = append(want, pair)
			}
		}
		if !strings.HasPrefix(key, "complete") && !strings.HasPrefix(key, "oneref") {
			got, want = asSet(got), asSet(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
		compared++
	}
	if compared < 15 {
		t.Errorf("only %d cases compared", compared)
	}
}

func asSet(pairs []Pair) []Pair {
	set := map[Pair]bool{}
	for _, p := range pairs {
		set[p] = true
	}
	return sorted(set)
}

func TestPairsErrors(t *testing.T) {
	for _, graph := range []string{"", "complete-1", "swin-x", "swin-3-cyclic", "oneref-9", "oneref--1", "retrieval", "retrieval-20-1-10-1", "retrieval-2-1", "mesh"} {
		if p, err := Pairs(5, graph, PairOptions{}); err == nil {
			t.Errorf("%q gave %v", graph, p)
		}
	}
	if _, err := Pairs(5, "complete", PairOptions{Prefilter: "seq"}); err == nil {
		t.Error("prefilter without a number")
	}
	for n := range 3 {
		for _, graph := range []string{"complete", "swin-3", "logwin-60", "retrieval-2-1"} {
			p, err := Pairs(n, graph, PairOptions{Similarity: make([]float64, n*n)})
			if err != nil || len(p) > 1 {
				t.Errorf("%s of %d pictures: %v, %v", graph, n, p, err)
			}
		}
	}
}

func TestHeadErrors(t *testing.T) {
	matrix := func(name string, shape ...int) weights.Tensor {
		return weights.FromFloat32s(name, shape, make([]float32, tensor.Shape(shape).Numel()))
	}
	for name, list := range map[string][]weights.Tensor{
		"nothing":      {matrix("x", 1)},
		"no matrix":    {matrix("prewhiten.m", 1, 8)},
		"other length": {matrix("prewhiten.m", 1, 9), matrix("prewhiten.p", 9, 9)},
		"no bias":      {matrix("projector.0.weight", 4, 8)},
	} {
		if _, err := Open(weights.NewSetTensors(list, nil), 8); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	f := &Features{N: 2, Dim: 1, Values: []float32{1, 2}, Attention: []float32{1, 2}}
	for _, n := range []float64{1.5, -2, math.NaN()} {
		if _, _, err := f.Top(n); err == nil {
			t.Errorf("nfeat %v: no error", n)
		}
	}
	if top, _, err := f.Top(300); err != nil || top.N != 2 {
		t.Errorf("more than there are: %v, %v", top, err)
	}
}
