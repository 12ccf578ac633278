// SPDX-License-Identifier: Apache-2.0

package graph

import "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"

// Reduce folds the given axes; they stay with size 1 when Keep is set.
type Reduce struct {
	Fn   ReduceFn
	Axes []int
	Keep bool
}

func (o Reduce) Kind() string { return "reduce_" + o.Fn.String() }

func (o Reduce) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if int(o.Fn) >= len(reduceNames) {
		return nil, 0, dtypeErr("unknown reduction %d", o.Fn)
	}
	x := in[0]
	gone := make([]bool, len(x.Shape))
	for _, a := range o.Axes {
		i, err := axisIn(a, len(x.Shape))
		if err != nil {
			return nil, 0, err
		}
		if gone[i] {
			return nil, 0, shapeErr("axis %d twice", a)
		}
		if x.Shape[i] == 0 {
			return nil, 0, shapeErr("axis %d of %v is empty", a, x)
		}
		gone[i] = true
	}
	out := tensor.Shape{}
	for i, d := range x.Shape {
		switch {
		case !gone[i]:
			out = append(out, d)
		case o.Keep:
			out = append(out, 1)
		}
	}
	return out, x.DType, isFloat(x, "x")
}

// ReduceFn names a reduction.
type ReduceFn uint8

// The reductions.
const (
	ReduceSum ReduceFn = iota
	ReduceMean
	ReduceMax
	ReduceMin
)

func (f ReduceFn) String() string {
	return enumName(reduceNames[:], f)
}

// ArgReduce is the index (I32) of the largest, or with Min smallest, element
// along Axis, the lowest index on ties, the first NaN where there is one; the axis
// goes away.
type ArgReduce struct {
	Axis int
	Min  bool
}

func (o ArgReduce) Kind() string {
	if o.Min {
		return "argmin"
	}
	return "argmax"
}

func (o ArgReduce) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	a, err := axisIn(o.Axis, len(in[0].Shape))
	if err != nil {
		return nil, 0, err
	}
	if in[0].Shape[a] == 0 {
		return nil, 0, shapeErr("axis %d of %v is empty", o.Axis, in[0])
	}
	out := append(in[0].Shape[:a:a], in[0].Shape[a+1:]...)
	return out, tensor.I32, isFloat(in[0], "x")
}

// TopK are the K largest elements along the last axis, descending, equal ones in
// any order; with Index their indices (I32) in place of the values.
type TopK struct {
	K     int
	Index bool
}

func (TopK) Kind() string { return "topk" }

func (o TopK) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	r := len(x.Shape)
	if r == 0 || o.K < 1 || o.K > x.Shape[r-1] {
		return nil, 0, shapeErr("k = %d of the last dimension of %v", o.K, x)
	}
	out := x.Shape.Clone()
	out[r-1] = o.K
	if o.Index {
		return out, tensor.I32, isFloat(x, "x")
	}
	return out, x.DType, isFloat(x, "x")
}

// CumSum sums along Axis up to and with each element; with Reverse from the end,
// which is the gradient.
type CumSum struct {
	Axis    int
	Reverse bool
}

func (CumSum) Kind() string { return "cumsum" }

func (o CumSum) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if _, err := axisIn(o.Axis, len(in[0].Shape)); err != nil {
		return nil, 0, err
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}

// Compose adds what lies 1, 2, 4, ... before each element: as many additions as the
// logarithm of the axis, each of them in parallel.
func (o CumSum) Compose(g *Graph, in []*Node) *Node {
	x := g.Cast(in[0], tensor.F32)
	axis, n := o.Axis, len(x.Shape)
	if axis < 0 {
		axis += n
	}
	for by := 1; by < x.Shape[axis]; by *= 2 {
		before, after := make([]int, n), make([]int, n)
		var part *Node
		if o.Reverse {
			after[axis] = by
			part = g.SliceAxis(x, axis, by, x.Shape[axis])
		} else {
			before[axis] = by
			part = g.SliceAxis(x, axis, 0, x.Shape[axis]-by)
		}
		x = g.Binary(Add, x, g.Add(Pad{Before: before, After: after}, part))
	}
	return g.Cast(x, in[0].DType)
}

var reduceNames = [...]string{ReduceSum: "sum", ReduceMean: "mean", ReduceMax: "max", ReduceMin: "min"}

func reduceOps() []Operation {
	docs := [...]string{ReduceSum: "Sums over axes.", ReduceMean: "Means over axes.", ReduceMax: "Maxima over axes.", ReduceMin: "Minima over axes."}
	var rows []Operation
	for i, doc := range docs {
		o := Reduce{Fn: ReduceFn(i), Axes: []int{0, 2}}
		rows = append(rows, Operation{o.Kind(), "x", "float", doc, func(g *Graph) *Node { return g.Add(o, floats(g, 2, 3, 4)) }, nil})
	}
	return append(rows,
		Operation{"argmax", "x", "float", "Positions of the largest elements along an axis, the lowest on ties.", func(g *Graph) *Node {
			return g.Add(ArgReduce{Axis: 1}, floats(g, 2, 5))
		}, nil},
		Operation{"argmin", "x", "float", "Positions of the smallest elements along an axis, the lowest on ties.", func(g *Graph) *Node {
			return g.Add(ArgReduce{Axis: 1, Min: true}, floats(g, 2, 5))
		}, nil},
		Operation{"topk", "x", "float", "The k largest of the last dimension, descending, equal ones in any order, or their positions.", func(g *Graph) *Node {
			return g.Add(TopK{K: 2}, floats(g, 3, 6))
		}, nil},
		Operation{"cumsum", "x", "float", "Running sums along an axis, from its start or from its end.", func(g *Graph) *Node {
			return g.Add(CumSum{Axis: -1, Reverse: true}, g.Add(CumSum{Axis: 1}, floats(g, 2, 7, 3)))
		}, nil})
}
