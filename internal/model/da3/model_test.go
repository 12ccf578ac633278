// SPDX-License-Identifier: Apache-2.0

package da3_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/da3"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// zeros is a network of the dimensions of a variant; graphs are built from shapes.
func zeros(t *testing.T, d synth.Dims, meta map[string]string) *weights.Set {
	t.Helper()
	specs, largest := d.Files()[0].Specs, 0
	for _, s := range specs {
		largest = max(largest, 4*s.Shape.Numel())
	}
	data := make([]byte, largest)
	list := make([]weights.Tensor, len(specs))
	for i, s := range specs {
		list[i] = weights.Tensor{Name: s.Name, DType: tensor.F32, Shape: s.Shape, Data: data[:4*s.Shape.Numel()]}
	}
	return weights.NewSetTensors(list, meta)
}

func dims(t *testing.T, variant string) synth.Dims {
	t.Helper()
	d, err := synth.Variant(variant)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDimsFromShapes(t *testing.T) {
	for variant, want := range map[string]da3.Dims{
		"da3_small": {Dim: 384, Depth: 12, Heads: 6, Start: 4, Hooks: [4]int{5, 7, 9, 11}, Features: 64, Channels: [4]int{48, 96, 192, 384}},
		"da3_base":  {Dim: 768, Depth: 12, Heads: 12, Start: 4, Hooks: [4]int{5, 7, 9, 11}, Features: 128, Channels: [4]int{96, 192, 384, 768}},
		"da3_large": {Dim: 1024, Depth: 24, Heads: 16, Start: 8, Hooks: [4]int{11, 15, 19, 23}, Features: 256, Channels: [4]int{256, 512, 1024, 1024}},
		"da3_giant": {Dim: 1536, Depth: 40, Heads: 24, Start: 13, Hooks: [4]int{19, 27, 33, 39}, Features: 256, Channels: [4]int{256, 512, 1024, 1024}, Gated: true},
		"da3_mono":  {Dim: 1024, Depth: 24, Heads: 16, Start: 4, Hooks: [4]int{4, 11, 17, 23}, Features: 256, Channels: [4]int{256, 512, 1024, 1024}},
	} {
		d := dims(t, variant)
		m, err := da3.Open(zeros(t, d, d.Metadata(variant)))
		if err != nil {
			t.Fatal(err)
		}
		want.Patch, want.PosGrid, want.Resolution, want.Variant = 14, 37, 504, variant
		want.Views = variant != "da3_mono"
		want.Given, want.Rays = want.Views, want.Views
		if !want.Views {
			want.Variant = "da3_mono_large"
		}
		if m.Dims != want {
			t.Errorf("%s: got %+v, want %+v", variant, m.Dims, want)
		}
		if r := m.Report(); len(r.Extra) > 0 {
			t.Errorf("%s: tensors not used: %v", variant, r.Extra)
		}
	}
}

// published writes the golden network to a folder, with config.json if there is one.
func published(t *testing.T, change func([]weights.Tensor) []weights.Tensor, config string) string {
	t.Helper()
	f, err := weights.Open(filepath.Join("testdata", "tiny.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []weights.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		list = append(list, x)
	}
	dir := t.TempDir()
	if change != nil {
		list = change(list)
	}
	specs := make([]weights.Spec, len(list))
	for i, x := range list {
		specs[i] = weights.Spec{Name: x.Name, DType: x.DType, Shape: x.Shape}
	}
	w, err := weights.Create(filepath.Join(dir, "model.safetensors"), specs, f.Metadata(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range list {
		if err := w.WriteAt(i, x.Data, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if config != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t *testing.T, dir string) (*da3.Model, error) {
	t.Helper()
	set, err := weights.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return da3.Open(set)
}

func TestConfigBesideTheWeights(t *testing.T) {
	m, err := open(t, published(t, nil, `{"model_name": "da3-tiny", "config": {"net": {"out_layers": [2, 4, 6, 7], "alt_start": 2}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if m.Variant != "da3_32_8" {
		t.Errorf("variant %s, but no network is called da3-tiny", m.Variant)
	}
	if m.Hooks != [4]int{2, 4, 6, 7} {
		t.Errorf("hooks %v, want those of config.json", m.Hooks)
	}
	for _, bad := range []string{"{", `[]`, `{"config": {"net": {"out_layers": [1, 2]}}}`, `{"config": {"net": {"out_layers": [2, 4, 6, 8]}}}`,
		`{"config": {"net": {"out_layers": [-1, 4, 6, 7]}}}`, `{"config": {"net": {"alt_start": 3}}}`, strings.Repeat(" ", 1<<20+1)} {
		if _, err := open(t, published(t, nil, bad)); err == nil {
			t.Errorf("config.json %.60q was accepted", bad)
		}
	}
	if _, err := open(t, published(t, nil, `{"architectures": ["other"]}`)); err != nil {
		t.Errorf("a config.json of another kind: %v", err)
	}
}

// TestSharedNorm: files that hold the one norm under all its names, or under
// another, are the same network; contents that differ are not.
func TestSharedNorm(t *testing.T) {
	const name = "model.head.scratch.output_conv2_aux.%d.2.%s"
	renamed := func(level int, keep, differ bool) func([]weights.Tensor) []weights.Tensor {
		return func(list []weights.Tensor) []weights.Tensor {
			var out []weights.Tensor
			for _, x := range list {
				for _, part := range []string{"weight", "bias"} {
					if x.Name != fmt.Sprintf(name, 0, part) {
						continue
					}
					y := x
					y.Name = fmt.Sprintf(name, level, part)
					if differ {
						y.Data = make([]byte, len(x.Data))
					}
					out = append(out, y)
					if !keep {
						x.Name = ""
					}
				}
				if x.Name != "" {
					out = append(out, x)
				}
			}
			return out
		}
	}
	for what, change := range map[string]func([]weights.Tensor) []weights.Tensor{"another": renamed(3, false, false), "both": renamed(2, true, false)} {
		m, err := open(t, published(t, change, ""))
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if !m.Rays || len(m.Report().Extra) > 0 {
			t.Errorf("%s: rays %v, not used: %v", what, m.Rays, m.Report().Extra)
		}
	}
	if _, err := open(t, published(t, renamed(2, true, true), "")); !errors.Is(err, weights.ErrConflict) {
		t.Errorf("norms that differ: %v", err)
	}
}

func TestDamagedWeights(t *testing.T) {
	d := dims(t, "da3_tiny")
	for _, lost := range []string{"backbone.pretrained.blocks.3.attn.k_norm.bias", "cam_dec.fc_t.weight", "head.norm.weight", "cam_enc.trunk.3.ls2.gamma"} {
		_, err := open(t, published(t, func(list []weights.Tensor) []weights.Tensor {
			return slices.DeleteFunc(list, func(x weights.Tensor) bool { return x.Name == "model."+lost })
		}, ""))
		if !errors.Is(err, weights.ErrMissing) || !strings.Contains(err.Error(), lost) {
			t.Errorf("without %s: %v", lost, err)
		}
	}
	for key, values := range map[string][]string{"enc_heads": {"0", "3", "32", "x"}, "dpt_hooks": {"", "3,4,5,8", "1,4,5,7", "5,4,3,7"}, "resolution": {"13"}} {
		for _, v := range values {
			meta := d.Metadata("da3_tiny")
			meta[key] = v
			if _, err := da3.Open(zeros(t, d, meta)); err == nil {
				t.Errorf("metadata %s = %q was accepted", key, v)
			}
		}
	}
	d.EncDepth = 9
	if _, err := da3.Open(zeros(t, d, map[string]string{})); err == nil || !strings.Contains(err.Error(), "dpt_hooks") {
		t.Errorf("a depth whose hooks nobody knows: %v", err)
	}
	if _, err := da3.Open(weights.NewSetTensors(nil, nil)); !errors.Is(err, vit.ErrUnknown) {
		t.Errorf("no tensors: %v", err)
	}
}

func TestSizes(t *testing.T) {
	m, err := open(t, filepath.Join("testdata", "tiny.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	one := vit.Grid{Rows: 1, Cols: 1}
	d := dims(t, "da3_mono")
	mono, err := da3.Open(zeros(t, d, nil))
	if err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]func() (*graph.Graph, error){
		"no picture":          func() (*graph.Graph, error) { return m.Encoder(0, 14, 14) },
		"half a patch":        func() (*graph.Graph, error) { return m.Encoder(1, 14, 21) },
		"no view":             func() (*graph.Graph, error) { return m.Trunk(0, one, false) },
		"no grid":             func() (*graph.Graph, error) { return m.Trunk(1, vit.Grid{}, false) },
		"two views of one":    func() (*graph.Graph, error) { return mono.Trunk(2, one, false) },
		"cameras of one view": func() (*graph.Graph, error) { return mono.Camera(1) },
		"known cameras":       func() (*graph.Graph, error) { return mono.Trunk(1, one, true) },
		"nothing":             func() (*graph.Graph, error) { return m.Head(14, 14, 0) },
		"sky":                 func() (*graph.Graph, error) { return m.Head(14, 14, da3.Sky) },
		"rays of one view":    func() (*graph.Graph, error) { return mono.Head(14, 14, da3.Rays) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}

// TestOnlyWhatIsAsked: a head of depth alone holds no weights of rays.
func TestOnlyWhatIsAsked(t *testing.T) {
	m, err := open(t, filepath.Join("testdata", "tiny.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	for want, absent := range map[da3.Outputs]string{da3.Depth | da3.Conf: "_aux", da3.Rays: "output_conv2.0"} {
		g, err := m.Head(56, 70, want)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range g.Nodes {
			if p, ok := n.Op.(graph.Param); ok && strings.Contains(p.Name, absent) {
				t.Errorf("outputs %#x read %s", want, p.Name)
			}
		}
	}
}

func TestReference(t *testing.T) {
	class := [][]float32{{1, 0, 0}, {0, 2, 0.1}, {1, 1, 0.2}, {-1, 0.5, 3}, {0.5, -1, 0}}
	for rule, want := range map[string]int{da3.First: 0, da3.Middle: 2, da3.Range: 1} {
		got, err := da3.Reference(class, rule)
		if err != nil || got != want {
			t.Errorf("%s: view %d, %v, want %d", rule, got, err, want)
		}
	}
	// Equal views are a tie, which the first wins; two views are no choice.
	for _, rule := range da3.Rules {
		if got, err := da3.Reference([][]float32{{1, 2}, {1, 2}, {1, 2}}, rule); err != nil || got != 0 && rule != da3.Middle {
			t.Errorf("%s of equal views: %d, %v", rule, got, err)
		}
		if got, err := da3.Reference(class[:2], rule); err != nil || got != 0 {
			t.Errorf("%s of two views: %d, %v", rule, got, err)
		}
	}
	if _, err := da3.Reference(class, "best"); err == nil {
		t.Error("an unknown rule was accepted")
	}
	if got := da3.Order(4, 2); !slices.Equal(got, []int{2, 0, 1, 3}) {
		t.Errorf("order %v", got)
	}
}

// TestPoses: what Encode writes Decode reads, for rotations about every axis and by
// half a turn, where one part of a quaternion or another is 0.
func TestPoses(t *testing.T) {
	for _, q := range [][4]float32{{0, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {1, 2, 3, 4}, {-3, 1, 0.5, 0.01}, {0.3, -9, 1, -2}, {1, 1, 5, -0.1}} {
		in := []float32{0.5, -1, 2, q[0], q[1], q[2], q[3], 0.8, 1.1}
		c := da3.Decode(in)
		again := da3.Decode(da3.Encode([]da3.Camera{c}))
		back := da3.Inverse(c.Pose).Times(c.Pose)
		for i := range c.Pose {
			for j := range c.Pose[i] {
				unit := 0.0
				if i == j {
					unit = 1
				}
				if math.Abs(c.Pose[i][j]-again.Pose[i][j]) > 1e-6 || math.Abs(back[i][j]-unit) > 1e-12 {
					t.Fatalf("quaternion %v: %v, then %v; inverse %v", q, c.Pose, again.Pose, back)
				}
			}
		}
		k := c.Intrinsics(56, 84)
		if again := da3.CameraOf(c.Pose, k, 56, 84); math.Abs(again.FovX-c.FovX)+math.Abs(again.FovY-c.FovY) > 1e-12 {
			t.Errorf("fields of view %v, %v, want %v, %v", again.FovY, again.FovX, c.FovY, c.FovX)
		}
	}
	// Relative: the first is the origin, the median distance one.
	var cameras []da3.Camera
	for i, x := range []float64{1, 3, 7, 21} {
		c := da3.Decode([]float32{0, 0, 0, 0.1, 0.2, float32(i), 1, 1, 1})
		c.Pose[0][3] = x
		cameras = append(cameras, c)
	}
	rel, unit := da3.Relative(cameras)
	if math.Abs(unit-2) > 1e-12 { // of 0, 2, 6, 20 the lower median
		t.Errorf("unit %v, want 2", unit)
	}
	if c := rel[0].Pose; math.Abs(c[0][0]-1)+math.Abs(c[0][3])+math.Abs(c[1][2]) > 1e-12 {
		t.Errorf("the first camera is at %v, want the origin", c)
	}
	if _, unit := da3.Relative(cameras[:1]); unit != 0.1 {
		t.Errorf("unit of one camera %v, want 0.1", unit)
	}
}

func TestMetadataOfPublishedFiles(t *testing.T) {
	f, err := weights.Open(filepath.Join("testdata", "tiny.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := dims(t, "da3_base").Metadata("da3_base"); !maps.Equal(got, f.Metadata()) {
		t.Errorf("metadata %v, want %v", got, f.Metadata())
	}
}
