// SPDX-License-Identifier: Apache-2.0

package ref

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// move evaluates the operations that only place elements.
func move(op graph.Op, in []Tensor, out Tensor) error {
	x := in[0]
	st := x.Shape.Strides()
	switch o := op.(type) {
	case graph.Transpose:
		index(out.Shape, func(flat int, at []int) {
			src := 0
			for i, p := range o.Perm {
				src += at[i] * st[p]
			}
			out.Data[flat] = x.Data[src]
		})
	case graph.Slice:
		index(out.Shape, func(flat int, at []int) {
			src := 0
			for i := range at {
				src += (o.Begin[i] + at[i]*o.Step[i]) * st[i]
			}
			out.Data[flat] = x.Data[src]
		})
	case graph.Concat:
		concat(o.Axis, in, out)
	case graph.Pad:
		for i := range out.Data {
			out.Data[i] = float64(o.Value)
		}
		dst := out.Shape.Strides()
		index(x.Shape, func(flat int, at []int) {
			to := 0
			for i := range at {
				to += (at[i] + o.Before[i]) * dst[i]
			}
			out.Data[to] = x.Data[flat]
		})
	case graph.Broadcast:
		index(out.Shape, func(flat int, at []int) {
			out.Data[flat] = x.Data[broadcastIndex(x.Shape, at)]
		})
	case graph.Gather:
		return gather(o, x, in[1], out)
	}
	return nil
}

func resolve(axis, rank int) int {
	if axis < 0 {
		return axis + rank
	}
	return axis
}

func concat(axis int, in []Tensor, out Tensor) {
	axis = resolve(axis, len(out.Shape))
	dst := out.Shape.Strides()
	offset := 0
	for _, x := range in {
		index(x.Shape, func(flat int, at []int) {
			to := offset * dst[axis]
			for i := range at {
				to += at[i] * dst[i]
			}
			out.Data[to] = x.Data[flat]
		})
		offset += x.Shape[axis]
	}
}

func gather(o graph.Gather, x, idx, out Tensor) error {
	axis := resolve(o.Axis, len(x.Shape))
	inner := 1
	for _, d := range x.Shape[axis+1:] {
		inner *= d
	}
	n := x.Shape[axis]
	outer := 1
	for _, d := range x.Shape[:axis] {
		outer *= d
	}
	for a := range outer {
		for i, v := range idx.Data {
			j := int(v)
			if j < 0 || j >= n {
				return fmt.Errorf("gather: index %d is %d, want 0..%d", i, j, n-1)
			}
			copy(out.Data[(a*len(idx.Data)+i)*inner:][:inner], x.Data[(a*n+j)*inner:][:inner])
		}
	}
	return nil
}

func pixelShuffle(r int, x, out Tensor) {
	h, w, c := x.Shape[1], x.Shape[2], x.Shape[3]
	index(out.Shape, func(flat int, at []int) {
		y, i := at[1]/r, at[1]%r
		xx, j := at[2]/r, at[2]%r
		ch := at[3]*r*r + i*r + j
		out.Data[flat] = x.Data[((at[0]*h+y)*w+xx)*c+ch]
	})
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

func topK(o graph.TopK, x, out Tensor) {
	n := x.Shape[len(x.Shape)-1]
	order := make([]int, n)
	for row := range len(out.Data) / o.K {
		v := x.Data[row*n:][:n]
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(v[b], v[a]) })
		for i, j := range order[:o.K] {
			if o.Index {
				out.Data[row*o.K+i] = float64(j)
			} else {
				out.Data[row*o.K+i] = v[j]
			}
		}
	}
}
