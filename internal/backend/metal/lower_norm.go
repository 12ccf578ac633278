// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// normalized is a normalisation's result: it feeds products, so in half
// precision it is rounded at once, unless it is a result of the graph.
func (l *lowering) normalized(n *graph.Node, y *mpsgraph.Tensor) *mpsgraph.Tensor {
	if l.isOut[n.ID] {
		return y
	}
	return l.cast(y, l.product())
}

// layerNorm has its statistics in float32: squares of outliers above 256
// overflow half precision. Mean, variance and normalisation are three kernels
// that read the stream three times; MPSGraph has no layer norm of its own, and
// the mean of squares less the square of the mean, which needs one pass, cancels.
func (l *lowering) layerNorm(n *graph.Node, o graph.LayerNorm) *mpsgraph.Tensor {
	g := l.out
	x := l.in(n, 0, tensor.F32)
	m, ok := l.moments[x]
	if !ok {
		mean := g.Mean(x, -1)
		m = [2]*mpsgraph.Tensor{mean, g.Variance(x, mean, -1)}
		l.moments[x] = m
	}
	y := g.Normalize(x, m[0], m[1], l.in(n, 1, tensor.F32), l.in(n, 2, tensor.F32), o.Eps)
	return l.normalized(n, y)
}

// rmsNorm is x/sqrt(mean(x^2)+eps)*gamma, by the reciprocal root that macOS 15 has:
// one operation less, and no division of a whole row.
func (l *lowering) rmsNorm(n *graph.Node, o graph.RMSNorm) *mpsgraph.Tensor {
	g := l.out
	x := l.in(n, 0, tensor.F32)
	r := g.Rsqrt(l.shift(g.Mean(g.Square(x), -1), float64(o.Eps)))
	return l.normalized(n, g.Mul(g.Mul(x, r), l.in(n, 1, tensor.F32)))
}

// norm is the length of the vectors of the last dimension, kept with size 1. No
// epsilon: the reference has none either, and 0/0 is NaN there too.
func (l *lowering) norm(x *mpsgraph.Tensor) *mpsgraph.Tensor {
	return l.out.Sqrt(l.out.Sum(l.out.Square(x), -1))
}

func (l *lowering) l2Normalize(n *graph.Node) *mpsgraph.Tensor {
	x := l.in(n, 0, tensor.F32)
	return l.out.Div(x, l.norm(x))
}

// expPoints is p/max(d,1e-8)*expm1(d), d = |p| (network.md 8). exp(d)-1 would lose
// near points: at d = 1e-3 float32 has four digits left.
func (l *lowering) expPoints(n *graph.Node) *mpsgraph.Tensor {
	g := l.out
	p := l.in(n, 0, tensor.F32)
	d := l.norm(p)
	return g.Mul(g.Div(p, g.Maximum(d, g.Scalar(1e-8, tensor.F32))), l.expm1(d))
}

// reductions lowers the operations along axes.
func (l *lowering) reductions(n *graph.Node) (*mpsgraph.Tensor, bool) {
	switch o := n.Op.(type) {
	case graph.Reduce:
		return l.reduce(n, o), true
	case graph.ArgReduce:
		return l.argReduce(n, o), true
	case graph.TopK:
		return l.topK(n, o), true
	}
	return nil, false
}

// reduce folds axes in float32; MPSGraph's maxima here are those that keep NaN.
func (l *lowering) reduce(n *graph.Node, o graph.Reduce) *mpsgraph.Tensor {
	g := l.out
	x := l.in(n, 0, tensor.F32)
	if len(o.Axes) == 0 {
		return x
	}
	f := map[graph.ReduceFn]func(*mpsgraph.Tensor, ...int) *mpsgraph.Tensor{
		graph.ReduceSum: g.Sum, graph.ReduceMean: g.Mean, graph.ReduceMax: g.Max, graph.ReduceMin: g.Min,
	}[o.Fn]
	if f == nil {
		return g.Fail("reduce", fmt.Errorf("%w: reduction %v", ErrUnsupported, o.Fn))
	}
	return f(x, o.Axes...) // node reshapes when the axes go away
}

// argReduce finds the extreme, then the lowest index that has it: Apple does not
// say which of equal elements its own op returns, and it passes over NaN. The
// first NaN of a row is its extreme, as in NumPy and PyTorch. Indices are exact
// in float32 below 2^24.
func (l *lowering) argReduce(n *graph.Node, o graph.ArgReduce) *mpsgraph.Tensor {
	g := l.out
	x := l.in(n, 0, tensor.F32)
	axis := o.Axis
	if axis < 0 {
		axis += len(n.In[0].Shape)
	}
	size := n.In[0].Shape[axis]
	if size >= 1<<24 {
		return g.Fail("argreduce", fmt.Errorf("%w: %d elements along axis %d", ErrUnsupported, size, o.Axis))
	}
	best := g.Max
	if o.Min {
		best = g.Min
	}
	iota := make([]byte, 0, 4*size)
	for i := range size {
		iota = binary.LittleEndian.AppendUint32(iota, math.Float32bits(float32(i)))
	}
	shape := make(tensor.Shape, len(n.In[0].Shape))
	for i := range shape {
		shape[i] = 1
	}
	shape[axis] = size
	index, none := g.Constant(iota, shape, tensor.F32), g.Scalar(float64(size), tensor.F32)
	at := g.Select(g.Equal(x, best(x, axis)), index, none)
	at = g.Select(g.Equal(x, x), at, index) // NaN, and nothing else, differs from itself
	return g.Cast(g.Min(at, axis), tensor.I32)
}

// topK is along the last axis. Equal elements come in any order.
func (l *lowering) topK(n *graph.Node, o graph.TopK) *mpsgraph.Tensor {
	x := l.in(n, 0, tensor.F32)
	if s := x.Shape(); len(s) > 4 { // MPSGraph sorts four dimensions at most
		x = l.out.Reshape(x, s.Numel()/s[len(s)-1], s[len(s)-1])
	}
	values, index := l.out.TopK(x, -1, o.K)
	if o.Index {
		return index
	}
	return values
}
