// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
)

// retrievalFile writes the synthetic retrieval head of a variant.
func retrievalFile(t *testing.T, variant string) string {
	t.Helper()
	d, err := synth.Variant(variant)
	if err != nil {
		t.Fatal(err)
	}
	pool := par.New(0)
	defer pool.Close()
	dir := t.TempDir()
	if err := synth.Write(pool, dir, d, synth.Golden, d.Metadata(variant)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRetrievalGolden goes the whole way: pictures, shared encoder, features,
// index, scores.
func TestRetrievalGolden(t *testing.T) {
	dir := golden.Path(t, "golden", "retrieval_micro")
	e := open(t, gomps.Config{}, "mast3r_micro")
	if err := e.LoadRetrieval(t.Context(), retrievalFile(t, "retrieval_micro")); err != nil {
		t.Fatal(err)
	}
	var images []gomps.Image
	for i := range 5 {
		pix, w, h := golden.Picture(t, filepath.Join(dir, fmt.Sprintf("img%d.png", i)))
		images = append(images, gomps.Image{Pix: pix, Height: h, Width: w})
	}
	all, err := e.EncodeRetrievalBatch(context.Background(), images, gomps.InferOptions{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	c := golden.Load(t, filepath.Join(dir, "retrieval_micro.safetensors"))
	asmk := golden.Load(t, filepath.Join(dir, "asmk.safetensors"))
	x, err := e.OpenIndex(t.Context(), codebookFile(t, asmk), 30)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for i, r := range all {
		at := fmt.Sprintf("img%d.", i)
		c.CheckRel(t, at+"feat", r.Features, tensor.Shape{1, r.N, r.Dim}, 1e-5)
		c.CheckRel(t, at+"attn", r.Attention, tensor.Shape{1, r.N}, 1e-5)
		c.CheckRel(t, at+"global", r.Global(), tensor.Shape{1, r.Dim}, 1e-5)
		_, index, err := r.Top(30)
		if want, _ := c.Ints(t, at+"topk_index"); err != nil || !slices.Equal(index, want) {
			t.Errorf("%s: top %v, want %v (%v)", at, index, want, err)
		}
		if n, err := x.Add(r); err != nil || n != i {
			t.Fatal(n, err)
		}
	}
	var scores []float32
	for _, r := range all {
		row, err := x.Score(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range row {
			scores = append(scores, float32(v))
		}
	}
	asmk.CheckRel(t, "plain.scores", scores, tensor.Shape{5, 5}, 1e-6)
}

func codebookFile(t *testing.T, c *golden.Case) string {
	t.Helper()
	v, s := c.Floats(t, "plain.codebook")
	path := filepath.Join(t.TempDir(), "codebook.safetensors")
	if err := weights.Write(path, []weights.Tensor{weights.FromFloat32s("centroids", s, v)}, nil, 0); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRetrievalStates(t *testing.T) {
	ctx := context.Background()
	e, err := gomps.Open(gomps.Config{Backend: "cpu", Resolution: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	img := picture(48, 64, 0)
	if _, err := e.EncodeRetrieval(ctx, img, gomps.InferOptions{}); !errors.Is(err, gomps.ErrNoRetrieval) {
		t.Errorf("before any load: %v", err)
	}
	head := retrievalFile(t, "retrieval_micro")
	if err := e.LoadRetrieval(t.Context(), head); !errors.Is(err, gomps.ErrNotLoaded) {
		t.Errorf("a shared head without a model: %v", err)
	}
	model := microModel(t, "mast3r_micro")
	if err := e.LoadRetrievalStandalone(t.Context(), model, head); err != nil {
		t.Fatal(err)
	}
	if ready, alone := e.RetrievalReady(); !ready || !alone || e.Ready() {
		t.Errorf("standalone: ready %v, alone %v, infer ready %v", ready, alone, e.Ready())
	}
	a, err := e.EncodeRetrieval(ctx, img, gomps.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Infer(ctx, img, img, gomps.InferOptions{}); !errors.Is(err, gomps.ErrNotLoaded) {
		t.Errorf("infer with a standalone retrieval: %v", err)
	}
	if err := errors.Join(e.Load(t.Context(), model), e.LoadRetrieval(t.Context(), head)); err != nil {
		t.Fatal(err)
	}
	b, err := e.EncodeRetrieval(ctx, img, gomps.InferOptions{})
	if err != nil || !slices.Equal(a.Features, b.Features) {
		t.Errorf("the shared encoder gives other features (%v)", err)
	}
	if err := e.LoadRetrieval(t.Context(), retrievalFile(t, "retrieval_large")); !is[*gomps.WeightsError](err) {
		t.Errorf("a head for another encoder: %v", err)
	}
	if _, err := gomps.ScenePairs(4, "nonsense", gomps.SceneOptions{}); !is[*gomps.ConfigError](err) {
		t.Errorf("scene graph: %v", err)
	}
}
