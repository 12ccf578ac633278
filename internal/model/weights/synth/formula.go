// SPDX-License-Identifier: Apache-2.0

package synth

import (
	"fmt"
	"math"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Formula chooses how names become numbers.
type Formula uint8

const (
	// Golden is the formula of the micro, mini and full-size golden data.
	Golden Formula = iota
	// Spec21 is the formula of network.md 21 (the tiny
	// models).
	Spec21
	// Loud is the formula of networks whose golden data bring their own weights: it
	// lets every error show.
	Loud
)

// FNV1a64 is the 64-bit FNV-1a hash, the seed of a tensor.
func FNV1a64(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}

// weyl is 2^64 divided by the golden ratio: the step of the counter.
const weyl = 0x9e3779b97f4a7c15

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection
// whose output bits each depend on every input bit, so that a plain counter in
// gives good random numbers out.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Bits is the 64-bit hash of index i under a name.
func Bits(name string, i int) uint64 { return mix(FNV1a64(name) + uint64(i+1)*weyl) }

// Unit is the number in (-1, 1) of index i under a name: an odd multiple of
// 2^-24, exact in float32 and never 0.
func Unit(name string, i int) float32 { return unit(Bits(name, i)) }

func unit(z uint64) float32 {
	return float32(2*int32(z>>40)+1-1<<24) * 0x1p-24
}

// Fill writes elements start, start+1, ... of a tensor (row-major) to dst.
func (f Formula) Fill(dst []float32, name string, shape tensor.Shape, start int) {
	switch f {
	case Golden, Loud:
		rule := goldenRule
		if f == Loud {
			rule = loudRule
		}
		name = listSpelling(name)
		base, scale := rule(name, shape)
		z := FNV1a64(name) + uint64(start)*weyl
		for i := range dst {
			z += weyl
			// Two roundings, as the golden data had: the conversion keeps the
			// compiler from fusing the product into the sum.
			v := float32(scale * unit(mix(z)))
			if base != 0 {
				v += base
			}
			dst[i] = v
		}
	case Spec21:
		name = numberSpelling(name)
		base, scale := spec21Rule(name, shape)
		z := FNV1a64(name) + uint64(start)*weyl
		for i := range dst {
			z += weyl
			r := float64(mix(z)>>40)/(1<<23) - 1
			dst[i] = float32(base + float64(scale*r))
		}
	default:
		panic(fmt.Sprintf("synth: formula %d does not exist", f))
	}
}

// listSpelling and numberSpelling are the two names of one DPT convolution:
// both must hold the same data, and each formula hashes another one.
func listSpelling(name string) string {
	for k := '1'; k <= '4'; k++ {
		name = strings.Replace(name, ".scratch.layer"+string(k)+"_rn.", ".scratch.layer_rn."+string(k-1)+".", 1)
	}
	return name
}

func numberSpelling(name string) string {
	for k := '1'; k <= '4'; k++ {
		name = strings.Replace(name, ".scratch.layer_rn."+string(k-1)+".", ".scratch.layer"+string(k)+"_rn.", 1)
	}
	return name
}

// gains keep tokens apart through 24 + 12 blocks and outputs in a sane range;
// the first ending that matches counts.
var gains = []struct {
	ending string
	gain   float64
}{
	{"patch_embed.proj.weight", 4},
	{".attn.qkv.weight", 1.75},
	{".cross_attn.projq.weight", 1.75},
	{".cross_attn.projk.weight", 1.75},
	{".cross_attn.proj.weight", 0.5},
	{".attn.proj.weight", 0.375},
	{".mlp.fc2.weight", 0.5},
	{"decoder_embed.weight", 2},
	{".act_postprocess.1.0.weight", 0.5},
	{".act_postprocess.2.0.weight", 0.5},
	{".dpt.head.4.weight", 0.5},
	{".head_local_features.fc2.weight", 1.25},
}

// goldenRule is the table of golden.md 2; the first row that
// matches counts, so that the order of cases matters.
func goldenRule(name string, shape tensor.Shape) (base, scale float32) {
	parent, last := tail(name)
	switch {
	case last == "gamma":
		return 0.6, 0.3
	case last == "cls_token", last == "register_tokens", last == "pos_embed":
		return 0, 0.5
	case last == "mask_token":
		return 0, 0.05
	case name == "prewhiten.m", name == "postwhiten.m":
		return 0, 0.3
	case last == "weight" && isNorm(name, parent):
		return 1, 0.1
	case strings.HasSuffix(name, ".dpt.head.4.bias"):
		return 0, 0.5
	case last == "bias":
		return 0, 0.05
	}
	in := fanIn(name, shape)
	if name == "prewhiten.p" || name == "postwhiten.p" { // y = (x - m) p
		in = shape[0]
	}
	gain := 1.0
	for _, g := range gains {
		if strings.HasSuffix(name, g.ending) {
			gain = g.gain
			break
		}
	}
	return 0, float32(gain * math.Sqrt(3/float64(in)))
}

// tail splits the last two parts off a dotted name.
func tail(name string) (parent, last string) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name
	}
	return name[strings.LastIndexByte(name[:i], '.')+1 : i], name[i+1:]
}

func isNorm(name, parent string) bool {
	switch parent {
	case "norm", "norm1", "norm2", "norm3", "norm_y", "enc_norm", "dec_norm":
		return true
	}
	return parent == "1" && strings.HasPrefix(name, "projector.")
}

// fanIn is the number of inputs of one output: all dimensions but the first,
// or, for the transposed convolutions [in, out, k, k] of stride k, the first.
func fanIn(name string, shape tensor.Shape) int {
	if strings.Contains(name, ".act_postprocess.0.1.") || strings.Contains(name, ".act_postprocess.1.1.") ||
		strings.Contains(name, ".resize_layers.0.") || strings.Contains(name, ".resize_layers.1.") {
		return shape[0]
	}
	return shape[1:].Numel()
}

// spec21Rule tells norms from other weights by their rank, not their name, and
// works in float64 throughout.
func spec21Rule(name string, shape tensor.Shape) (base, scale float64) {
	_, last := tail(name)
	switch {
	case last == "gamma":
		return 1, 0.2
	case last == "weight" && len(shape) == 1:
		return 1, 0.1
	case last == "weight":
		scale = math.Sqrt(3 / float64(fanIn(name, shape)))
		if strings.HasSuffix(name, "dpt.head.4.weight") {
			scale *= 0.1
		}
		return 0, scale
	}
	return 0, 0.05
}
