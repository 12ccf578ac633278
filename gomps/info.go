// SPDX-License-Identifier: Apache-2.0

package gomps

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

	Variant, Precision           string
	Patch, DescDim, Resolution   int
	EncDim, EncDepth, EncHeads   int
	DecDim, DecDepth, DecHeads   int
	Parameters                   int64
	Metadata                     map[string]string
	UnusedTensors                []string
	Encodes, Decodes, HeadPasses uint64
}
