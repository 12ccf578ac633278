// SPDX-License-Identifier: Apache-2.0

package synth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
)

func hex32(v float32) string { return fmt.Sprintf("%08x", math.Float32bits(v)) }

func TestVectors(t *testing.T) {
	var v struct {
		Hash    map[string]string   `json:"fnv1a64"`
		Bits    map[string][]string `json:"bits"`
		Unit    map[string][]string `json:"unit_f32_hex"`
		Weights map[string][]string `json:"weights_f32_hex"`
		Rule    map[string]struct {
			Shape tensor.Shape `json:"shape"`
			Base  string       `json:"base_f32_hex"`
			Scale string       `json:"scale_f32_hex"`
		} `json:"rule"`
	}
	b, err := os.ReadFile("testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range v.Hash {
		if got := fmt.Sprintf("%016x", FNV1a64(s)); got != want {
			t.Errorf("FNV1a64(%q) = %s, want %s", s, got, want)
		}
	}
	for name, r := range v.Rule {
		key := listSpelling(name)
		base, scale := goldenRule(key, r.Shape)
		if hex32(base) != r.Base || hex32(scale) != r.Scale {
			t.Errorf("%s: rule %g + %g u, want %s + %s u", name, base, scale, r.Base, r.Scale)
		}
		got := make([]float32, 4)
		Golden.Fill(got, name, r.Shape, 0)
		for i := range got {
			if h := fmt.Sprintf("%016x", Bits(key, i)); h != v.Bits[name][i] {
				t.Errorf("%s: bits %d: %s, want %s", name, i, h, v.Bits[name][i])
			}
			if h := hex32(Unit(key, i)); h != v.Unit[name][i] {
				t.Errorf("%s: unit %d: %s, want %s", name, i, h, v.Unit[name][i])
			}
			if hex32(got[i]) != v.Weights[name][i] {
				t.Errorf("%s: weight %d: %s, want %s", name, i, hex32(got[i]), v.Weights[name][i])
			}
		}
	}
	if len(v.Rule) == 0 {
		t.Error("no vectors read")
	}
}

// TestSpec21 checks against the numbers printed in network.md 21.
func TestSpec21(t *testing.T) {
	if got := FNV1a64("image1"); got != 13522665886471912081 {
		t.Errorf("hash of image1: %d", got)
	}
	got := make([]float32, 4)
	Spec21.Fill(got, "image1", tensor.Shape{3, 48, 80}, 0)
	for i, r := range []float64{-0.7656703, 0.99465728, 0.19722664, 0.58667755} {
		if math.Abs(float64(got[i])-0.05*r) > 1e-9 {
			t.Errorf("value %d: %g, want 0.05 x %g", i, got[i], r)
		}
	}
	for _, c := range []struct {
		name        string
		shape       tensor.Shape
		base, scale float64
	}{
		{"encoder.blocks.0.0.ls1.gamma", tensor.Shape{128}, 1, 0.2},
		{"enc_norm.weight", tensor.Shape{128}, 1, 0.1},
		{"enc_norm.bias", tensor.Shape{128}, 0, 0.05},
		{"decoder_embed.weight", tensor.Shape{128, 48}, 0, 0.25},
		{"downstream_head1.dpt.act_postprocess.1.1.weight", tensor.Shape{12, 192, 2, 2}, 0, 0.5},
		{"mast3r.downstream_head1.dpt.head.4.weight", tensor.Shape{4, 12, 1, 1}, 0, 0.05},
	} {
		if b, s := spec21Rule(c.name, c.shape); b != c.base || math.Abs(s-c.scale) > 1e-15 {
			t.Errorf("%s: %g + %g r, want %g + %g r", c.name, b, s, c.base, c.scale)
		}
	}
}

func TestFillStartsAnywhere(t *testing.T) {
	shape := tensor.Shape{7, 11}
	for _, f := range []Formula{Golden, Spec21} {
		for _, name := range []string{"enc_norm.weight", "x.mlp.fc2.weight"} {
			whole, part := make([]float32, 77), make([]float32, 20)
			f.Fill(whole, name, shape, 0)
			f.Fill(part, name, shape, 30)
			if !slices.Equal(whole[30:50], part) {
				t.Errorf("formula %d, %s: a part differs from the whole", f, name)
			}
		}
	}
}

func TestBothSpellingsHoldTheSameData(t *testing.T) {
	for _, f := range []Formula{Golden, Spec21} {
		for k := range 4 {
			a, b := make([]float32, 9), make([]float32, 9)
			f.Fill(a, fmt.Sprintf("h.dpt.scratch.layer%d_rn.weight", k+1), tensor.Shape{1, 1, 3, 3}, 0)
			f.Fill(b, fmt.Sprintf("h.dpt.scratch.layer_rn.%d.weight", k), tensor.Shape{1, 1, 3, 3}, 0)
			if !slices.Equal(a, b) {
				t.Errorf("formula %d, convolution %d: two spellings, two contents", f, k)
			}
		}
	}
}

