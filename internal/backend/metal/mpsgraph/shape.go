// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Reshape keeps the elements and their order. It moves nothing unless what it
// reads is a transpose or a slice that the compiler kept as strides.
func (g *Graph) Reshape(x *Tensor, shape ...int) *Tensor {
	const op = "reshape"
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	if x.shape.Equal(shape) {
		return x
	}
	if !g.mayMake(op, in, shape, x.dtype) {
		return g.dead()
	}
	if s := tensor.Shape(shape); s.Numel() != x.shape.Numel() {
		return g.failf(op, in, "to %v: %d elements, want %d", s, s.Numel(), x.shape.Numel())
	}
	return g.done(op, in, reshape.Send(g.id, x.id, objc.Integers(shape), 0), shape, x.dtype)
}

// Transpose permutes: result dimension i is dimension perm[i] of x. Of MPSGraph's
// two forms this is the newer one (macOS 13), which needs one node for any
// order; the other swaps two axes.
func (g *Graph) Transpose(x *Tensor, perm ...int) *Tensor {
	const op = "transpose"
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	seen := make([]bool, len(x.shape))
	out := make(tensor.Shape, len(x.shape))
	if len(perm) != len(x.shape) {
		return g.failf(op, in, "permutation %v of %d dimensions", perm, len(x.shape))
	}
	for i, p := range perm {
		if p < 0 || p >= len(perm) || seen[p] {
			return g.failf(op, in, "%v is not a permutation", perm)
		}
		seen[p] = true
		out[i] = x.shape[p]
	}
	return g.done(op, in, transpose.Send(g.id, x.id, objc.Integers(perm), 0), out, x.dtype)
}

// Slice takes begin, begin+step, ... up to but without end, on every axis. The
// forms with masks are avoided: their last arguments are 32 bits wide and lie on
// the stack, where Apple's arm64 packs them and purego's variadic calls do not.
func (g *Graph) Slice(x *Tensor, begin, end, step []int) *Tensor {
	const op = "slice"
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	r := len(x.shape)
	if len(begin) != r || len(end) != r || len(step) != r {
		return g.failf(op, in, "begin %v, end %v, step %v of %d dimensions", begin, end, step, r)
	}
	out := make(tensor.Shape, r)
	for i, d := range x.shape {
		if step[i] < 1 || begin[i] < 0 || end[i] <= begin[i] || end[i] > d {
			return g.failf(op, in, "%d:%d:%d of %d", begin[i], end[i], step[i], d)
		}
		out[i] = (end[i] - begin[i] + step[i] - 1) / step[i]
	}
	id := slice.Send(g.id, x.id, objc.Integers(begin), objc.Integers(end), objc.Integers(step), 0)
	return g.done(op, in, id, out, x.dtype)
}

// Reverse turns the elements along the axes around. It moves them all: on an
// axis of 2 it is still less than two slices and a join.
func (g *Graph) Reverse(x *Tensor, axes ...int) *Tensor {
	const op = "reverse"
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	_, at, ok := reduced(x, axes)
	if !ok {
		return g.failf(op, in, "axes %v", axes)
	}
	return g.done(op, in, reverse.Send(g.id, x.id, objc.Integers(at), 0), x.shape, x.dtype)
}

// axisOf resolves a possibly negative axis, -1 when it is out of range. MPSGraph
// takes negative axes, some in arguments that its header calls unsigned; it gets
// none from here.
func axisOf(x *Tensor, axis int) int {
	if axis < 0 {
		axis += len(x.shape)
	}
	if axis < 0 || axis >= len(x.shape) {
		return -1
	}
	return axis
}

// Concat joins values along an axis. The types must be equal; MPSGraph asserts.
func (g *Graph) Concat(axis int, in ...*Tensor) *Tensor {
	const op = "concat"
	if !g.ready(op, in...) {
		return g.dead()
	}
	if len(in) == 0 {
		return g.failf(op, in, "no operand")
	}
	a := axisOf(in[0], axis)
	if a < 0 {
		return g.failf(op, in, "axis %d", axis)
	}
	out := in[0].shape.Clone()
	ids := []objc.ID{in[0].id}
	for _, x := range in[1:] {
		want := out.Clone()
		if len(x.shape) == len(want) {
			want[a] = x.shape[a]
		}
		if x.dtype != in[0].dtype || !x.shape.Equal(want) {
			return g.failf(op, in, "%v does not fit along axis %d", x, axis)
		}
		out[a] += x.shape[a]
		ids = append(ids, x.id)
	}
	if !g.mayMake(op, in, out, in[0].dtype) {
		return g.dead()
	}
	return g.done(op, in, concat.Send(g.id, objc.Array(ids), int64(a), 0), out, in[0].dtype)
}

