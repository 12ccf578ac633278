// SPDX-License-Identifier: Apache-2.0

package synth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// File is one file of a model: its name and its tensors, sorted by name.
type File struct {
	Name  string
	Specs []weights.Spec
}

// Files lists what a model of these dimensions is made of (network.md 2).
func (d Dims) Files() []File {
	switch d.Arch {
	case MASt3R:
		var m manifest
		m.trunk("", d, d.EncDepth)
		return []File{m.file("unified.safetensors")}
	case DUNE:
		var enc, dec manifest
		enc.duneEncoder(d)
		dec.norm("norm", d.EncDim)
		dec.trunk("mast3r.", d, 0)
		return []File{enc.file("encoder.safetensors"), dec.file("decoder.safetensors")}
	case DA3:
		var m manifest
		m.da3(d)
		return []File{m.file("model.safetensors")}
	case Retrieval:
		var m manifest
		m.retrieval(d)
		return []File{m.file("retrieval.safetensors")}
	}
	panic(fmt.Sprintf("synth: architecture %q does not exist", d.Arch))
}

// manifest collects names and shapes. The methods are the layers of the
// reference's modules, so that names come out as in its state dictionaries; a
// linear weight is [out, in], a convolution's [out, in, k, k] and a transposed
// convolution's [in, out, k, k].
type manifest []weights.Spec

func (m *manifest) add(name string, shape ...int) {
	*m = append(*m, weights.Spec{Name: name, DType: tensor.F32, Shape: shape})
}

// file sorts by name, as the golden files are: their hashes cover the order.
func (m manifest) file(name string) File {
	slices.SortFunc(m, func(a, b weights.Spec) int { return strings.Compare(a.Name, b.Name) })
	return File{name, m}
}

func (m *manifest) linear(name string, out, in int) {
	m.add(name+".weight", out, in)
	m.add(name+".bias", out)
}

func (m *manifest) conv(name string, out, in, k int) {
	m.add(name+".weight", out, in, k, k)
	m.add(name+".bias", out)
}

func (m *manifest) norm(name string, dim int) {
	m.add(name+".weight", dim)
	m.add(name+".bias", dim)
}

// selfBlock is a block of an encoder: attention and MLP, each after a norm.
func (m *manifest) selfBlock(p string, dim, ratio int) {
	m.norm(p+".norm1", dim)
	m.linear(p+".attn.qkv", 3*dim, dim)
	m.linear(p+".attn.proj", dim, dim)
	m.norm(p+".norm2", dim)
	m.linear(p+".mlp.fc1", ratio*dim, dim)
	m.linear(p+".mlp.fc2", dim, ratio*dim)
}

// crossBlock is a decoder's: a selfBlock with attention to the other view in
// between. norm_y is the norm of that view's tokens.
func (m *manifest) crossBlock(p string, dim, ratio int) {
	m.selfBlock(p, dim, ratio)
	for _, k := range []string{"projq", "projk", "projv", "proj"} {
		m.linear(p+".cross_attn."+k, dim, dim)
	}
	m.norm(p+".norm3", dim)
	m.norm(p+".norm_y", dim)
}

// trunk is everything of MASt3R; in a DUNE decoder file it has no encoder
// blocks, yet keeps the patch embedding and norm that nothing uses.
func (m *manifest) trunk(p string, d Dims, encDepth int) {
	m.add(p+"mask_token", 1, 1, d.DecDim)
	m.conv(p+"patch_embed.proj", d.EncDim, 3, d.Patch)
	for i := range encDepth {
		m.selfBlock(fmt.Sprintf("%senc_blocks.%d", p, i), d.EncDim, d.MLPRatio)
	}
	m.norm(p+"enc_norm", d.EncDim)
	m.linear(p+"decoder_embed", d.DecDim, d.EncDim)
	for _, side := range []string{"dec_blocks", "dec_blocks2"} {
		for i := range d.DecDepth {
			m.crossBlock(fmt.Sprintf("%s%s.%d", p, side, i), d.DecDim, d.MLPRatio)
		}
	}
	m.norm(p+"dec_norm", d.DecDim)
	for side := 1; side <= 2; side++ {
		m.head(fmt.Sprintf("%sdownstream_head%d", p, side), d)
	}
}

