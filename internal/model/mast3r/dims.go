// SPDX-License-Identifier: Apache-2.0

package mast3r

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
)

// Arch is a family of networks.
type Arch string

// The families.
const (
	MASt3R Arch = "mast3r"
	DUNE   Arch = "dune"
)

// Marks are tensors that only the files of this family have.
var Marks = []string{mast3rMark, duneMark}

const (
	mast3rMark = "enc_blocks.0.attn.qkv.weight"
	duneMark   = "encoder.blocks.0.0.attn.qkv.weight"
)

// Dims are the dimensions of a network, all that is needed to build its graphs.
type Dims struct {
	Arch  Arch
	Patch int
	// The encoder; for DUNE its register tokens and the side of its position
	// grid.
	EncDim, EncDepth, EncHeads int
	Registers, PosGrid         int
	// The two decoders.
	DecDim, DecDepth, DecHeads int
	// Hooks are the four decoder depths that the head reads; 0 is the encoder.
	Hooks [4]int
	// DescDim is the length of a descriptor.
	DescDim int
	// RopeBase and the epsilons of the norms.
	RopeBase, NormEps, OuterNormEps float32
	// Conf and DescConf are the output functions of the two confidences.
	Conf, DescConf ConfMode
	// Resolution is the native long side in pixels.
	Resolution int
	// Variant is the name in the metadata, or one told by the dimensions.
	Variant string
}

// ConfMode is min(exp(x), Max-Min) + Min.
type ConfMode struct{ Min, Max float32 }

// The published models' values, where a file does not say.
const (
	headDim      = 64
	ropeBase     = 100
	normEps      = 1e-6
	duneOuterEps = 1e-5
)

// derive reads the dimensions off the shapes and the metadata of s.
func derive(s *weights.Set) (Dims, error) {
	meta := &vit.Metadata{Values: s.Metadata()}
	var d Dims
	switch {
	case s.Has(mast3rMark):
		d.Arch = MASt3R
	case s.Has(duneMark):
		d.Arch = DUNE
	default:
		return d, vit.Unknown(s, Marks)
	}
	n := d.names()
	shape := &vit.Shapes{Set: s}
	patch := shape.Of(n.encoder+"patch_embed.proj.weight", 4)
	d.EncDim, d.Patch = patch[0], patch[3]
	d.EncDepth = vit.Depth(s, n.encBlock)
	d.DecDim = shape.Of(n.decoder+"decoder_embed.weight", 2)[0]
	d.DecDepth = vit.Depth(s, n.decoder+"dec_blocks.%d.norm1.weight")
	local := shape.Of(n.decoder+"downstream_head1.head_local_features.fc2.weight", 2)[0]
	if d.Arch == DUNE {
		d.duneTokens(s, shape)
	}
	if err := errors.Join(shape.Errs...); err != nil {
		return d, err
	}
	return d, d.finish(meta, local)
}

// finish fills in what the shapes do not say.
func (d *Dims) finish(meta *vit.Metadata, local int) error {
	d.EncHeads = meta.Integer("enc_heads", d.EncDim/headDim)
	d.DecHeads = meta.Integer("dec_heads", d.DecDim/headDim)
	d.Hooks = meta.Hooks([4]int{0, d.DecDepth / 2, d.DecDepth * 3 / 4, d.DecDepth})
	d.RopeBase = meta.Number("rope_base", ropeBase)
	d.NormEps = meta.Number("norm_eps", normEps)
	d.OuterNormEps = meta.Number("outer_norm_eps", duneOuterEps)
	mode(meta, "depth_mode", ConfMode{float32(math.Inf(-1)), float32(math.Inf(1))})
	d.Conf = mode(meta, "conf_mode", ConfMode{1, float32(math.Inf(1))})
	d.DescConf = mode(meta, "desc_conf_mode", ConfMode{0, float32(math.Inf(1))})
	d.DescDim = local/(d.Patch*d.Patch) - 1
	d.Resolution = meta.Integer("resolution", d.native())
	d.Variant = meta.Values["variant"]
	if d.Variant == "" {
		d.Variant = d.guessVariant()
	}
	if err := errors.Join(meta.Errs...); err != nil {
		return err
	}
	return d.check(local)
}

