// SPDX-License-Identifier: Apache-2.0

package ref

import (
	"cmp"
	"math"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

func reductions(op graph.Op, in []Tensor, out Tensor) (bool, error) {
	switch o := op.(type) {
	case graph.Reduce:
		reduce(o, in[0], out)
	case graph.ArgReduce:
		argReduce(o, in[0], out)
	case graph.TopK:
		topK(o, in[0], out)
	case graph.CumSum:
		cumSum(o, in[0], out)
	default:
		return false, nil
	}
	return true, nil
}

func reduce(o graph.Reduce, x, out Tensor) {
	gone := make([]bool, len(x.Shape))
	count := 1
	for _, a := range o.Axes {
		i := resolve(a, len(x.Shape))
		gone[i] = true
		count *= x.Shape[i]
	}
	init := map[graph.ReduceFn]float64{graph.ReduceMax: math.Inf(-1), graph.ReduceMin: math.Inf(1)}[o.Fn]
	for i := range out.Data {
		out.Data[i] = init
	}
	index(x.Shape, func(flat int, at []int) {
		to := 0
		for i, d := range x.Shape {
			if !gone[i] {
				to = to*d + at[i]
			}
		}
		switch v := x.Data[flat]; o.Fn {
		case graph.ReduceMax:
			out.Data[to] = math.Max(out.Data[to], v)
		case graph.ReduceMin:
			out.Data[to] = math.Min(out.Data[to], v)
		case graph.ReduceMean:
			out.Data[to] += v / float64(count)
		default:
			out.Data[to] += v
		}
	})
}

func argReduce(o graph.ArgReduce, x, out Tensor) {
	axis := resolve(o.Axis, len(x.Shape))
	inner := 1
	for _, d := range x.Shape[axis+1:] {
		inner *= d
	}
	n := x.Shape[axis]
	for i := range out.Data {
		base := i/inner*n*inner + i%inner
		best := 0
		for j := 1; j < n; j++ {
			v, b := x.Data[base+j*inner], x.Data[base+best*inner]
			if !o.Min && v > b || o.Min && v < b || v != v && b == b {
				best = j
			}
		}
		out.Data[i] = float64(best)
	}
}

// descending is the order of TopK: NaN first, then from the largest down.
func descending(a, b float64) int {
	switch {
	case a != a || b != b:
		return cmp.Compare(b2i(b != b), b2i(a != a))
	case a == b: // 0 and -0 too
		return 0
	}
	return cmp.Compare(b, a)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func topK(o graph.TopK, x, out Tensor) {
	n := x.Shape[len(x.Shape)-1]
	order := make([]int, n)
	for row := range len(out.Data) / o.K {
		v := x.Data[row*n:][:n]
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return descending(v[a], v[b]) })
		for i, j := range order[:o.K] {
			if o.Index {
				out.Data[row*o.K+i] = float64(j)
			} else {
				out.Data[row*o.K+i] = v[j]
			}
		}
	}
}

func cumSum(o graph.CumSum, x, out Tensor) {
	axis := resolve(o.Axis, len(x.Shape))
	inner, n := x.Shape[axis+1:].Numel(), x.Shape[axis]
	for line := range x.Shape[:axis].Numel() * inner {
		base, sum := line/inner*n*inner+line%inner, 0.0
		for j := range n {
			if o.Reverse {
				j = n - 1 - j
			}
			sum += x.Data[base+j*inner]
			out.Data[base+j*inner] = sum
		}
	}
}