// head is one downstream head: the DPT part for points and confidence, and the
// MLP that gives each pixel of a patch its descriptor and that one's confidence.
func (m *manifest) head(p string, d Dims) {
	q, l, f := p+".dpt", d.DPTLayers, d.DPTFeature
	for k := range 4 {
		in := d.DecDim
		if k == 0 {
			in = d.EncDim
		}
		m.conv(fmt.Sprintf("%s.act_postprocess.%d.0", q, k), l[k], in, 1)
	}
	// The two transposed convolutions are square, so that conv fits them.
	m.conv(q+".act_postprocess.0.1", l[0], l[0], 4)
	m.conv(q+".act_postprocess.1.1", l[1], l[1], 2)
	m.conv(q+".act_postprocess.3.1", l[3], l[3], 3)
	// The reference registers these four twice, which leaves two names for each
	// in its files.
	for k := range 4 {
		m.add(fmt.Sprintf("%s.scratch.layer%d_rn.weight", q, k+1), f, l[k], 3, 3)
		m.add(fmt.Sprintf("%s.scratch.layer_rn.%d.weight", q, k), f, l[k], 3, 3)
		r := fmt.Sprintf("%s.scratch.refinenet%d", q, k+1)
		m.conv(r+".out_conv", f, f, 1)
		for u := 1; u <= 2; u++ {
			m.conv(fmt.Sprintf("%s.resConfUnit%d.conv1", r, u), f, f, 3)
			m.conv(fmt.Sprintf("%s.resConfUnit%d.conv2", r, u), f, f, 3)
		}
	}
	m.conv(q+".head.0", f/2, f, 3)
	m.conv(q+".head.2", d.DPTLast, f/2, 3)
	m.conv(q+".head.4", 4, d.DPTLast, 1)
	m.linear(p+".head_local_features.fc1", d.LocalHidden, d.EncDim+d.DecDim)
	m.linear(p+".head_local_features.fc2", (d.DescDim+1)*d.Patch*d.Patch, d.LocalHidden)
}

// duneEncoder is a DINOv2 encoder with layer scale (ls1, ls2) and registers; the
// 0 in its blocks' names is the number of a chunk, of which there is one.
func (m *manifest) duneEncoder(d Dims) {
	m.add("encoder.cls_token", 1, 1, d.EncDim)
	m.add("encoder.mask_token", 1, d.EncDim)
	m.add("encoder.pos_embed", 1, d.PosGrid*d.PosGrid+1, d.EncDim)
	if d.Registers > 0 {
		m.add("encoder.register_tokens", 1, d.Registers, d.EncDim)
	}
	m.conv("encoder.patch_embed.proj", d.EncDim, 3, d.Patch)
	for i := range d.EncDepth {
		b := fmt.Sprintf("encoder.blocks.0.%d", i)
		m.selfBlock(b, d.EncDim, d.MLPRatio)
		m.add(b+".ls1.gamma", d.EncDim)
		m.add(b+".ls2.gamma", d.EncDim)
	}
	m.norm("encoder.norm", d.EncDim)
}

// retrieval is the whitening and, optionally, a projector: layers of Linear,
// LayerNorm and GELU, hence the step of three, the last one Linear only.
func (m *manifest) retrieval(d Dims) {
	dim := d.RetrievalDim
	m.add("prewhiten.m", 1, dim)
	m.add("prewhiten.p", dim, dim)
	for i, width := range d.Projector {
		m.linear(fmt.Sprintf("projector.%d", 3*i), width, dim)
		if i < len(d.Projector)-1 {
			m.norm(fmt.Sprintf("projector.%d", 3*i+1), width)
		}
		dim = width
	}
	if d.Postwhiten {
		m.add("postwhiten.m", 1, dim)
		m.add("postwhiten.p", dim, dim)
	}
}
