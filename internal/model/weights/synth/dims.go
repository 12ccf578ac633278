// SPDX-License-Identifier: Apache-2.0

package synth

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Arch is the family of a model: it decides the names and the files.
type Arch string

// The families.
const (
	MASt3R    Arch = "mast3r"
	DUNE      Arch = "dune"
	Retrieval Arch = "retrieval"
	DA3       Arch = "da3"
)

// Dims are the sizes that make a model.
type Dims struct {
	Arch  Arch
	Patch int

	EncDim, EncDepth, EncHeads int
	Registers, PosGrid         int // DUNE: the position table is PosGrid x PosGrid

	DecDim, DecDepth, DecHeads int
	MLPRatio, DescDim          int
	DPTFeature, DPTLast        int
	DPTLayers                  [4]int
	LocalHidden                int // of the descriptor MLP

	// DA3: the first block that knows of other views, 0 for none; SwiGLU blocks.
	Start int
	Gated bool

	RetrievalDim int   // Retrieval
	Projector    []int // widths of the projector's layers, may be empty
	Postwhiten   bool
}

// full are the sizes of the published models, less the encoder's.
func full(arch Arch, patch, dim, depth, heads int) Dims {
	return Dims{
		Arch: arch, Patch: patch, EncDim: dim, EncDepth: depth, EncHeads: heads,
		DecDim: 768, DecDepth: 12, DecHeads: 12, MLPRatio: 4, DescDim: 24,
		DPTFeature: 256, DPTLast: 128, DPTLayers: [4]int{96, 192, 384, 768},
		LocalHidden: 4 * (dim + 768),
	}
}

// trunk replaces the decoder. The descriptor MLP follows, being four times as
// wide as its input, which is encoder and decoder features side by side.
func (d Dims) trunk(dim, depth, heads int) Dims {
	d.DecDim, d.DecDepth, d.DecHeads = dim, depth, heads
	d.LocalHidden = 4 * (d.EncDim + dim)
	return d
}

// head replaces the widths of the heads.
func (d Dims) head(feature, last int, layers [4]int, hidden int) Dims {
	d.DPTFeature, d.DPTLast, d.DPTLayers, d.LocalHidden = feature, last, layers, hidden
	return d
}

// dune adds what only that encoder has.
func (d Dims) dune(grid int) Dims {
	d.Registers, d.PosGrid = 4, grid
	return d
}

// variants: the published sizes (vit); micro, small enough to ship; mini, with
// the real head dimension and head widths on a tiny trunk; tiny, of network.md 21.
var variants = map[string]Dims{
	"mast3r_vit_large":  full(MASt3R, 16, 1024, 24, 16),
	"dune_vit_small_14": full(DUNE, 14, 384, 12, 6).dune(32),
	"dune_vit_base_14":  full(DUNE, 14, 768, 12, 12).dune(32),
	"mast3r_micro":      full(MASt3R, 16, 64, 3, 2).trunk(48, 10, 3).head(24, 12, [4]int{8, 16, 32, 48}, 12),
	"dune_micro":        full(DUNE, 14, 64, 3, 2).dune(6).trunk(32, 12, 2).head(24, 12, [4]int{8, 16, 32, 64}, 16),
	"mast3r_mini":       full(MASt3R, 16, 128, 2, 2).trunk(64, 12, 1),
	"dune_mini":         full(DUNE, 14, 128, 2, 2).dune(8).trunk(64, 12, 1),
	"mast3r_tiny":       full(MASt3R, 16, 128, 2, 2).trunk(128, 12, 2),
	"dunemast3r_tiny":   full(DUNE, 14, 128, 3, 2).dune(4).trunk(128, 12, 2),

	"da3_small": views(384, 12, 6, 4, 64, [4]int{48, 96, 192, 384}),
	"da3_base":  views(768, 12, 12, 4, 128, [4]int{96, 192, 384, 768}),
	"da3_large": views(1024, 24, 16, 8, 256, [4]int{256, 512, 1024, 1024}),
	"da3_giant": views(1536, 40, 24, 13, 256, [4]int{256, 512, 1024, 1024}).gated(),
	"da3_mono":  views(1024, 24, 16, 0, 256, [4]int{256, 512, 1024, 1024}),
	"da3_tiny":  views(32, 8, 2, 2, 16, [4]int{8, 16, 24, 32}).grid(5),

	"retrieval_micro":      {Arch: Retrieval, RetrievalDim: 64},
	"retrieval_micro_proj": {Arch: Retrieval, RetrievalDim: 64, Projector: []int{40, 48}, Postwhiten: true},
	"retrieval_large":      {Arch: Retrieval, RetrievalDim: 1024},
}

// Variants lists the named models.
func Variants() []string { return slices.Sorted(maps.Keys(variants)) }

// Variant returns the dimensions of a named model.
func Variant(name string) (Dims, error) {
	d, ok := variants[name]
	if !ok {
		return Dims{}, fmt.Errorf("synth: variant %q, want one of %s", name, strings.Join(Variants(), ", "))
	}
	return d, nil
}

// Metadata are the strings that the golden files of a variant carry: what
// shapes cannot tell, such as the number of heads, and much that they can. The
// spelling is Python's, down to "False", for the files' hashes cover it.
func (d Dims) Metadata(variant string) map[string]string {
	if d.Arch == DA3 {
		return d.da3Metadata(variant)
	}
	m := map[string]string{
		"variant": variant, "format": "pt", "weights": "synthetic", "arch": string(d.Arch),
	}
	ints := func(list ...int) string {
		text := make([]string, len(list))
		for i, v := range list {
			text[i] = strconv.Itoa(v)
		}
		return strings.Join(text, ",")
	}
	if d.Arch == Retrieval {
		m["dim"], m["hdims"], m["postwhiten"] = ints(d.RetrievalDim), ints(d.Projector...), "False"
		if d.Postwhiten {
			m["postwhiten"] = "True"
		}
		return m
	}
	maps.Copy(m, map[string]string{
		"patch_size": ints(d.Patch), "enc_dim": ints(d.EncDim), "enc_depth": ints(d.EncDepth),
		"enc_heads": ints(d.EncHeads), "dec_dim": ints(d.DecDim), "dec_depth": ints(d.DecDepth),
		"dec_heads": ints(d.DecHeads), "mlp_ratio": ints(d.MLPRatio), "desc_dim": ints(d.DescDim),
		"dpt_feature_dim": ints(d.DPTFeature), "dpt_last_dim": ints(d.DPTLast),
		"dpt_layer_dims": ints(d.DPTLayers[:]...), "local_hidden": ints(d.LocalHidden),
		"dpt_hooks": ints(0, d.DecDepth*2/4, d.DecDepth*3/4, d.DecDepth), "rope_base": "100",
		"depth_mode": "exp,-inf,inf", "conf_mode": "exp,1,inf", "desc_conf_mode": "exp,0,inf",
		"two_confs": "1", "norm_eps": "1e-6",
	})
	if d.Arch == DUNE {
		m["registers"], m["pos_grid"], m["outer_norm_eps"] = ints(d.Registers), ints(d.PosGrid), "1e-5"
	}
	return m
}
