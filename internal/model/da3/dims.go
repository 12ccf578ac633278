// SPDX-License-Identifier: Apache-2.0

package da3

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
)

// Marks are tensors that only the files of this family have.
var Marks = []string{camerasMark, skyMark}

const (
	backbone    = "backbone.pretrained."
	camerasMark = backbone + "camera_token"
	skyMark     = "head.scratch.sky_output_conv2.0.weight"
	// shared is the layer norm that the file holds once for four levels (da3.md 1).
	sharedNorm = "head.scratch.output_conv2_aux.0.2"
)

// Dims are the dimensions of a network, all that is needed to build its graphs.
type Dims struct {
	Patch, Dim, Depth, Heads int
	// Start is the first block of the trunk: in networks of many views the first
	// that knows of the others, else the first that the head reads.
	Start int
	// Hooks are the four blocks whose outputs the head reads.
	Hooks [4]int
	// PosGrid is the side of the position table.
	PosGrid int
	// Features is the width of the head, Channels those of its four stages.
	Features int
	Channels [4]int
	// Gated says that the blocks have SwiGLU instead of an mlp.
	Gated bool
	// Views says that the network relates views and has a camera decoder, Given
	// that it takes known cameras, Rays that it has a head for rays. One without
	// Views tells the sky from the rest.
	Views, Given, Rays bool
	// Resolution is the long side in pixels, Variant the network's name.
	Resolution int
	Variant    string
}

// The published networks' values (da3.md 1).
const (
	headDim    = 64
	native     = 504
	ropeBase   = 100
	blockEps   = 1e-6
	outerEps   = 1e-5 // of the norms of q and k, of hooks, head and camera encoder
	givenHeads = 16   // of the camera encoder
	givenDepth = 4
)

// hooksOf are the hooks of the published networks of many views by their depth;
// that of 8 blocks is the one of the self-check and of the tests.
var hooksOf = map[int][4]int{8: {3, 4, 5, 7}, 12: {5, 7, 9, 11}, 24: {11, 15, 19, 23}, 40: {19, 27, 33, 39}}

// oneViewHooks are those of METRIC-LARGE and MONO-LARGE.
var oneViewHooks = map[int][4]int{24: {4, 11, 17, 23}}

// derive reads the dimensions off the shapes, config.json and the metadata of s.
func derive(s *weights.Set) (Dims, error) {
	d := Dims{Views: s.Has(camerasMark), Given: s.Has("cam_enc.token_norm.weight"), Rays: s.Has(sharedNorm + ".weight")}
	if !d.Views && !s.Has(skyMark) {
		return d, vit.Unknown(s, Marks)
	}
	shape := &vit.Shapes{Set: s}
	patch := shape.Of(backbone+"patch_embed.proj.weight", 4)
	d.Dim, d.Patch = patch[0], patch[3]
	d.Depth = vit.Depth(s, backbone+"blocks.%d.norm1.weight")
	d.Gated = s.Has(backbone + "blocks.0.mlp.w12.weight")
	const table = backbone + "pos_embed"
	side, err := vit.SquareSide(table, shape.Of(table, 3)[1])
	if err != nil {
		shape.Errs = append(shape.Errs, err)
	}
	d.PosGrid = side
	for i := range d.Channels {
		d.Channels[i] = shape.Of(fmt.Sprintf("head.projects.%d.weight", i), 4)[0]
	}
	d.Features = shape.Of("head.scratch.layer1_rn.weight", 4)[0]
	head := headDim
	if d.Views {
		d.Start = start(s, d.Depth)
		head = shape.Of(fmt.Sprintf("%sblocks.%d.attn.q_norm.weight", backbone, d.Start), 1)[0]
	}
	if err := errors.Join(shape.Errs...); err != nil {
		return d, err
	}
	meta := &vit.Metadata{Values: s.Metadata()}
	d.Heads = meta.Integer("enc_heads", d.Dim/max(head, 1))
	if err := d.hooks(s, meta); err != nil {
		return d, err
	}
	d.Resolution = meta.Integer("resolution", native)
	d.Variant = cmp.Or(meta.Values["variant"], d.Variant, d.guessVariant())
	if err := errors.Join(meta.Errs...); err != nil {
		return d, err
	}
	return d, d.check()
}

// start is the first block with norms of q and k.
func start(s *weights.Set, depth int) int {
	for i := range depth {
		if s.Has(fmt.Sprintf("%sblocks.%d.attn.q_norm.weight", backbone, i)) {
			return i
		}
	}
	return 0
}