// Split cuts an axis into pieces of the given sizes, which must add up to it:
// MPSGraph's other form wants equal pieces.
func (g *Graph) Split(x *Tensor, axis int, sizes ...int) []*Tensor {
	const op = "split"
	dead := make([]*Tensor, len(sizes))
	for i := range dead {
		dead[i] = g.dead()
	}
	if !g.ready(op, x) {
		return dead
	}
	in := []*Tensor{x}
	a, sum := axisOf(x, axis), 0
	for _, n := range sizes {
		if n < 1 {
			sum = -1
			break
		}
		sum += n
	}
	if a < 0 || sum != x.shape[a] {
		g.failf(op, in, "axis %d into %v", axis, sizes)
		return dead
	}
	ids := objc.GoArray(splitSizes.Send(g.id, x.id, objc.Integers(sizes), int64(a), 0))
	if len(ids) != len(sizes) {
		g.failf(op, in, "MPSGraph made %d pieces, want %d", len(ids), len(sizes))
		return dead
	}
	out := make([]*Tensor, len(sizes))
	for i, id := range ids {
		s := x.shape.Clone()
		s[a] = sizes[i]
		out[i] = g.done(op, in, id, s, x.dtype)
	}
	return out
}

// MPSGraphPaddingMode.
const padConstant = 0

// Pad surrounds x with value, which is a double whatever the type of x.
func (g *Graph) Pad(x *Tensor, before, after []int, value float64) *Tensor {
	const op = "pad"
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	if len(before) != len(x.shape) || len(after) != len(x.shape) {
		return g.failf(op, in, "before %v, after %v of %d dimensions", before, after, len(x.shape))
	}
	out := x.shape.Clone()
	for i := range out {
		// Sums of such numbers must not wrap; mayMake bounds the shape.
		if before[i] < 0 || after[i] < 0 || before[i] > math.MaxInt32 || after[i] > math.MaxInt32 {
			return g.failf(op, in, "before %v, after %v", before, after)
		}
		out[i] += before[i] + after[i]
	}
	if !g.mayMake(op, in, out, x.dtype) {
		return g.dead()
	}
	id := pad.Send(g.id, x.id, padConstant, objc.Integers(before), objc.Integers(after), value, 0)
	return g.done(op, in, id, out, x.dtype)
}

// Broadcast repeats dimensions of size 1 (and missing leading ones) to shape. Ops
// that broadcast by themselves should be left to it: arrays with a stride of 0
// are read wrongly by some releases of macOS 15 and 26 (PyTorch issue 180201).
func (g *Graph) Broadcast(x *Tensor, shape ...int) *Tensor {
	const op = "broadcast"
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	if s, ok := broadcastShape(x.shape, shape); !ok || !s.Equal(shape) {
		return g.failf(op, in, "to %v", tensor.Shape(shape))
	}
	if x.shape.Equal(shape) {
		return x
	}
	if !g.mayMake(op, in, shape, x.dtype) {
		return g.dead()
	}
	return g.done(op, in, broadcast.Send(g.id, x.id, objc.Integers(shape), 0), shape, x.dtype)
}

// Gather takes rows of x along axis by int32 indices of any shape:
// x.shape[:axis] + index.shape + x.shape[axis+1:]. gatherND is avoided: shipping
// projects report it wrong inside graphs.
func (g *Graph) Gather(x, index *Tensor, axis int) *Tensor {
	const op = "gather"
	if !g.ready(op, x, index) {
		return g.dead()
	}
	in := []*Tensor{x, index}
	a := axisOf(x, axis)
	if a < 0 || index.dtype != tensor.I32 {
		return g.failf(op, in, "axis %d, want int32 indices", axis)
	}
	out := append(tensor.Shape{}, x.shape[:a]...)
	out = append(append(out, index.shape...), x.shape[a+1:]...)
	if !g.mayMake(op, in, out, x.dtype) {
		return g.dead()
	}
	// The axis is unsigned in the header and signed in the runtime: never negative.
	return g.done(op, in, gather.Send(g.id, x.id, index.id, uint64(a), 0, 0), out, x.dtype)
}

// MPSGraphScatterMode.
const scatterAdd = 0

// ScatterAdd sums in an order that the GPU chooses: results may differ in the
// last bit from run to run. It is data with the rows of updates added along axis at int32 indices
// [n]; equal indices accumulate. updates has data's shape with n at axis.
func (g *Graph) ScatterAdd(data, updates, index *Tensor, axis int) *Tensor {
	const op = "scatter"
	if !g.ready(op, data, updates, index) {
		return g.dead()
	}
	in := []*Tensor{data, updates, index}
	a := axisOf(data, axis)
	if a < 0 || index.dtype != tensor.I32 || len(index.shape) != 1 || data.dtype != updates.dtype {
		return g.failf(op, in, "axis %d, want equal types and int32 indices [n]", axis)
	}
	want := data.shape.Clone()
	want[a] = index.shape[0]
	if !updates.shape.Equal(want) {
		return g.failf(op, in, "updates are %v, want %v", updates.shape, want)
	}
	id := scatter.Send(g.id, data.id, updates.id, index.id, int64(a), scatterAdd, 0)
	return g.done(op, in, id, data.shape, data.dtype)
}
