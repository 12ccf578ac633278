// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metaltest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

func goldenPicture(t *testing.T, path string) gomps.Image {
	t.Helper()
	pix, w, h := golden.Picture(t, path)
	return gomps.Image{Pix: pix, Height: h, Width: w}
}

// checkView holds a view against the tensors prefix.pts3d, .conf, .desc and
// .desc_conf of a golden case; other is the suffix of points in the other
// view's frame.
func checkView(t *testing.T, c *golden.Case, prefix, other string, v gomps.View, p golden.Profile) {
	t.Helper()
	for name, x := range map[string]*gomps.Tensor{"pts3d" + other: v.Points, "conf": v.Conf, "desc": v.Desc, "desc_conf": v.DescConf} {
		c.Check(t, prefix+name, x.Float32s(), append(tensor.Shape{1}, x.Shape()...), p)
	}
}

// TestReference runs the reference's own cases through the engine: every output
// within the limits of the golden data.
func TestReference(t *testing.T) {
	for _, variant := range []string{"mast3r_micro", "dune_micro"} {
		for precision, profile := range map[string]golden.Profile{"fp32": golden.FP32, "fp16": golden.FP16} {
			t.Run(variant+"/"+precision, func(t *testing.T) {
				dir := golden.Path(t, "golden", variant)
				metalsim.Open(t)
				e := open(t, gomps.Config{Backend: "metal", Precision: precision}, variant)
				for _, name := range []string{"landscape", "portrait", "flat", "square"} {
					files := [2]string{}
					for i := range files {
						files[i] = filepath.Join(dir, fmt.Sprintf("%s_view%d_0.png", name, i+1))
					}
					if m, err := filepath.Glob(files[0]); err != nil || len(m) == 0 {
						continue // this variant has no such case
					}
					c := golden.Load(t, filepath.Join(dir, name+".safetensors"))
					r, err := e.Infer(background, goldenPicture(t, files[0]), goldenPicture(t, files[1]), gomps.InferOptions{Raw: true})
					if err != nil {
						t.Fatal(err)
					}
					checkView(t, c, "pred1.", "", r.View[0], profile)
					checkView(t, c, "pred2.", "_in_other_view", r.View[1], profile)
					r.Release()
				}
				if e.Info().Decodes < 2 {
					t.Errorf("%d pairs were compared", e.Info().Decodes)
				}
			})
		}
	}
}

func TestReferenceSymmetric(t *testing.T) {
	dir := golden.Path(t, "golden", "mast3r_micro")
	metalsim.Open(t)
	e := open(t, gomps.Config{Backend: "metal", Precision: "fp32"}, "mast3r_micro")
	a, b := goldenPicture(t, filepath.Join(dir, "landscape_view1_0.png")), goldenPicture(t, filepath.Join(dir, "landscape_view2_0.png"))
	before := e.Info()
	s, err := e.InferSymmetric(background, a, b, gomps.InferOptions{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	c, sym := golden.Load(t, filepath.Join(dir, "landscape.safetensors")), golden.Load(t, filepath.Join(dir, "symmetric.safetensors"))
	checkView(t, c, "pred1.", "", s.View[0], golden.FP32)
	checkView(t, c, "pred2.", "_in_other_view", s.View[1], golden.FP32)
	checkView(t, sym, "res22.", "", s.View[2], golden.FP32)
	checkView(t, sym, "res12.", "", s.View[3], golden.FP32)
	now := e.Info()
	if n := now.CommandBuffers - before.CommandBuffers; n != 1 || now.Encodes-before.Encodes != 2 {
		t.Errorf("%d command buffers and %d encodings, want 1 and 2", n, now.Encodes-before.Encodes)
	}
}

func TestReferenceRetrieval(t *testing.T) {
	dir := golden.Path(t, "golden", "retrieval_micro")
	metalsim.Open(t)
	e := open(t, gomps.Config{Backend: "metal", Precision: "fp32"}, "mast3r_micro")
	d, err := synth.Variant("retrieval_micro")
	if err != nil {
		t.Fatal(err)
	}
	pool, head := par.New(1), t.TempDir()
	defer pool.Close()
	if err := synth.Write(pool, head, d, synth.Golden, d.Metadata("retrieval_micro")); err != nil {
		t.Fatal(err)
	}
	if err := e.LoadRetrieval(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	c := golden.Load(t, filepath.Join(dir, "retrieval_micro.safetensors"))
	for i := range 3 {
		r, err := e.EncodeRetrieval(background, goldenPicture(t, filepath.Join(dir, fmt.Sprintf("img%d.png", i))), gomps.InferOptions{Raw: true})
		if err != nil {
			t.Fatal(err)
		}
		at := fmt.Sprintf("img%d.", i)
		c.CheckRel(t, at+"feat", r.Features, tensor.Shape{1, r.N, r.Dim}, 1e-5)
		c.CheckRel(t, at+"attn", r.Attention, tensor.Shape{1, r.N}, 1e-5)
	}
}

// TestFeaturesOnGPU keeps encoded pictures and decodes them later.
func TestFeaturesOnGPU(t *testing.T) {
	metalsim.Open(t)
	e := open(t, gomps.Config{Backend: "metal", Precision: "fp32", Resolution: 64}, "mast3r_micro")
	a, b := picture(48, 64, 0), picture(48, 64, 5)
	want := infer(t, e, a, b)
	fa, err := e.Encode(background, a, gomps.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer fa.Release()
	fb, err := e.Encode(background, b, gomps.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer fb.Release()
	r, err := e.Decode(background, fa, fb, gomps.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	for i, got := range views(r.View[0], r.View[1]) {
		if d := relL2(got, want[i]); d > 1e-6 {
			t.Errorf("tensor %d: %.2g from the pair inferred whole", i, d)
		}
	}
}
