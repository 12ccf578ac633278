// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/torchfile"
)

// smallDune is the smallest DUNE model whose heads are 64 wide, which is what a
// published file leaves unsaid.
func smallDune(t *testing.T) synth.Dims {
	t.Helper()
	d, err := synth.Variant("dune_micro")
	if err != nil {
		t.Fatal(err)
	}
	d.EncDim, d.EncHeads, d.DecDim, d.DecHeads = 128, 2, 64, 1
	return d
}

// duneCheckpoints writes a DUNE model as its two published files.
func duneCheckpoints(t *testing.T, pool *par.Pool, d synth.Dims) string {
	t.Helper()
	dir := t.TempDir()
	contents := map[string]torchfile.Content{
		"dune_vitsmall14_448.pth": {Args: map[string]any{"image_size": d.PosGrid * d.Patch}},
		"dunemast3r_cvpr25_vitsmall.pth": {Top: map[string]string{
			"dune_backbone_name": "dune_vitsmall_14_448_encoder",
			"mast3r_model_str": "AsymmetricMASt3R(enc_depth=0, enc_num_heads=16, pos_embed='RoPE100', img_size=(512, 512), " +
				"head_type='catmlp+dpt', output_mode='pts3d+desc24', depth_mode=('exp', -inf, inf), " +
				"conf_mode=('exp', 1, inf), desc_conf_mode=('exp', 0, inf), two_confs=True)",
		}},
	}
	for i, name := range []string{"dune_vitsmall14_448.pth", "dunemast3r_cvpr25_vitsmall.pth"} {
		tensors := synth.Tensors(pool, d.Files()[i].Specs, synth.Golden)
		for j := range tensors {
			tensors[j].Name = "module." + tensors[j].Name
		}
		if err := torchfile.SaveTensors(filepath.Join(dir, name), tensors, contents[name]); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The two checkpoints of a DUNE model, as a directory, by either half, and
// converted, are the same model as its safetensors.
func TestDuneCheckpoints(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	d, plain := smallDune(t), t.TempDir()
	if err := synth.Write(pool, plain, d, synth.Golden, d.Metadata("small")); err != nil {
		t.Fatal(err)
	}
	dir := duneCheckpoints(t, pool, d)
	converted := filepath.Join(t.TempDir(), "converted")
	written, err := gomps.Convert(context.Background(), dir, converted, gomps.ConvertOptions{Precision: "fp32"})
	if err != nil {
		t.Fatal(err)
	}
	if len(written) != 2 || filepath.Base(written[0]) != "encoder.safetensors" || filepath.Base(written[1]) != "decoder.safetensors" {
		t.Errorf("wrote %q", written)
	}
	var want []float32
	e := open(t, gomps.Config{Precision: "fp32", Threads: 2, Resolution: 70}, "dune_micro")
	for i, path := range []string{plain, dir, filepath.Join(dir, "dune_vitsmall14_448.pth"),
		filepath.Join(dir, "dunemast3r_cvpr25_vitsmall.pth"), converted} {
		if err := e.Load(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		got := values(infer(t, e, picture(70, 56, 1), picture(56, 70, 2)).View[:]...)
		if i == 0 {
			want = got
		} else if !slices.Equal(got, want) {
			t.Errorf("%s is another model than its safetensors", path)
		}
	}
}

func TestConvertErrors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.pth")
	if err := os.WriteFile(bad, []byte("\x80\x02cos\nsystem\n."), 0o600); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(dir, "good.safetensors")
	if err := weights.Write(good, []weights.Tensor{weights.FromFloat32s("a", []int{1}, []float32{1e6})}, nil, 0); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for _, c := range []struct {
		ctx                context.Context
		in, out, precision string
		want               func(error) bool
	}{
		{context.Background(), bad, dir, "fp16", is[*gomps.WeightsError]},
		{context.Background(), good, dir, "fp16", is[*gomps.WeightsError]}, // 1e6 does not fit
		{context.Background(), good, dir, "fp8", is[*gomps.ConfigError]},
		{context.Background(), good, filepath.Join(good, "x.safetensors"), "bf16", is[*gomps.FileError]},
		{context.Background(), filepath.Join(dir, "none.pth"), dir, "bf16", func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		{stopped, good, dir, "bf16", func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		if _, err := gomps.Convert(c.ctx, c.in, c.out, gomps.ConvertOptions{Precision: c.precision}); err == nil || !c.want(err) {
			t.Errorf("%s to %s as %s: got %T %v", c.in, c.out, c.precision, err, err)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q has more than one line", err)
		}
	}
}

func TestResolutionOfOneCall(t *testing.T) {
	ctx := context.Background()
	a, b := picture(200, 150, 1), picture(150, 200, 2)
	e := open(t, gomps.Config{Precision: "fp32", Threads: 2, Resolution: 64}, "mast3r_micro")
	small := open(t, gomps.Config{Precision: "fp32", Threads: 2, Resolution: 96}, "mast3r_micro")
	got, err := e.Infer(ctx, a, b, gomps.InferOptions{Resolution: 96})
	if err != nil {
		t.Fatal(err)
	}
	if want := infer(t, small, a, b); !slices.Equal(values(got.View[:]...), values(want.View[:]...)) {
		t.Error("a resolution for one call differs from the same as the engine's")
	}
	if s := infer(t, e, a, b).View[0].Conf.Shape(); s[0] != 64 {
		t.Errorf("the next call has shape %v", s)
	}
	for _, bad := range []int{-1, 15, 1 << 30} {
		if _, err := e.Infer(ctx, a, b, gomps.InferOptions{Resolution: bad}); !is[*gomps.ImageError](err) {
			t.Errorf("resolution %d: got %v", bad, err)
		}
	}
}

// The published retrieval head: a .pth with a whitening in float64, found by its
// name in a folder, gives the same features as the float32 values it was made of,
// and as its conversion to half precision, which leaves the whitening alone.
func TestRetrievalCheckpoint(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	d, err := synth.Variant("retrieval_micro")
	if err != nil {
		t.Fatal(err)
	}
	tensors := synth.Tensors(pool, d.Files()[0].Specs, synth.Golden)
	for i := range tensors {
		if tensors[i], err = tensors[i].Cast(tensor.F64); err != nil {
			t.Fatal(err)
		}
	}
	dir, converted := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric_retrieval_trainingfree.pth")
	args := map[string]any{"nfeat": 300, "hdims": "", "residual": false, "postwhiten": false, "featweights": "l2norm"}
	if err := torchfile.SaveTensors(file, tensors, torchfile.Content{Args: args}); err != nil {
		t.Fatal(err)
	}
	if _, err := gomps.Convert(context.Background(), file, converted, gomps.ConvertOptions{Precision: "fp16"}); err != nil {
		t.Fatal(err)
	}
	e := open(t, gomps.Config{Precision: "fp32", Threads: 2, Resolution: 64}, "mast3r_micro")
	var want []float32
	for i, path := range []string{retrievalFile(t, "retrieval_micro"), dir, file, converted} {
		if err := e.LoadRetrieval(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		r, err := e.EncodeRetrieval(context.Background(), picture(64, 48, 1), gomps.InferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			want = r.Features
		} else if !slices.Equal(r.Features, want) {
			t.Errorf("%s is another head than its safetensors", path)
		}
	}
}
