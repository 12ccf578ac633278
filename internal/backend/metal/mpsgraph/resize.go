// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"encoding/binary"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// MPSGraphResizeMode and MPSGraphResizeNearestRoundingMode.
const (
	resizeBilinear = 1
	roundingFloor  = 3
)

// resizeShape checks x [B,h,w,C] against a size.
func resizeShape(x *Tensor, h, w int) (tensor.Shape, bool) {
	if len(x.shape) != 4 || h < 1 || w < 1 || !x.dtype.Float() {
		return nil, false
	}
	return tensor.Shape{x.shape[0], h, w, x.shape[3]}, true
}

// Bilinear resamples x [B,h,w,C] to H x W. With alignCorners output i reads
// coordinate i*(n-1)/(m-1); otherwise pixel centres are halves ("centerResult"),
// as in PyTorch's align_corners=False. centerResult has no effect beside
// alignCorners; PyTorch sets it always.
func (g *Graph) Bilinear(x *Tensor, h, w int, alignCorners bool) *Tensor {
	const op = "bilinear"
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	out, ok := resizeShape(x, h, w)
	if !ok {
		return g.failf(op, in, "to %dx%d", h, w)
	}
	if !g.mayMake(op, in, out, x.dtype) {
		return g.dead()
	}
	id := resize.Send(g.id, x.id, objc.Integers([]int{h, w}), resizeBilinear, true, alignCorners, layoutNHWC, 0)
	return g.done(op, in, id, out, x.dtype)
}

// Nearest resamples by floor(i*in/out), PyTorch's "nearest". The op with an
// explicit rounding mode is needed: the other one rounds half up.
func (g *Graph) Nearest(x *Tensor, h, w int) *Tensor {
	const op = "nearest"
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	out, ok := resizeShape(x, h, w)
	if !ok {
		return g.failf(op, in, "to %dx%d", h, w)
	}
	if !g.mayMake(op, in, out, x.dtype) {
		return g.dead()
	}
	// This form takes the size as a tensor, [H,W] for a layout of feature maps.
	size := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(h)), uint32(w))
	t := g.Constant(size, tensor.Shape{2}, tensor.I32)
	if g.err != nil {
		return g.dead()
	}
	id := resizeNearest.Send(g.id, x.id, t.id, roundingFloor, false, false, layoutNHWC, 0)
	return g.done(op, in, id, out, x.dtype)
}

// PixelShuffle turns [B,h,w,C*r*r] into [B,h*r,w*r,C]; the input channel of
// (c,i,j) is c*r*r + i*r + j. usePixelShuffleOrder keeps each r x r block
// contiguous in the channels, as PyTorch's nn.PixelShuffle does by the same op;
// the other order would put C innermost.
func (g *Graph) PixelShuffle(x *Tensor, r int) *Tensor {
	const op = "pixel shuffle"
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	if len(x.shape) != 4 || r < 1 || x.shape[3]%(r*r) != 0 {
		return g.failf(op, in, "block %d", r)
	}
	if r == 1 {
		return x
	}
	// The width axis runs fastest inside a block.
	const height, width, depth = 1, 2, 3
	out := tensor.Shape{x.shape[0], x.shape[1] * r, x.shape[2] * r, x.shape[3] / (r * r)}
	id := depthToSpace2D.Send(g.id, x.id, width, height, depth, uint64(r), true, 0)
	return g.done(op, in, id, out, x.dtype)
}
