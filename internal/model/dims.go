// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Arch is a family of networks.
type Arch string

// The families.
const (
	MASt3R Arch = "mast3r"
	DUNE   Arch = "dune"
)

// ErrUnknown is in the chain of the error about files that hold no network of
// a known family.
var ErrUnknown = errors.New("no MASt3R or DUNE-MASt3R network")

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

// first are a few of the names, for a message.
func first(names []string) string {
	const some = 5
	list := fmt.Sprintf("%.200q", names[:min(some, len(names))])
	if len(names) > some {
		list += ", ..."
	}
	return list
}

// derive reads the dimensions off the shapes and the metadata of s.
func derive(s *weights.Set) (Dims, error) {
	meta := &metadata{values: s.Metadata()}
	var d Dims
	switch {
	case s.Has("enc_blocks.0.attn.qkv.weight"):
		d.Arch = MASt3R
	case s.Has("encoder.blocks.0.0.attn.qkv.weight"):
		d.Arch = DUNE
	default:
		return d, fmt.Errorf("model: %w: neither enc_blocks.0.attn.qkv.weight nor encoder.blocks.0.0.attn.qkv.weight is among its %d tensors: %s", ErrUnknown, len(s.Names()), first(s.Names()))
	}
	n := d.names()
	shape := &shapes{set: s}
	patch := shape.of(n.encoder+"patch_embed.proj.weight", 4)
	d.EncDim, d.Patch = patch[0], patch[3]
	d.EncDepth = depth(s, n.encBlock)
	d.DecDim = shape.of(n.decoder+"decoder_embed.weight", 2)[0]
	d.DecDepth = depth(s, n.decoder+"dec_blocks.%d.norm1.weight")
	local := shape.of(n.decoder+"downstream_head1.head_local_features.fc2.weight", 2)[0]
	if d.Arch == DUNE {
		d.duneTokens(s, shape)
	}
	if err := errors.Join(shape.errs...); err != nil {
		return d, err
	}
	return d, d.finish(meta, local)
}

// finish fills in what the shapes do not say.
func (d *Dims) finish(meta *metadata, local int) error {
	d.EncHeads = meta.integer("enc_heads", d.EncDim/headDim)
	d.DecHeads = meta.integer("dec_heads", d.DecDim/headDim)
	d.Hooks = meta.hooks([4]int{0, d.DecDepth / 2, d.DecDepth * 3 / 4, d.DecDepth})
	d.RopeBase = meta.number("rope_base", ropeBase)
	d.NormEps = meta.number("norm_eps", normEps)
	d.OuterNormEps = meta.number("outer_norm_eps", duneOuterEps)
	meta.mode("depth_mode", ConfMode{float32(math.Inf(-1)), float32(math.Inf(1))})
	d.Conf = meta.mode("conf_mode", ConfMode{1, float32(math.Inf(1))})
	d.DescConf = meta.mode("desc_conf_mode", ConfMode{0, float32(math.Inf(1))})
	d.DescDim = local/(d.Patch*d.Patch) - 1
	d.Resolution = meta.integer("resolution", d.native())
	d.Variant = meta.values["variant"]
	if d.Variant == "" {
		d.Variant = d.guessVariant()
	}
	if err := errors.Join(meta.errs...); err != nil {
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

func (d *Dims) duneTokens(s *weights.Set, shape *shapes) {
	pos := shape.of("encoder.pos_embed", 3)[1]
	d.PosGrid = int(math.Round(math.Sqrt(float64(pos - 1))))
	if d.PosGrid < 1 || d.PosGrid*d.PosGrid != pos-1 {
		shape.errs = append(shape.errs, fmt.Errorf("model: encoder.pos_embed has %d positions, want 1 + a square", pos))
	}
	if s.Has("encoder.register_tokens") {
		d.Registers = shape.of("encoder.register_tokens", 3)[1]
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

// depth counts blocks. A file cannot make it run long: it stops at the first
// name that is missing.
func depth(s *weights.Set, format string) int {
	n := 0
	for s.Has(fmt.Sprintf(format, n)) {
		n++
	}
	return n
}

// shapes collects what is missing, so that one error names all of it.
type shapes struct {
	set  *weights.Set
	errs []error
}

func (s *shapes) of(name string, rank int) tensor.Shape {
	want := make(tensor.Shape, rank)
	for i := range want {
		want[i] = -1
	}
	t, err := s.set.Need(name, want)
	if err != nil {
		s.errs = append(s.errs, err)
		return make(tensor.Shape, rank)
	}
	return t.Shape
}

// metadata reads typed values out of a file's free-form strings and collects
// what cannot be read.
type metadata struct {
	values map[string]string
	errs   []error
}

func (m *metadata) fail(key, want string) {
	m.errs = append(m.errs, fmt.Errorf("model: metadata %q is %.80q, want %s", key, m.values[key], want))
}

func (m *metadata) integer(key string, otherwise int) int {
	v, ok := m.values[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		m.fail(key, "a positive integer")
		return otherwise
	}
	return n
}

func (m *metadata) number(key string, otherwise float32) float32 {
	v, ok := m.values[key]
	if !ok {
		return otherwise
	}
	f, err := strconv.ParseFloat(v, 32)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		m.fail(key, "a positive number")
		return otherwise
	}
	return float32(f)
}

func (m *metadata) hooks(otherwise [4]int) [4]int {
	v, ok := m.values["dpt_hooks"]
	if !ok {
		return otherwise
	}
	parts := strings.Split(v, ",")
	var h [4]int
	for i := range h {
		var err error
		if len(parts) == len(h) {
			h[i], err = strconv.Atoi(strings.TrimSpace(parts[i]))
		}
		if len(parts) != len(h) || err != nil {
			m.fail("dpt_hooks", "four integers")
			return otherwise
		}
	}
	return h
}

// mode reads "exp,min,max", the one output function of the published models.
// The points have no limits in any of them.
func (m *metadata) mode(key string, otherwise ConfMode) ConfMode {
	v, ok := m.values[key]
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
	m.fail(key, fmt.Sprintf(`"exp,%v,%v" or the like`, otherwise.Min, otherwise.Max))
	return otherwise
}
