// SPDX-License-Identifier: Apache-2.0

package device

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
)

// KernelSource is the Metal source of the kernels of this package.
//
//go:embed kernels.metal
var KernelSource string

// maxDim is kMaxDim of kernels.metal.
const maxDim = 64

// Kernels are the compiled kernels of this package.
type Kernels struct {
	normalize, partial, reduce *Pipeline
}

// NewKernels compiles them. Owner thread.
func (d *Device) NewKernels() (*Kernels, error) {
	lib, err := d.NewLibrary(KernelSource)
	if err != nil {
		return nil, err
	}
	defer lib.Release()
	k := &Kernels{}
	for _, p := range []struct {
		dst  **Pipeline
		name string
	}{{&k.normalize, "normalize_u8"}, {&k.partial, "nearest_partial"}, {&k.reduce, "nearest_reduce"}} {
		if *p.dst, err = lib.Pipeline(p.name); err != nil {
			k.Release()
			return nil, err
		}
	}
	return k, nil
}

// Release drops the pipelines.
func (k *Kernels) Release() {
	for _, p := range []*Pipeline{k.normalize, k.partial, k.reduce} {
		if p != nil {
			p.Release()
		}
	}
}

// NormalizeTable is the input of [Kernels.Normalize]: the float of each 8-bit
// value in each channel, (v/255 - mean) / std in float32 as the reference
// computes it.
func NormalizeTable(mean, std [3]float32) [768]float32 {
	var t [768]float32
	for c := range 3 {
		for v := range 256 {
			t[c*256+v] = (float32(v)/255 - mean[c]) / std[c]
		}
	}
	return t
}

// Normalize encodes 8-bit RGB rows of rowBytes bytes to float32, [H,W,3] or,
// planar, [3,H,W]. Owner thread.
func (k *Kernels) Normalize(c *CommandBuffer, dst, src *Buffer, width, height, rowBytes int, planar bool, table *[768]float32) error {
	if width < 1 || height < 1 || rowBytes < 3*width || height > math.MaxInt32/rowBytes ||
		src.Len() < (height-1)*rowBytes+3*width || dst.Len() < 12*width*height {
		return fmt.Errorf("metal: normalize: %dx%d pixels in rows of %d bytes do not fit buffers of %d and %d bytes",
			width, height, rowBytes, src.Len(), dst.Len())
	}
	p := words(uint32(width), uint32(height), uint32(rowBytes), 0)
	if planar {
		binary.LittleEndian.PutUint32(p[12:], 1)
	}
	t := make([]byte, 0, 4*len(table))
	for _, v := range table {
		t = binary.LittleEndian.AppendUint32(t, math.Float32bits(v))
	}
	n := k.normalize.Threads(256)
	return c.Dispatch(k.normalize, groups(width*height, n), Size{uint64(n), 1, 1},
		Arg{Buffer: src}, Arg{Buffer: dst}, Arg{Bytes: t}, Arg{Bytes: p})
}

// NearestScratch is the size of the scratch buffers of [Kernels.Nearest].
func NearestScratch(queries, targets int) int { return 4 * queries * chunksOf(targets) }

// nearestChunk balances parallelism against partial results: 196 608 targets
// give 48 chunks.
const nearestChunk = 4096

func chunksOf(targets int) int { return (targets + nearestChunk - 1) / nearestChunk }

// Nearest encodes, for every row of query [queries,dim], the row of target
// [targets,dim] with the largest dot product, the lowest on ties, as an int32 in
// out; -1 where every product is NaN. score and index are scratch of
// NearestScratch bytes. Owner thread.
func (k *Kernels) Nearest(c *CommandBuffer, out, query, target, score, index *Buffer, queries, targets, dim int) error {
	const limit = math.MaxInt32 / (4 * maxDim)
	if queries < 1 || targets < 1 || dim < 1 || dim > maxDim || queries > limit || targets > limit {
		return fmt.Errorf("metal: nearest: %d queries, %d targets of %d numbers; want at least 1, at most %d, %d numbers",
			queries, targets, dim, limit, maxDim)
	}
	s := NearestScratch(queries, targets)
	if query.Len() < 4*queries*dim || target.Len() < 4*targets*dim || out.Len() < 4*queries || score.Len() < s || index.Len() < s {
		return fmt.Errorf("metal: nearest: buffers of %d, %d, %d, %d, %d bytes are too small for %d queries, %d targets of %d numbers",
			query.Len(), target.Len(), out.Len(), score.Len(), index.Len(), queries, targets, dim)
	}
	chunks := chunksOf(targets)
	p := words(uint32(queries), uint32(targets), uint32(dim), nearestChunk, uint32(chunks))
	n := k.partial.Threads(64)
	g := groups(queries, n)
	g.Height = uint64(chunks)
	if err := c.Dispatch(k.partial, g, Size{uint64(n), 1, 1},
		Arg{Buffer: query}, Arg{Buffer: target}, Arg{Buffer: score}, Arg{Buffer: index}, Arg{Bytes: p}); err != nil {
		return err
	}
	n = k.reduce.Threads(256)
	return c.Dispatch(k.reduce, groups(queries, n), Size{uint64(n), 1, 1},
		Arg{Buffer: score}, Arg{Buffer: index}, Arg{Buffer: out}, Arg{Bytes: p})
}

// groups is the grid that covers n threads in groups of size.
func groups(n, size int) Size { return Size{uint64((n + size - 1) / size), 1, 1} }

// words packs kernel parameters.
func words(v ...uint32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}
