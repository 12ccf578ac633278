// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	dt "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// reduce folds the given axes, or all when there are none. Long folds are done in
// two stages on either device, parts first, so that one sum is work for many.
func (c *Context) reduce(fn graph.ReduceFn, x *Tensor, axes []int) (*Tensor, error) {
	return c.compute(keyOf("reduce_"+fn.String(), axes...), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		a := axes
		if len(a) == 0 {
			for i := range in[0].Shape {
				a = append(a, i)
			}
		}
		return g.Add(graph.Reduce{Fn: fn, Axes: a}, in[0])
	}, x)
}

// Sum, Mean, Max and Min fold the given axes, or all of them.
func (c *Context) Sum(x *Tensor, axes ...int) (*Tensor, error) {
	return c.reduce(graph.ReduceSum, x, axes)
}
func (c *Context) Mean(x *Tensor, axes ...int) (*Tensor, error) {
	return c.reduce(graph.ReduceMean, x, axes)
}
func (c *Context) Max(x *Tensor, axes ...int) (*Tensor, error) {
	return c.reduce(graph.ReduceMax, x, axes)
}
func (c *Context) Min(x *Tensor, axes ...int) (*Tensor, error) {
	return c.reduce(graph.ReduceMin, x, axes)
}

// ArgMax and ArgMin are int32 positions along axis, the lowest on ties.
func (c *Context) ArgMax(x *Tensor, axis int) (*Tensor, error) { return c.argReduce(x, axis, false) }
func (c *Context) ArgMin(x *Tensor, axis int) (*Tensor, error) { return c.argReduce(x, axis, true) }

func (c *Context) argReduce(x *Tensor, axis int, least bool) (*Tensor, error) {
	return c.compute(fmt.Sprintf("arg%d%v", axis, least), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.ArgReduce{Axis: axis, Min: least}, in[0])
	}, x)
}

// ArgMaxAll and ArgMinAll are positions in the flattened tensor.
func (c *Context) ArgMaxAll(x *Tensor) (*Tensor, error) { return c.argAll(x, false) }
func (c *Context) ArgMinAll(x *Tensor) (*Tensor, error) { return c.argAll(x, true) }

func (c *Context) argAll(x *Tensor, least bool) (*Tensor, error) {
	return c.compute(fmt.Sprintf("arg_all%v", least), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.ArgReduce{Axis: 0, Min: least}, g.Reshape(in[0], in[0].Numel()))
	}, x)
}

// CumSum are the sums along axis up to and with each element.
func (c *Context) CumSum(x *Tensor, axis int) (*Tensor, error) { return c.cumSum(x, axis, false) }

// CumSumBackward is the gradient of CumSum, for that of its result.
func (c *Context) CumSumBackward(gy *Tensor, axis int) (*Tensor, error) {
	return c.cumSum(gy, axis, true)
}

func (c *Context) cumSum(x *Tensor, axis int, reverse bool) (*Tensor, error) {
	return c.compute(fmt.Sprintf("cumsum%d%v", axis, reverse), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.CumSum{Axis: axis, Reverse: reverse}, in[0])
	}, x)
}

// TopK are the k largest elements of the last dimension, descending, and their
// int32 positions.
func (c *Context) TopK(x *Tensor, k int) (values, index *Tensor, err error) {
	out, err := c.computeAll(keyOf("topk", k), func(g *graph.Graph, in []*graph.Node) []*graph.Node {
		return []*graph.Node{g.Add(graph.TopK{K: k}, in[0]), g.Add(graph.TopK{K: k, Index: true}, in[0])}
	}, x)
	if err != nil {
		return nil, nil, err
	}
	return out[0], out[1], nil
}

// UpdateConfusionMatrix counts, for scores preds [N,K] and targets [N] (int32) or
// [N,K], the pairs (target, argmax of a row) into cm [K,K], in place: row is the
// truth, column the prediction. cm may be float32 or int32; float32 counts to
// 2^24, and Cast makes one of the other.
func (c *Context) UpdateConfusionMatrix(preds, targets, cm *Tensor) error {
	if err := given("confusion matrix", preds, targets, cm); err != nil {
		return err
	}
	if n := len(targets.shape); n != 1 && n != 2 || n == 2 && targets.dtype == dt.I32 {
		return refuse(ErrShape, "confusion matrix with targets %v%v, want i32[N] or scores [N,K]", targets.dtype, targets.shape)
	}
	if len(preds.shape) != 2 || len(cm.shape) != 2 || cm.shape[0] != preds.shape[1] || cm.shape[1] != preds.shape[1] {
		return refuse(ErrShape, "confusion matrix %v for scores %v, want [K,K] and [N,K]", cm.shape, preds.shape)
	}
	k := preds.shape[1]
	if len(targets.shape) == 1 {
		if err := checkIndices("confusion matrix", targets, k); err != nil {
			return err
		}
	}
	return cm.become(c.move("confusion", func(g *graph.Graph, in []*graph.Node) *graph.Node {
		hot := func(n *graph.Node) *graph.Node {
			if len(n.Shape) == 2 {
				n = g.Add(graph.ArgReduce{Axis: 1}, g.Cast(n, dt.F32))
			}
			return g.Add(graph.OneHot{Depth: k}, n)
		}
		truth, guess := hot(in[1]), hot(in[0])
		counts := g.Add(graph.MatMul{}, g.Transpose(truth, 1, 0), guess)
		return g.Cast(g.AddTo(g.Cast(in[2], dt.F32), counts), in[2].DType)
	}, preds, targets, cm))
}

var reduceOps = []row{
	{"sum(x; axes ints = [])", "Sums over the given axes, or all.", "broadcast", fold((*Context).Sum)},
	{"mean(x; axes ints = [])", "Means over the given axes, or all.", "broadcast", fold((*Context).Mean)},
	{"max(x; axes ints = [])", "Maxima over the given axes, or all.", "", fold((*Context).Max)},
	{"min(x; axes ints = [])", "Minima over the given axes, or all.", "", fold((*Context).Min)},
	{"argmax(x; axis int)", "Positions of the largest elements along an axis, the lowest on ties.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.ArgMax(in[0], a.int("axis")))
	}},
	{"argmin(x; axis int)", "Positions of the smallest elements along an axis, the lowest on ties.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.ArgMin(in[0], a.int("axis")))
	}},
	{"argmax_all(x)", "Position of the largest element of the flattened tensor.", "", map1((*Context).ArgMaxAll)},
	{"argmin_all(x)", "Position of the smallest element of the flattened tensor.", "", map1((*Context).ArgMinAll)},
	{"topk(x; k int) -> values, index", "The k largest of the last dimension, descending, equal ones in any order; also their positions.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) { return two(c.TopK(in[0], a.int("k"))) }},
	{"cumsum(x; axis int)", "Sums along an axis up to and with each element.", "cumsum_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.CumSum(in[0], a.int("axis")))
	}},
	{"cumsum_backward(gy; axis int)", "Gradient of cumsum: sums along an axis from each element on.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.CumSumBackward(in[0], a.int("axis")))
	}},
	{"update_confusion_matrix(preds, targets, cm!) -> ", "Count (target, argmax of preds) into cm [K,K].", "", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return nil, c.UpdateConfusionMatrix(in[0], in[1], in[2])
	}},
}