// check refuses dimensions with which no graph can be built, naming the reason,
// before any arithmetic is done with them.
func (d *Dims) check(local int) error {
	switch {
	case d.Patch < 1 || d.EncDim < 1 || d.DecDim < 1:
		return fmt.Errorf("model: patch %d, encoder dimension %d, decoder dimension %d: want at least 1", d.Patch, d.EncDim, d.DecDim)
	case d.EncHeads < 1 || d.EncDim%d.EncHeads != 0:
		return fmt.Errorf("model: %d encoder heads for dimension %d", d.EncHeads, d.EncDim)
	case d.DecHeads < 1 || d.DecDim%d.DecHeads != 0 || d.DecDim/d.DecHeads%4 != 0:
		return fmt.Errorf("model: %d decoder heads for dimension %d: want a head dimension that is a multiple of 4", d.DecHeads, d.DecDim)
	case d.EncDepth < 1 || d.DecDepth < 1:
		return fmt.Errorf("model: encoder depth %d, decoder depth %d: want at least 1", d.EncDepth, d.DecDepth)
	case d.DescDim < 1 || local%(d.Patch*d.Patch) != 0:
		return fmt.Errorf("model: local features have %d channels, want a multiple of %d*%d and at least two", local, d.Patch, d.Patch)
	case d.Resolution < d.Patch:
		return fmt.Errorf("model: resolution %d, want at least the patch size %d", d.Resolution, d.Patch)
	}
	for i, h := range d.Hooks {
		if h < 0 || h > d.DecDepth || i > 0 && h <= d.Hooks[i-1] {
			return fmt.Errorf("model: hooks %v, want ascending depths up to %d", d.Hooks, d.DecDepth)
		}
	}
	if d.Hooks[0] != 0 || d.Hooks[3] != d.DecDepth {
		return fmt.Errorf("model: hooks %v, want 0 first and %d last", d.Hooks, d.DecDepth)
	}
	return nil
}

func (d *Dims) native() int {
	if d.Arch == DUNE {
		return d.PosGrid * d.Patch
	}
	return 512
}

// guessVariant names the published models by their dimensions.
func (d *Dims) guessVariant() string {
	switch {
	case d.Arch == MASt3R && d.EncDim == 1024 && d.EncDepth == 24 && d.DecDim == 768:
		return "mast3r_vit_large"
	case d.Arch == DUNE && d.EncDim == 384 && d.EncDepth == 12:
		return fmt.Sprintf("dune_vit_small_%d", d.native())
	case d.Arch == DUNE && d.EncDim == 768 && d.EncDepth == 12:
		return fmt.Sprintf("dune_vit_base_%d", d.native())
	}
	return fmt.Sprintf("%s_%d_%d", d.Arch, d.EncDim, d.EncDepth)
}

func (d *Dims) duneTokens(s *weights.Set, shape *vit.Shapes) {
	const table = "encoder.pos_embed"
	side, err := vit.SquareSide(table, shape.Of(table, 3)[1])
	if err != nil {
		shape.Errs = append(shape.Errs, err)
	}
	d.PosGrid = side
	if s.Has("encoder.register_tokens") {
		d.Registers = shape.Of("encoder.register_tokens", 3)[1]
	}
}

// names are the prefixes of an architecture's tensors.
type names struct {
	encoder, decoder string
	encBlock         string // with a %d
	outerNorm        string
}

func (d Dims) names() names {
	if d.Arch == DUNE {
		return names{"encoder.", "mast3r.", "encoder.blocks.0.%d.norm1.weight", "norm"}
	}
	return names{"", "", "enc_blocks.%d.norm1.weight", "enc_norm"}
}

// mode reads "exp,min,max", the one output function of the published models.
// The points have no limits in any of them.
func mode(m *vit.Metadata, key string, otherwise ConfMode) ConfMode {
	v, ok := m.Values[key]
	if !ok {
		return otherwise
	}
	parts := strings.Split(v, ",")
	if len(parts) == 3 && strings.TrimSpace(parts[0]) == "exp" {
		lo, err1 := strconv.ParseFloat(strings.TrimSpace(parts[1]), 32)
		hi, err2 := strconv.ParseFloat(strings.TrimSpace(parts[2]), 32)
		free := key != "depth_mode" || math.IsInf(lo, -1) && math.IsInf(hi, 1)
		if err1 == nil && err2 == nil && lo < hi && free {
			return ConfMode{float32(lo), float32(hi)}
		}
	}
	m.Fail(key, fmt.Sprintf(`"exp,%v,%v" or the like`, otherwise.Min, otherwise.Max))
	return otherwise
}
