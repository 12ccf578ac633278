// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"archive/zip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// decoderFile is a DUNE decoder that names its encoder.
func decoderFile(t *testing.T, backbone string) []byte {
	t.Helper()
	return torchZip(t, "d/", map[string][]byte{
		"data.pkl": pkl(pDict(
			pStr("dune_backbone_name"), pStr(backbone),
			pStr("mast3r_model_str"), pStr("M(img_size=(512, 512), enc_num_heads=16, conf_mode=('exp', 1, inf))"),
			pStr("model"), pDict(pStr("mast3r.x"), pTensor("0", 1, 0, pTuple(1), pTuple(1))))),
		"data/0": make([]byte, 4),
	}, zip.Store)
}

func TestFiles(t *testing.T) {
	const (
		small = "dunemast3r_cvpr25_vitsmall.pth"
		base  = "dunemast3r_cvpr25_vitbase.pth"
		e336  = "dune_vitsmall14_336.pth"
		e448  = "dune_vitsmall14_448.pth"
		paper = "dune_vitbase14_448_paper.pth"
		eBase = "dune_vitbase14_448.pth"
		one   = "MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric.pth"
	)
	decoders := map[string]string{small: "dune_vitsmall_14_448_encoder", base: "dune_vitbase_14_448_paper_encoder"}
	cases := []struct {
		name, files, ask, want string
	}{
		{"unified before all", "unified.safetensors model.safetensors encoder.safetensors decoder.safetensors " + one, "", "unified.safetensors"},
		{"hub", "model.safetensors config.json", "", "model.safetensors"},
		{"halves", "encoder.safetensors decoder.safetensors retrieval.safetensors", "", "encoder.safetensors decoder.safetensors"},
		{"one half", "encoder.safetensors unified.pth", "", "unified.pth"},
		{"halves of torch", "encoder.pth decoder.pth", "", "encoder.pth decoder.pth"},
		{"published", one, "", one},
		{"the decoder's encoder", small + " " + e336 + " " + e448, "", e448 + " " + small},
		{"the paper's encoder", base + " " + eBase + " " + paper, "", paper + " " + base},
		{"the only encoder", small + " " + e336 + " " + eBase, "", e336 + " " + small},
		{"asked by encoder", small + " " + e336 + " " + e448 + " " + one, e336, e336 + " " + small},
		{"asked by decoder", small + " " + e336 + " " + e448 + " " + one, small, e448 + " " + small},
		{"an encoder alone", e336, e336, e336},
		{"a decoder alone", small + " " + paper, small, small},
		{"a folder [a*b]", small + " " + e336, "", e336 + " " + small},
		{"several models", small + " " + e336 + " " + one, "", "error holds 2 models"},
		{"several encoders", base + " " + eBase + " dune_vitbase14_336.pth", "", "error several encoders"},
		{"nothing", "readme.txt", "", "error no unified.safetensors"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), c.name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range strings.Fields(c.files) {
				var data []byte
				if backbone := decoders[name]; backbone != "" {
					data = decoderFile(t, backbone)
				}
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Files(filepath.Join(dir, c.ask))
			if want, bad := strings.CutPrefix(c.want, "error "); bad {
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
					t.Errorf("got %q, %v, want an error with %q", got, err, want)
				}
				return
			}
			for i, p := range got {
				got[i] = strings.TrimPrefix(p, dir+string(filepath.Separator))
			}
			if err != nil || !slices.Equal(got, strings.Fields(c.want)) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestHubSnapshot(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	write("refs/main", "abc123\n")
	write("snapshots/old/unified.safetensors", "")
	want := write("snapshots/abc123/model.safetensors", "")
	if got, err := Files(dir); err != nil || !slices.Equal(got, []string{want}) {
		t.Errorf("got %q, %v", got, err)
	}
	book := write("snapshots/abc123/codebook.pkl", "")
	if got, err := CodebookFile(dir); err != nil || got != book {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := CodebookFile(book); err != nil || got != book {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := RetrievalFile(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "retrieval.safetensors") {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{"../../etc", "", ".."} {
		write("refs/main", bad)
		if _, err := Files(dir); err == nil || !strings.Contains(err.Error(), "refs/main") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

// The two halves keep their own metadata, and the encoder's size is the model's.
func TestDuneMetadata(t *testing.T) {
	dir := t.TempDir()
	encoder := torchZip(t, "e/", map[string][]byte{
		"data.pkl": pkl(pDict(
			pStr("args"), pDict(pStr("image_size"), pInt(336)),
			pStr("model"), pDict(pStr("module.encoder.blocks.0.0.norm1.weight"), pTensor("0", 1, 0, pTuple(1), pTuple(1))))),
		"data/0": make([]byte, 4),
	}, zip.Store)
	for name, b := range map[string][]byte{"dune_vitsmall14_336.pth": encoder, "dunemast3r_cvpr25_vitsmall.pth": decoderFile(t, "dune_vitsmall_14_336_encoder")} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	meta := s.Metadata()
	if _, ok := meta["enc_heads"]; ok {
		t.Error("the heads of the encoder that DUNE replaces were taken for DUNE's")
	}
	if meta["resolution"] != "336" || meta["conf_mode"] != "exp,1,inf" || meta["dune_backbone"] != "dune_vitsmall_14_336_encoder" {
		t.Errorf("metadata %v", meta)
	}
	if !s.Has("encoder.blocks.0.0.norm1.weight") || !s.Has("mast3r.x") {
		t.Errorf("names %q", s.Names())
	}
}
