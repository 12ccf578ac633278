// SPDX-License-Identifier: Apache-2.0

package mast3r

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// tensors are those of a synthetic model, to be damaged.
func tensors(t *testing.T, variant string) ([]weights.Tensor, map[string]string) {
	t.Helper()
	d, err := synth.Variant(variant)
	if err != nil {
		t.Fatal(err)
	}
	pool := par.New(1)
	defer pool.Close()
	var all []weights.Tensor
	for _, f := range d.Files() {
		all = append(all, synth.Tensors(pool, f.Specs, synth.FormulaOf(variant))...)
	}
	return all, d.Metadata(variant)
}

func without(list []weights.Tensor, names ...string) []weights.Tensor {
	return slices.DeleteFunc(slices.Clone(list), func(t weights.Tensor) bool { return slices.Contains(names, t.Name) })
}

func TestDimsFromShapes(t *testing.T) {
	for variant, want := range map[string]Dims{
		"mast3r_micro": {Arch: MASt3R, Patch: 16, EncDim: 64, EncDepth: 3, EncHeads: 2, DecDim: 48, DecDepth: 10, DecHeads: 3,
			Hooks: [4]int{0, 5, 7, 10}, DescDim: 24, Resolution: 512},
		"dune_micro": {Arch: DUNE, Patch: 14, EncDim: 64, EncDepth: 3, EncHeads: 2, Registers: 4, PosGrid: 6, DecDim: 32, DecDepth: 12, DecHeads: 2,
			Hooks: [4]int{0, 6, 9, 12}, DescDim: 24, Resolution: 84},
	} {
		list, meta := tensors(t, variant)
		m, err := Open(weights.NewSetTensors(list, meta))
		if err != nil {
			t.Fatal(err)
		}
		got := m.Dims
		got.RopeBase, got.NormEps, got.OuterNormEps, got.Conf, got.DescConf, got.Variant = 0, 0, 0, ConfMode{}, ConfMode{}, ""
		if got != want {
			t.Errorf("%s: got %+v, want %+v", variant, got, want)
		}
		if r := m.Report(); len(r.Extra) > 0 {
			t.Errorf("%s: tensors not used: %v", variant, r.Extra)
		}
	}
}

// TestWithoutMetadata: the published files say nothing; head dimension 64 and
// the published hooks apply.
func TestWithoutMetadata(t *testing.T) {
	list, _ := tensors(t, "mast3r_mini")
	m, err := Open(weights.NewSetTensors(list, nil))
	if err != nil {
		t.Fatal(err)
	}
	if m.EncHeads != 2 || m.DecHeads != 1 || m.Hooks != [4]int{0, 6, 9, 12} || m.RopeBase != 100 || m.Conf.Min != 1 {
		t.Errorf("dimensions without metadata: %+v", m.Dims)
	}
}

func TestDamagedWeights(t *testing.T) {
	list, meta := tensors(t, "mast3r_micro")
	reshaped := slices.Clone(list)
	i := slices.IndexFunc(reshaped, func(x weights.Tensor) bool { return x.Name == "dec_blocks.3.mlp.fc2.bias" })
	reshaped[i] = weights.FromFloat32s(reshaped[i].Name, tensor.Shape{7}, make([]float32, 7))
	for name, c := range map[string]struct {
		list  []weights.Tensor
		kind  error
		words []string
	}{
		"nothing": {nil, vit.ErrUnknown, []string{"enc_blocks.0.attn.qkv.weight"}},
		"three missing": {without(list, "enc_norm.bias", "dec_blocks2.9.norm_y.weight", "downstream_head2.dpt.head.4.bias"), weights.ErrMissing,
			[]string{"enc_norm.bias", "dec_blocks2.9.norm_y.weight", "downstream_head2.dpt.head.4.bias"}},
		"missing size": {without(list, "downstream_head1.head_local_features.fc2.weight"), weights.ErrMissing, []string{"head_local_features.fc2.weight"}},
		"misshapen":    {reshaped, weights.ErrMismatch, []string{"dec_blocks.3.mlp.fc2.bias", "[7]", "[48]"}},
	} {
		_, err := Open(weights.NewSetTensors(c.list, meta))
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", name, err, w)
			}
		}
	}
}

// TestUnusedWeights: what nobody needs may be missing, what nobody knows is
// reported.
func TestUnusedWeights(t *testing.T) {
	list, meta := tensors(t, "mast3r_micro")
	list = without(list, "mask_token", "downstream_head1.dpt.scratch.refinenet4.resConfUnit1.conv1.weight")
	list = append(list, weights.FromFloat32s("surplus", tensor.Shape{2}, make([]float32, 2)))
	m, err := Open(weights.NewSetTensors(list, meta))
	if err != nil {
		t.Fatal(err)
	}
	if extra := m.Report().Extra; !slices.Equal(extra, []string{"surplus"}) {
		t.Errorf("extra tensors %v, want [surplus]", extra)
	}
}

func TestHostileMetadata(t *testing.T) {
	list, meta := tensors(t, "mast3r_micro")
	for key, values := range map[string][]string{
		"enc_heads":      {"0", "-1", "3", "x", "99999999999999999999"},
		"dec_heads":      {"5", "48"},
		"dpt_hooks":      {"", "0,5,7", "0,7,5,10", "0,5,7,11", "1,5,7,10", "a,b,c,d"},
		"rope_base":      {"-1", "nan", "inf", ""},
		"norm_eps":       {"0", "x"},
		"depth_mode":     {"linear,-inf,inf", "exp,0,inf", "exp"},
		"conf_mode":      {"sigmoid,0,1", "exp,inf,1", "exp,nan,inf"},
		"desc_conf_mode": {"exp,0"},
	} {
		for _, v := range values {
			bad := map[string]string{}
			for k, x := range meta {
				bad[k] = x
			}
			bad[key] = v
			if _, err := Open(weights.NewSetTensors(list, bad)); err == nil {
				t.Errorf("metadata %s = %q was accepted", key, v)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	list, meta := tensors(t, "dune_micro")
	m, err := Open(weights.NewSetTensors(list, meta))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range [][2]int{{0, 14}, {13, 14}, {14, 15}, {-14, 14}} {
		_, err1 := m.Encoder(1, s[0], s[1])
		_, err2 := m.Head(1, 1, s[0], s[1], AllOutputs)
		if err1 == nil || err2 == nil {
			t.Errorf("a picture of %v was accepted", s)
		}
	}
	_, err1 := m.Encoder(0, 14, 14)
	_, err2 := m.Decoder(1, vit.Grid{Rows: 0, Cols: 1}, vit.Grid{Rows: 1, Cols: 1})
	_, err3 := m.Head(3, 1, 14, 14, AllOutputs)
	_, err4 := m.Head(1, 1, 14, 14, 0)
	for i, err := range []error{err1, err2, err3, err4} {
		if err == nil {
			t.Errorf("case %d was accepted", i)
		}
	}
}

// TestOnlyWhatIsAsked: a head of points alone holds no descriptor weights.
func TestOnlyWhatIsAsked(t *testing.T) {
	list, meta := tensors(t, "mast3r_micro")
	m, err := Open(weights.NewSetTensors(list, meta))
	if err != nil {
		t.Fatal(err)
	}
	for want, absent := range map[Outputs]string{Points: "head_local_features", Desc | DescConf: ".dpt."} {
		g, err := m.Head(1, 1, 64, 64, want)
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
