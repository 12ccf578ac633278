// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// alongLast broadcasts x, which lacks the last dimension, over it.
func (l *lowering) alongLast(x value, s tensor.Shape) value {
	dims := make([]int, len(s)-1)
	for i := range dims {
		dims[i] = i
	}
	return l.broadcast(x, s, dims...)
}

// meanLast is the mean of the last dimension, which goes away.
func (l *lowering) meanLast(x value) value {
	m := l.reduce("add", 0, x, len(x.shape)-1)
	return l.binary("multiply", m, l.like(1/float64(x.shape[len(x.shape)-1]), m))
}

// vectors are the operations on the last dimension, in float32.
func (l *lowering) vectors(n *graph.Node) (value, error) {
	x := l.f32(n, 0)
	var y value
	switch o := n.Op.(type) {
	case graph.LayerNorm:
		c := l.binary("subtract", x, l.alongLast(l.meanLast(x), x.shape))
		v := l.meanLast(l.binary("multiply", c, c))
		r := l.unary("rsqrt", l.binary("add", v, l.like(float64(o.Eps), v)))
		y = l.binary("multiply", c, l.alongLast(r, x.shape))
		y = l.binary("multiply", y, l.last(l.f32(n, 1), x.shape))
		y = l.binary("add", y, l.last(l.f32(n, 2), x.shape))
	case graph.RMSNorm:
		m := l.meanLast(l.binary("multiply", x, x))
		r := l.unary("rsqrt", l.binary("add", m, l.like(float64(o.Eps), m)))
		y = l.binary("multiply", l.binary("multiply", x, l.alongLast(r, x.shape)), l.last(l.f32(n, 1), x.shape))
	case graph.Softmax:
		axis := o.Axis
		if axis < 0 {
			axis += len(x.shape)
		}
		y = l.softmax(x, axis)
	case graph.L2Normalize:
		y = l.binary("divide", x, l.alongLast(l.norm(x), x.shape))
	case graph.ExpPoints:
		d := l.norm(x)
		unit := l.binary("divide", x, l.alongLast(l.binary("maximum", d, l.like(1e-8, d)), x.shape))
		y = l.binary("multiply", unit, l.alongLast(l.unary("exponential_minus_one", d), x.shape))
	default:
		return value{}, fmt.Errorf("%w: %T", ErrUnsupported, n.Op)
	}
	return l.convert(y, l.result(n)), nil
}

// norm is the length of the vectors of the last dimension.
func (l *lowering) norm(x value) value {
	return l.unary("sqrt", l.reduce("add", 0, l.binary("multiply", x, x), len(x.shape)-1))
}

func (l *lowering) reductions(n *graph.Node) (value, error) {
	x := l.f32(n, 0)
	switch o := n.Op.(type) {
	case graph.Reduce:
		axes := make([]int, len(o.Axes))
		count := 1
		for i, a := range o.Axes {
			if a < 0 {
				a += len(x.shape)
			}
			axes[i] = a
			count *= x.shape[a]
		}
		y := x
		if len(axes) > 0 {
			switch o.Fn {
			case graph.ReduceSum, graph.ReduceMean:
				y = l.reduce("add", 0, x, axes...)
			case graph.ReduceMax:
				y = l.reduce("maximum", math.Inf(-1), x, axes...)
			case graph.ReduceMin:
				y = l.reduce("minimum", math.Inf(1), x, axes...)
			default:
				return value{}, fmt.Errorf("%w: reduction %v", ErrUnsupported, o.Fn)
			}
		}
		if o.Fn == graph.ReduceMean {
			y = l.binary("divide", y, l.like(float64(count), y))
		}
		return l.convert(l.reshape(y, n.Shape), l.result(n)), nil
	case graph.ArgReduce:
		return l.argReduce(x, o), nil
	case graph.TopK:
		values, index := l.topK(x, o.K)
		if o.Index {
			return index, nil
		}
		return l.convert(values, l.result(n)), nil
	}
	return value{}, fmt.Errorf("%w: %T", ErrUnsupported, n.Op)
}

// argReduce finds the extreme, then the lowest index that has it. A NaN is the
// extreme of its row; XLA's minimum on a CPU loses it, so that it is looked for
// by itself.
func (l *lowering) argReduce(x value, o graph.ArgReduce) value {
	axis := o.Axis
	if axis < 0 {
		axis += len(x.shape)
	}
	var rest []int
	for i := range x.shape {
		if i != axis {
			rest = append(rest, i)
		}
	}
	best := l.reduce("maximum", math.Inf(-1), x, axis)
	if o.Min {
		best = l.reduce("minimum", math.Inf(1), x, axis)
	}
	nan := l.compare("NE", x, x)
	some := l.broadcast(l.reduce("or", 0, nan, axis), x.shape, rest...)
	hit := l.choose(some, nan, l.compare("EQ", x, l.broadcast(best, x.shape, rest...)))
	at := l.iota(tensor.I32, x.shape, axis)
	at = l.choose(hit, at, l.like(float64(x.shape[axis]), at))
	return l.reduce("minimum", math.MaxInt32, at, axis)
}

// topK sorts the last axis, stably, and cuts.
func (l *lowering) topK(x value, k int) (values, index value) {
	axis := len(x.shape) - 1
	i := l.iota(tensor.I32, x.shape, axis)
	name := fmt.Sprintf("%%%d", l.fresh)
	l.fresh++
	e := typeOf(x.dtype, nil)
	fmt.Fprintf(&l.body, "    %s:2 = \"stablehlo.sort\"(%s, %s) <{dimension = %d : i64, is_stable = true}> ({\n", name, x.name, i.name, axis)
	fmt.Fprintf(&l.body, "    ^bb0(%%a: %s, %%b: %s, %%c: tensor<i32>, %%d: tensor<i32>):\n", e, e)
	fmt.Fprintf(&l.body, "      %%p = stablehlo.compare GT, %%a, %%b, FLOAT : (%s, %s) -> tensor<i1>\n", e, e)
	fmt.Fprintf(&l.body, "      stablehlo.return %%p : tensor<i1>\n    }) : (%s, %s) -> (%s, %s)\n", x.typ(), i.typ(), x.typ(), i.typ())
	values, index = x, i
	values.name, index.name = name+"#0", name+"#1"
	return l.cut(values, axis, 0, k), l.cut(index, axis, 0, k)
}
