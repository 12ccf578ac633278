// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// reduced is the shape after a reduction, axes kept with size 1, and the axes
// resolved; ok is false for a wrong axis.
func reduced(x *Tensor, axes []int) (out tensor.Shape, resolved []int, ok bool) {
	out = x.shape.Clone()
	for _, axis := range axes {
		a := axisOf(x, axis)
		if a < 0 || slices.Contains(resolved, a) {
			return nil, nil, false
		}
		out[a] = 1
		resolved = append(resolved, a)
	}
	return out, resolved, len(axes) > 0
}

// reduce folds axes; they stay with size 1.
func (g *Graph) reduce(op string, m *objc.Method[func(o, x, axes, name objc.ID) objc.ID], x *Tensor, axes []int) *Tensor {
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	out, at, ok := reduced(x, axes)
	if !ok {
		return g.failf(op, in, "axes %v", axes)
	}
	return g.done(op, in, m.Send(g.id, x.id, objc.Integers(at), 0), out, x.dtype)
}

// Sum adds up along the axes.
func (g *Graph) Sum(x *Tensor, axes ...int) *Tensor { return g.reduce("sum", reduceSum, x, axes) }

// Max is the largest element along the axes; NaN when one is.
func (g *Graph) Max(x *Tensor, axes ...int) *Tensor { return g.reduce("max", reduceMaxNaN, x, axes) }

// Min is the smallest element along the axes; NaN when one is.
func (g *Graph) Min(x *Tensor, axes ...int) *Tensor { return g.reduce("min", reduceMinNaN, x, axes) }

// Mean averages along the axes. In half precision the sum may overflow and loses
// what is below 2^-11 of it: the lowering hands it float32.
func (g *Graph) Mean(x *Tensor, axes ...int) *Tensor { return g.reduce("mean", meanOf, x, axes) }

// Variance is the biased variance about a given mean, PyTorch's for LayerNorm.
// The mean is given so that the two passes do not make it twice.
func (g *Graph) Variance(x, mean *Tensor, axes ...int) *Tensor {
	const op = "variance"
	if !g.ready(op, x, mean) {
		return g.dead()
	}
	in := []*Tensor{x, mean}
	out, at, ok := reduced(x, axes)
	if !ok || !mean.shape.Equal(out) || mean.dtype != x.dtype {
		return g.failf(op, in, "axes %v, want a mean %v%v", axes, x.dtype, out)
	}
	return g.done(op, in, varianceOf.Send(g.id, x.id, mean.id, objc.Integers(at), 0), out, x.dtype)
}

// Normalize is (x-mean)/sqrt(variance+eps)*gamma + beta; all but x broadcast. The
// axes are those over which mean and variance were taken. eps is a float, not a
// double as other constants are: the wrong width would be another number.
func (g *Graph) Normalize(x, mean, variance, gamma, beta *Tensor, eps float32) *Tensor {
	const op = "normalize"
	in := []*Tensor{x, mean, variance, gamma, beta}
	if !g.ready(op, in...) {
		return g.dead()
	}
	for _, t := range in[1:] {
		if s, ok := broadcastShape(t.shape, x.shape); !ok || !s.Equal(x.shape) || t.dtype != x.dtype {
			return g.failf(op, in, "%v does not broadcast to %v", t, x)
		}
	}
	id := normalize.Send(g.id, x.id, mean.id, variance.id, gamma.id, beta.id, eps, 0)
	return g.done(op, in, id, x.shape, x.dtype)
}

// Softmax is exp(x-max)/sum along an axis. For half precision Apple's sums are
// said not to be float32 (PyTorch PR 190791: 2.4 % at 14 thousand tokens).
func (g *Graph) Softmax(x *Tensor, axis int) *Tensor {
	const op = "softmax"
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	a := axisOf(x, axis)
	if a < 0 || !x.dtype.Float() {
		return g.failf(op, in, "axis %d", axis)
	}
	return g.done(op, in, softMax.Send(g.id, x.id, int64(a), 0), x.shape, x.dtype)
}

// argReduce is the int32 index of an extreme element; the axis stays with size
// 1. Which of equal elements wins is Apple's choice.
func (g *Graph) argReduce(op string, m *objc.Method[func(o, x objc.ID, axis int64, name objc.ID) objc.ID], x *Tensor, axis int) *Tensor {
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	a := axisOf(x, axis)
	if a < 0 {
		return g.failf(op, in, "axis %d", axis)
	}
	out := x.shape.Clone()
	out[a] = 1
	return g.done(op, in, m.Send(g.id, x.id, int64(a), 0), out, tensor.I32)
}

// ArgMax is the index of a largest element along an axis.
func (g *Graph) ArgMax(x *Tensor, axis int) *Tensor { return g.argReduce("argmax", argMax, x, axis) }

// ArgMin is the index of a smallest element along an axis.
func (g *Graph) ArgMin(x *Tensor, axis int) *Tensor { return g.argReduce("argmin", argMin, x, axis) }

// TopK are the k largest elements along an axis, descending, and their indices,
// int32 by what the runtime says and not by any header.
func (g *Graph) TopK(x *Tensor, axis, k int) (values, indices *Tensor) {
	const op = "topk"
	if !g.ready(op, x) {
		return g.dead(), g.dead()
	}
	in := []*Tensor{x}
	a := axisOf(x, axis)
	if a < 0 || k < 1 || k > x.shape[a] {
		return g.failf(op, in, "k = %d along axis %d", k, axis), g.dead()
	}
	ids := objc.GoArray(topK.Send(g.id, x.id, int64(a), uint64(k), 0))
	if len(ids) != 2 {
		return g.failf(op, in, "MPSGraph made %d results, want 2", len(ids)), g.dead()
	}
	out := x.shape.Clone()
	out[a] = k
	return g.done(op, in, ids[0], out, x.dtype), g.done(op, in, ids[1], out, tensor.I32)
}
