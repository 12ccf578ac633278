// SPDX-License-Identifier: Apache-2.0

package ref

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// shapes evaluates the operations that only place elements.
func shapes(op graph.Op, in []Tensor, out Tensor) (bool, error) {
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
		return true, gather(o, x, in[1], out)
	case graph.ScatterAdd:
		return true, scatterAdd(o, in, out)
	case graph.OneHot:
		for i, v := range x.Data {
			if v >= 0 && int(v) < o.Depth {
				out.Data[i*o.Depth+int(v)] = 1
			}
		}
	default:
		return false, nil
	}
	return true, nil
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

func scatterAdd(o graph.ScatterAdd, in []Tensor, out Tensor) error {
	x, idx := in[0], in[1]
	inner := x.Shape[1:].Numel()
	for i, v := range idx.Data {
		j := int(v)
		if j < 0 || j >= o.Rows {
			return fmt.Errorf("scatter_add: index %d is %d, want 0..%d", i, j, o.Rows-1)
		}
		for k := range inner {
			out.Data[j*inner+k] += x.Data[i*inner+k]
		}
	}
	return nil
}
