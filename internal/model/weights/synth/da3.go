// SPDX-License-Identifier: Apache-2.0

package synth

import (
	"fmt"
	"maps"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// views are the dimensions of a Depth Anything 3 network of many views whose trunk
// begins at block start (da3.md 1).
func views(dim, depth, heads, start, feature int, channels [4]int) Dims {
	return Dims{Arch: DA3, Patch: 14, EncDim: dim, EncDepth: depth, EncHeads: heads, Start: start, PosGrid: 37,
		MLPRatio: 4, DPTFeature: feature, DPTLayers: channels}
}

// grid replaces the side of the position table.
func (d Dims) grid(side int) Dims {
	d.PosGrid = side
	return d
}

// gated replaces the MLP by SwiGLU.
func (d Dims) gated() Dims {
	d.Gated = true
	return d
}

// prefix is before every name in the published files.
const da3Prefix = "model."

// da3 is everything of Depth Anything 3, what inference never reads included
// (da3.md 1).
func (m *manifest) da3(d Dims) {
	p, dim := da3Prefix+"backbone.pretrained.", d.EncDim
	m.conv(p+"patch_embed.proj", dim, 3, d.Patch)
	m.add(p+"cls_token", 1, 1, dim)
	m.add(p+"pos_embed", 1, d.PosGrid*d.PosGrid+1, dim)
	if d.Start > 0 {
		m.add(p+"camera_token", 1, 2, dim)
	}
	for i := range d.EncDepth {
		name := fmt.Sprintf("%sblocks.%d", p, i)
		m.scaledBlock(name, dim, d.MLPRatio, d.Gated)
		if d.Start > 0 && i >= d.Start {
			m.norm(name+".attn.q_norm", dim/d.EncHeads)
			m.norm(name+".attn.k_norm", dim/d.EncHeads)
		}
	}
	m.norm(p+"norm", dim)
	if d.Start > 0 {
		m.cameras(da3Prefix, dim)
		m.denseHead(d, 2*dim)
	} else {
		m.denseHead(d, dim)
	}
}

// scaledBlock is a selfBlock with a factor for each channel of both branches.
func (m *manifest) scaledBlock(p string, dim, ratio int, gated bool) {
	m.norm(p+".norm1", dim)
	m.linear(p+".attn.qkv", 3*dim, dim)
	m.linear(p+".attn.proj", dim, dim)
	m.add(p+".ls1.gamma", dim)
	m.norm(p+".norm2", dim)
	if gated {
		hidden := (ratio*dim*2/3 + 7) / 8 * 8
		m.linear(p+".mlp.w12", 2*hidden, dim)
		m.linear(p+".mlp.w3", dim, hidden)
	} else {
		m.linear(p+".mlp.fc1", ratio*dim, dim)
		m.linear(p+".mlp.fc2", dim, ratio*dim)
	}
	m.add(p+".ls2.gamma", dim)
}

// cameras are the camera decoder and encoder.
func (m *manifest) cameras(p string, dim int) {
	for _, layer := range []string{"0", "2"} {
		m.linear(p+"cam_dec.backbone."+layer, 2*dim, 2*dim)
	}
	m.linear(p+"cam_dec.fc_t", 3, 2*dim)
	m.linear(p+"cam_dec.fc_qvec", 4, 2*dim)
	m.linear(p+"cam_dec.fc_fov.0", 2, 2*dim)
	m.linear(p+"cam_enc.pose_branch.fc1", dim/2, 9)
	m.linear(p+"cam_enc.pose_branch.fc2", dim, dim/2)
	m.norm(p+"cam_enc.token_norm", dim)
	for i := range 4 {
		m.scaledBlock(fmt.Sprintf("%scam_enc.trunk.%d", p, i), dim, 4, false)
	}
	m.norm(p+"cam_enc.trunk_norm", dim)
}

// denseHead is the head on hooks of width in: with rays where there are cameras,
// else with sky.
func (m *manifest) denseHead(d Dims, in int) {
	const last = 32
	p, f, c := da3Prefix+"head.", d.DPTFeature, d.DPTLayers
	for i := range c {
		m.conv(fmt.Sprintf("%sprojects.%d", p, i), c[i], in, 1)
		m.add(fmt.Sprintf("%sscratch.layer%d_rn.weight", p, i+1), f, c[i], 3, 3)
	}
	m.conv(p+"resize_layers.0", c[0], c[0], 4)
	m.conv(p+"resize_layers.1", c[1], c[1], 2)
	m.conv(p+"resize_layers.3", c[3], c[3], 3)
	p += "scratch."
	chain := func(suffix string) {
		for i := range c {
			name := fmt.Sprintf("%srefinenet%d%s", p, i+1, suffix)
			for unit := 1; unit <= 2; unit++ {
				if i == 3 && unit == 1 {
					continue
				}
				m.conv(fmt.Sprintf("%s.resConfUnit%d.conv1", name, unit), f, f, 3)
				m.conv(fmt.Sprintf("%s.resConfUnit%d.conv2", name, unit), f, f, 3)
			}
			m.conv(name+".out_conv", f, f, 1)
		}
	}
	chain("")
	m.conv(p+"output_conv1", f/2, f, 3)
	m.conv(p+"output_conv2.0", last, f/2, 3)
	if d.Start == 0 {
		m.conv(p+"output_conv2.2", 1, last, 1)
		m.conv(p+"sky_output_conv2.0", last, f/2, 3)
		m.conv(p+"sky_output_conv2.2", 1, last, 1)
		return
	}
	m.conv(p+"output_conv2.2", 2, last, 1)
	m.norm(da3Prefix+"head.norm", in)
	chain("_aux")
	for level := range c {
		for i := range 5 {
			out, in := f/2, f
			if i%2 == 1 {
				out, in = f, f/2
			}
			m.conv(fmt.Sprintf("%soutput_conv1_aux.%d.%d", p, level, i), out, in, 3)
		}
		m.conv(fmt.Sprintf("%soutput_conv2_aux.%d.0", p, level), last, f/2, 3)
		m.conv(fmt.Sprintf("%soutput_conv2_aux.%d.5", p, level), 7, last, 1)
	}
	m.norm(p+"output_conv2_aux.0.2", last)
}

// aliases are what the published files say about a norm that stands once in them
// and four times in the network.
func aliases() map[string]string {
	m := map[string]string{}
	for level := 1; level < 4; level++ {
		for _, part := range []string{"weight", "bias"} {
			const name = da3Prefix + "head.scratch.output_conv2_aux.%d.2.%s"
			m[fmt.Sprintf(name, level, part)] = fmt.Sprintf(name, 0, part)
		}
	}
	return m
}

// da3Metadata are those of the published files, and the hooks where the depth is not
// a published one.
func (d Dims) da3Metadata(variant string) map[string]string {
	m := map[string]string{}
	if d.Start > 0 {
		maps.Copy(m, aliases())
	}
	if _, published := map[int]bool{12: true, 24: true, 40: true}[d.EncDepth]; !published {
		m["variant"] = variant
	}
	return m
}

// loudRule lets every error show: scales and norms far from one value, biases and
// tokens of a size that counts. Fields of view are around one radian.
func loudRule(name string, shape tensor.Shape) (base, scale float32) {
	parent, last := tail(name)
	switch {
	case last == "gamma":
		return 0.75, 0.25
	case last == "cls_token", last == "pos_embed", last == "camera_token":
		return 0, 0.3
	case last == "weight" && len(shape) == 1:
		return 1, 0.2
	case parent == "0" && last == "bias" && len(shape) == 1 && shape[0] == 2:
		return 1, 0.1
	case last == "bias":
		return 0, 0.1
	}
	return goldenRule(name, shape)
}
