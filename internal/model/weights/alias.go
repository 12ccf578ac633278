// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"regexp"
	"strconv"
	"strings"
)

// The canonical names are those of the reference's checkpoints (network.md 2): MASt3R's without a prefix; DUNE's encoder under "encoder.", its decoder
// under "mast3r." with the outer "norm."; retrieval's "prewhiten." and so on.
// Converters and training wrappers add to them, and a model loads from each.

// duneBlock is the name that only a DUNE encoder has: its blocks are chunked,
// with a literal chunk number 0.
var duneBlock = regexp.MustCompile(`^(encoder\.)*blocks\.0\.\d+\.`)

// layerRN is the list spelling of the four DPT convolutions that the reference
// registers twice.
var layerRN = regexp.MustCompile(`\bscratch\.layer_rn\.([0-3])\.`)

// rayNorm are the names of a norm that Depth Anything 3 has once and calls at four
// levels (da3.md 1).
var rayNorm = regexp.MustCompile(`^head\.scratch\.output_conv2_aux\.[1-3]\.2\.`)

// duneEncoder are the parts of the DUNE encoder, without prefix.
var duneEncoder = []string{"cls_token", "register_tokens", "pos_embed", "mask_token", "patch_embed.", "blocks.", "norm."}

// duneDecoder are the parts of the file beside it.
var duneDecoder = []string{"mast3r.", "norm.", "imagenet_", "dune_backbone."}

// duneSide are the distillation leftovers in the encoder file.
var duneSide = []string{"projectors.", "teacher_norms."}

func hasAnyPrefix(s string, list []string) bool {
	for _, p := range list {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// unwrap takes off what DistributedDataParallel and torch.compile put on.
func unwrap(name string) string {
	for {
		short := strings.TrimPrefix(strings.TrimPrefix(name, "module."), "_orig_mod.")
		if short == name {
			return strings.ReplaceAll(name, "._orig_mod.", ".")
		}
		name = short
	}
}

// mergeLayerRN gives the DPT convolutions the one of their two names that files
// without aliases keep.
func mergeLayerRN(name string) string {
	return layerRN.ReplaceAllStringFunc(name, func(m string) string {
		k := m[len(m)-2] - '0'
		return "scratch.layer" + strconv.Itoa(int(k)+1) + "_rn."
	})
}

// anchors are tensors that each kind of model has, by which a wrapper's prefix is
// found.
var anchors = []string{"enc_blocks.0.attn.qkv.weight", "dec_blocks.0.attn.qkv.weight", "blocks.0.0.attn.qkv.weight", "prewhiten.m",
	"backbone.pretrained.patch_embed.proj.weight"}

// ownPrefixes are what may stand before an anchor in a canonical name.
var ownPrefixes = []string{"encoder.", "decoder.", "mast3r.", "dune_backbone."}

// wrapperPrefix is what a training framework has put before every name, as "model."
// or "net.student."; "" where there is nothing or more than one such prefix.
func wrapperPrefix(names []string) string {
	found := map[string]bool{}
	for _, name := range names {
		name = unwrap(name)
		for _, a := range anchors {
			prefix, ok := strings.CutSuffix(name, a)
			if !ok || prefix != "" && !strings.HasSuffix(prefix, ".") {
				continue
			}
			for i := 0; i < len(ownPrefixes); i++ {
				if rest, ok := strings.CutSuffix(prefix, ownPrefixes[i]); ok && (rest == "" || strings.HasSuffix(rest, ".")) {
					prefix, i = rest, -1
				}
			}
			found[prefix] = true
		}
	}
	if len(found) != 1 {
		return ""
	}
	for prefix := range found {
		return prefix
	}
	return ""
}

// namer maps the names of one file to canonical ones. What a bare "norm." is
// depends on its neighbours, so the whole list is looked at first.
type namer struct {
	prefix  string // that a wrapper put before every name
	dune    bool   // the file holds a DUNE encoder
	decoder bool   // the file holds a DUNE decoder
}

func newNamer(names []string) namer {
	n := namer{prefix: wrapperPrefix(names)}
	for _, name := range names {
		name = n.bare(name)
		n.dune = n.dune || duneBlock.MatchString(name)
		n.decoder = n.decoder || strings.HasPrefix(strings.TrimPrefix(name, "decoder."), "mast3r.")
	}
	return n
}

// bare takes off what wrappers put on.
func (n namer) bare(name string) string {
	return unwrap(strings.TrimPrefix(unwrap(name), n.prefix))
}

func (n namer) canonical(name string) string {
	name = n.bare(name)
	name = rayNorm.ReplaceAllString(mergeLayerRN(name), "head.scratch.output_conv2_aux.0.2.")
	if rest, ok := strings.CutPrefix(name, "decoder."); ok && hasAnyPrefix(rest, duneDecoder) {
		name = rest
	}
	if rest, ok := strings.CutPrefix(name, "dune_backbone."); ok {
		return "encoder." + strings.TrimPrefix(rest, "encoder.")
	}
	if !n.dune {
		return strings.TrimPrefix(name, "encoder.")
	}
	bare := name
	for strings.HasPrefix(bare, "encoder.") {
		bare = strings.TrimPrefix(bare, "encoder.")
	}
	switch {
	case hasAnyPrefix(bare, duneSide):
		return bare
	case !hasAnyPrefix(bare, duneEncoder):
		return name
	case bare == name && n.decoder && strings.HasPrefix(bare, "norm."):
		// In a file with both halves the bare norm is the one between them.
		return name
	}
	return "encoder." + bare
}

// unused are the tensors that real files hold and inference never reads
// (network.md 2.1 to 2.4 and 19, da3.md 1).
var unused = regexp.MustCompile(`(^|\.)mask_token$` +
	`|\.refinenet4\.resConfUnit1\.` +
	`|^mast3r\.(patch_embed|enc_norm)\.` +
	`|^encoder\.norm\.` +
	`|^(projectors|teacher_norms)\.` +
	`|^imagenet_(mean|std)$` +
	`|^head\.scratch\.output_conv1_aux\.[0-2]\.` +
	`|^head\.scratch\.output_conv2_aux\.[0-2]\.[05]\.`)