func TestEverySetIsConsistent(t *testing.T) {
	pool := par.New(0)
	defer pool.Close()
	for _, v := range []string{"mast3r_micro", "dune_micro", "retrieval_micro_proj"} {
		s, err := Model(pool, v)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range s.Names() { // aliases must agree, or Need fails
			if _, err := s.Need(name, s.Shape(name)); err != nil {
				t.Error(err)
			}
		}
		if got := s.Metadata()["variant"]; got != v {
			t.Errorf("%s: metadata says %q", v, got)
		}
	}
	if _, err := Model(pool, "none"); err == nil {
		t.Error("an unknown variant was made")
	}
}

// TestParameterCounts pins the manifests to the published file sizes
// (network.md 1): distinct parameters, aliases counted once.
func TestParameterCounts(t *testing.T) {
	count := func(f File) (n int) {
		seen := map[string]bool{}
		for _, s := range f.Specs {
			if key := listSpelling(s.Name); !seen[key] {
				seen[key] = true
				n += s.Shape.Numel()
			}
		}
		return n
	}
	for _, c := range []struct {
		variant string
		file    int
		want    int
	}{{"mast3r_vit_large", 0, 688638856}, {"dune_vit_small_14", 1, 323479888}, {"dune_vit_base_14", 1, 347389648}} {
		d, err := Variant(c.variant)
		if err != nil {
			t.Fatal(err)
		}
		// imagenet_mean and imagenet_std, 6 numbers, may be in the count of the
		// published decoder files.
		if got := count(d.Files()[c.file]); got != c.want && got+6 != c.want {
			t.Errorf("%s: %d parameters, want %d", c.variant, got, c.want)
		}
	}
	d, _ := Variant("mast3r_vit_large")
	if got := len(d.Files()[0].Specs); got != 1017 {
		t.Errorf("mast3r_vit_large: %d names, want 1017", got)
	}
}