// published are the publisher's names of the networks, as config.json has them, and
// ours. METRIC and MONO have the same tensors: only their name tells.
var published = map[string]string{
	"da3-small": "da3_small", "da3-base": "da3_base", "da3-large": "da3_large", "da3-giant": "da3_giant",
	"da3mono-large": "da3_mono_large", "da3metric-large": "da3_metric_large",
}

// config is what is read of the publisher's config.json.
type config struct {
	ModelName string `json:"model_name"`
	Config    struct {
		Net struct {
			OutLayers []int `json:"out_layers"`
			AltStart  *int  `json:"alt_start"`
		} `json:"net"`
	} `json:"config"`
}

// hooks come from our metadata, else from config.json beside the weights, else
// from the published networks of this depth.
func (d *Dims) hooks(s *weights.Set, meta *vit.Metadata) error {
	known := hooksOf
	if !d.Views {
		known = oneViewHooks
	}
	var ok bool
	d.Hooks, ok = known[d.Depth]
	text, err := s.Config()
	if err != nil {
		return err
	}
	if text != nil {
		var c config
		if err := json.Unmarshal(text, &c); err != nil {
			return fmt.Errorf("model: config.json beside the weights: %w", err)
		}
		d.Variant = published[c.ModelName]
		net := c.Config.Net
		if n := len(net.OutLayers); n > 0 {
			if n != len(d.Hooks) {
				return fmt.Errorf("model: config.json beside the weights: %d out_layers, want %d", n, len(d.Hooks))
			}
			copy(d.Hooks[:], net.OutLayers)
			ok = true
		}
		if net.AltStart != nil && d.Views && *net.AltStart != d.Start {
			return fmt.Errorf("model: config.json beside the weights: alt_start %d, but block %d is the first with attn.q_norm", *net.AltStart, d.Start)
		}
	}
	if _, told := meta.Values["dpt_hooks"]; !told && !ok {
		return fmt.Errorf("model: %d blocks: which of them the head reads is not known; want dpt_hooks in the metadata, or out_layers in config.json beside the weights", d.Depth)
	}
	d.Hooks = meta.Hooks(d.Hooks)
	if !d.Views {
		d.Start = max(d.Hooks[0], 1)
	}
	return nil
}

// check refuses dimensions with which no graph can be built, naming the reason,
// before any arithmetic is done with them.
func (d *Dims) check() error {
	switch {
	case d.Patch < 1 || d.Dim < 1 || d.Depth < 1:
		return fmt.Errorf("model: patch %d, dimension %d, %d blocks: want at least 1", d.Patch, d.Dim, d.Depth)
	case d.Heads < 1 || d.Dim%d.Heads != 0 || d.Dim/d.Heads%4 != 0:
		return fmt.Errorf("model: %d heads for dimension %d: want a head dimension that is a multiple of 4", d.Heads, d.Dim)
	case d.Start < 1 || d.Start >= d.Depth:
		return fmt.Errorf("model: the trunk begins at block %d of %d, want 1 to %d", d.Start, d.Depth, d.Depth-1)
	case d.Features < 2 || d.Features%2 != 0:
		return fmt.Errorf("model: head of width %d, want an even number", d.Features)
	case d.Views && d.Features%8 != 0:
		return fmt.Errorf("model: head of width %d, want a multiple of 8", d.Features)
	case d.Resolution < d.Patch:
		return fmt.Errorf("model: resolution %d, want at least the patch size %d", d.Resolution, d.Patch)
	case d.Given && d.Dim%givenHeads != 0:
		return fmt.Errorf("model: camera encoder of dimension %d, want a multiple of %d", d.Dim, givenHeads)
	}
	for i, c := range d.Channels {
		if c < 1 || d.Views && c%4 != 0 {
			return fmt.Errorf("model: stage %d has %d channels, want a multiple of 4", i, c)
		}
	}
	for i, h := range d.Hooks {
		if h < d.Start || h >= d.Depth || i > 0 && h <= d.Hooks[i-1] {
			return fmt.Errorf("model: hooks %v, want ascending blocks from %d to %d", d.Hooks, d.Start, d.Depth-1)
		}
	}
	return nil
}

// guessVariant names the published networks by their dimensions. METRIC and MONO
// have the same shapes; only their metadata tells.
func (d *Dims) guessVariant() string {
	if !d.Views {
		return "da3_mono_large"
	}
	names := map[[2]int]string{{384, 12}: "da3_small", {768, 12}: "da3_base", {1024, 24}: "da3_large", {1536, 40}: "da3_giant"}
	if name, ok := names[[2]int{d.Dim, d.Depth}]; ok {
		return name
	}
	return fmt.Sprintf("da3_%d_%d", d.Dim, d.Depth)
}
