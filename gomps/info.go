// SPDX-License-Identifier: Apache-2.0

package gomps

import "github.com/mast3r-runtime/mast3r-runtime/internal/model/da3"

// Info are facts about an engine: its device, and its model once one is loaded.
type Info struct {
	Backend, Device, ISA string
	// Products says which instructions the CPU multiplies with in which precision, and
	// why; "" on a GPU.
	Products              string
	Threads               int
	WorkingSet, MaxBuffer uint64
	UnifiedMemory         bool
	OS                    string
	PoolBuffers           int
	PoolBytes             uint64
	LiveBuffers           int
	// FallbackReason says why the CPU is used instead of a GPU.
	FallbackReason string
	// GPU only. WeightsMapped and WeightsCopied are the bytes of the compiled
	// programs' weights that are used in place and copied; CommandBuffers is the
	// number committed since Open.
	WeightsMapped, WeightsCopied, CommandBuffers int

	Variant, Precision string
	// Outputs names what the model gives: "pts3d", "conf", "desc", "desc_conf" of a pair, and
	// "depth", "poses", "intrinsics", "rays", "ray_conf", "sky" of a scene.
	Outputs                      []string
	Patch, DescDim, Resolution   int
	EncDim, EncDepth, EncHeads   int
	DecDim, DecDepth, DecHeads   int
	Parameters                   int64
	Metadata                     map[string]string
	UnusedTensors                []string
	Encodes, Decodes, HeadPasses uint64
}

// outputs are those of Info.
func (l *loaded) outputs() []string {
	if l.pair != nil {
		return []string{"pts3d", "conf", "desc", "desc_conf"}
	}
	var names []string
	for _, o := range []struct {
		of    da3.Outputs
		names []string
	}{
		{da3.Depth, []string{"depth"}},
		{da3.Conf, []string{"conf", "pts3d", "poses", "intrinsics"}},
		{da3.Rays, []string{"rays", "ray_conf"}},
		{da3.Sky, []string{"sky"}},
	} {
		if l.views.Outputs()&o.of != 0 {
			names = append(names, o.names...)
		}
	}
	return names
}