// TestMicroFilesByteForByte writes the shipped variants and compares whole
// files: header, metadata, order and every weight.
func TestMicroFilesByteForByte(t *testing.T) {
	pool := par.New(0)
	defer pool.Close()
	for _, v := range []string{"mast3r_micro", "dune_micro", "mast3r_mini", "dune_mini"} {
		want := map[string]string{}
		if _, ok := map[string]bool{"mast3r_micro": true, "dune_micro": true}[v]; ok {
			var index struct {
				SHA map[string]string `json:"weights_sha256"`
			}
			golden.ReadJSON(t, golden.Path(t, "golden", v, "index.json"), &index)
			want = index.SHA
		} else {
			for name, f := range manifestOf(t, v) {
				want[name] = f.SHA256
			}
		}
		dir := t.TempDir()
		d, err := Variant(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(pool, dir, d, Golden, d.Metadata(v)); err != nil {
			t.Fatal(err)
		}
		for name, sha := range want {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(b)
			if got := hex.EncodeToString(sum[:]); got != sha {
				t.Errorf("%s/%s: sha256 %s, want %s", v, name, got, sha)
			}
		}
		if len(want) == 0 {
			t.Errorf("%s: no checksums read", v)
		}
	}
}

type manifestFile struct {
	SHA256    string            `json:"sha256"`
	Checksums map[string]string `json:"checksums"`
}

func manifestOf(t *testing.T, variant string) map[string]manifestFile {
	t.Helper()
	var m struct {
		Files map[string]manifestFile `json:"files"`
	}
	golden.ReadJSON(t, golden.Path(t, "golden", "fullsize", variant+".weights.json"), &m)
	return m.Files
}

// checksum is the golden data's: the sum of the float32 bit patterns.
func checksum(t weights.Tensor) string {
	sum := uint64(0)
	for _, v := range t.Float32s(nil) {
		sum += uint64(math.Float32bits(v))
	}
	return fmt.Sprintf("%016x", sum)
}

// TestFullSizeChecksums compares the tensors of the real-size models. A run
// takes all small tensors and one of each shape up to 4 Mi elements;
// MAST3R_FULL=1 takes all 1.4 thousand million weights.
func TestFullSizeChecksums(t *testing.T) {
	pool := par.New(0)
	defer pool.Close()
	all := os.Getenv("MAST3R_FULL") != ""
	for _, v := range []string{"mast3r_vit_large", "dune_vit_small_14", "dune_vit_base_14"} {
		d, err := Variant(v)
		if err != nil {
			t.Fatal(err)
		}
		want := manifestOf(t, v)
		for _, f := range d.Files() {
			sums := want[f.Name].Checksums
			if len(sums) != len(f.Specs) {
				t.Errorf("%s/%s: %d tensors, want %d", v, f.Name, len(f.Specs), len(sums))
			}
			kinds := map[string]bool{}
			for _, s := range f.Specs {
				_, last := tail(s.Name)
				kind := last + s.Shape.String()
				if n := s.Shape.Numel(); !all && (n > 1<<22 || n > 1<<14 && kinds[kind]) {
					continue
				}
				kinds[kind] = true
				got := checksum(Tensors(pool, []weights.Spec{s}, Golden)[0])
				if got != sums[s.Name] {
					t.Errorf("%s: %s: checksum %s, want %s", v, s.Name, got, sums[s.Name])
				}
			}
		}
	}
}

func TestRetrievalWeights(t *testing.T) {
	pool := par.New(0)
	defer pool.Close()
	for variant, file := range map[string]string{
		"retrieval_micro": "retrieval_weights", "retrieval_micro_proj": "retrieval_proj_weights",
	} {
		c := golden.Load(t, golden.Path(t, "golden", "retrieval_micro", file+".safetensors"))
		d, err := Variant(variant)
		if err != nil {
			t.Fatal(err)
		}
		list := Tensors(pool, d.Files()[0].Specs, Golden)
		if len(list) != len(c.Names()) {
			t.Errorf("%s: %d tensors, want %d", variant, len(list), len(c.Names()))
		}
		for _, l := range list {
			want, shape := c.Floats(t, l.Name)
			if !slices.Equal(l.Float32s(nil), want) || !l.Shape.Equal(shape) {
				t.Errorf("%s: %s differs", variant, l.Name)
			}
		}
	}
}

// TestManifestOfARealFile compares the names and shapes with a trained model of
// other dimensions, through a Set.
func TestManifestOfARealFile(t *testing.T) {
	s, err := weights.OpenSet(golden.Path(t, "models", "mast3r_tiny"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := full(MASt3R, 16, 192, 6, 3).trunk(192, 6, 3).head(64, 32, [4]int{24, 48, 96, 192}, 256)
	for _, spec := range d.Files()[0].Specs {
		// The file has one name of the aliases, and nothing that is never used.
		if strings.Contains(spec.Name, ".layer_rn.") || strings.Contains(spec.Name, ".refinenet4.resConfUnit1.") || spec.Name == "mask_token" {
			continue
		}
		if got, err := s.Need(spec.Name, spec.Shape); err != nil || got.DType != tensor.F16 {
			t.Errorf("%s: %v, %v, want f16", spec.Name, got.DType, err)
		}
	}
	if r := s.Report(); len(r.Extra) > 0 {
		t.Errorf("tensors that the manifest lacks: %q", r.Extra)
	}
	if m := s.Metadata(); m["dpt_layer_dims"] != d.Metadata("")["dpt_layer_dims"] || m["dpt_hooks"] != d.Metadata("")["dpt_hooks"] {
		t.Errorf("metadata %v", m)
	}
}

func BenchmarkFill(b *testing.B) {
	dst := make([]float32, tileElems)
	b.SetBytes(4 * tileElems)
	for b.Loop() {
		Golden.Fill(dst, "enc_blocks.0.mlp.fc1.weight", tensor.Shape{4096, 1024}, 0)
	}
}

func TestPictures(t *testing.T) {
	pool := par.New(0)
	defer pool.Close()
	var index struct {
		Cases map[string]struct {
			View1 [][5]any `json:"view1"`
			View2 [][5]any `json:"view2"`
		} `json:"cases"`
	}
	dir := golden.Path(t, "golden", "mast3r_micro")
	golden.ReadJSON(t, filepath.Join(dir, "index.json"), &index)
	n := 0
	for name, c := range index.Cases {
		for v, list := range [][][5]any{c.View1, c.View2} {
			for i, a := range list {
				num := func(k int) int { return int(a[k].(float64)) }
				path := filepath.Join(dir, fmt.Sprintf("%s_view%d_%d.png", name, v+1, i))
				if _, err := os.Stat(path); err != nil || name == "flat" {
					continue // symmetric and fp16_weights share landscape's; flat is grey
				}
				want, w, h := golden.Picture(t, path)
				got := Picture(pool, a[0].(string), num(1), num(2), num(3), num(4))
				if w != num(1) || h != num(2) || !slices.Equal(got, want) {
					t.Errorf("%s: the picture differs", path)
				}
				n++
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d pictures compared", n)
	}
}
