// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"fmt"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// shapes are the operations that only place elements.
func (l *lowering) shapes(n *graph.Node) (value, error) {
	switch o := n.Op.(type) {
	case graph.Reshape:
		return l.reshape(l.in(n, 0), n.Shape), nil
	case graph.Transpose:
		return l.transpose(l.in(n, 0), o.Perm...), nil
	case graph.Slice:
		return l.slice(l.in(n, 0), o.Begin, o.End, o.Step), nil
	case graph.Concat:
		return l.concatOp(n, o), nil
	case graph.Pad:
		x := l.in(n, 0)
		return l.pad(x, float64(o.Value), o.Before, o.After, make([]int, len(o.Before))), nil
	case graph.Broadcast:
		return l.fit(l.in(n, 0), n.Shape), nil
	case graph.Gather:
		return l.gather(n, o), nil
	}
	return value{}, fmt.Errorf("%w: %s (%T)", ErrUnsupported, n.Op.Kind(), n.Op)
}

// concatOp joins in the type of the result, whatever its operands are carried in.
func (l *lowering) concatOp(n *graph.Node, o graph.Concat) value {
	axis := o.Axis
	if axis < 0 {
		axis += len(n.Shape)
	}
	in := make([]value, len(n.In))
	for i := range in {
		in[i] = l.as(n, i, l.result(n))
	}
	return l.concat(axis, in...)
}

func (l *lowering) gather(n *graph.Node, o graph.Gather) value {
	x, idx := l.in(n, 0), l.in(n, 1)
	axis := o.Axis
	if axis < 0 {
		axis += len(x.shape)
	}
	var offset []int
	sizes := make([]string, len(x.shape))
	for i, d := range x.shape {
		sizes[i] = fmt.Sprint(d)
		switch {
		case i < axis:
			offset = append(offset, i)
		case i > axis:
			offset = append(offset, i-1+len(idx.shape))
		}
	}
	sizes[axis] = "1"
	out := value{shape: n.Shape, dtype: x.dtype}
	return l.emit(out, signature(out, x, idx), "\"stablehlo.gather\"(%s, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = %s, "+
		"collapsed_slice_dims = [%d], start_index_map = [%d], index_vector_dim = %d>, slice_sizes = array<i64: %s>}>",
		x.name, idx.name, ints(offset), axis, axis, len(idx.shape), strings.Join(sizes, ", "))
}

// train are the operations of graph/ops_train.go.
func (l *lowering) train(n *graph.Node) (value, error) {
	switch o := n.Op.(type) {
	case graph.ScatterAdd:
		return l.scatterAdd(n), nil
	case graph.OneHot:
		idx := l.in(n, 0)
		at := l.iota(idx.dtype, n.Shape, len(n.Shape)-1)
		return l.convert(l.compare("EQ", at, l.alongLast(idx, n.Shape)), tensor.F32), nil
	case graph.PoolIndex:
		return l.poolIndex(l.f32(n, 0), o.Kernel, o.Stride, n.Shape), nil
	case graph.PoolGrad:
		return l.poolGrad(n, o), nil
	case graph.ConvGradInput:
		return l.convGradInput(n, o), nil
	case graph.ConvGradWeight:
		return l.convGradWeight(n, o), nil
	}
	return value{}, fmt.Errorf("%w: %T", ErrUnsupported, n.Op)
}

func (l *lowering) scatterAdd(n *graph.Node) value {
	x, idx := l.f32(n, 0), l.in(n, 1)
	zeros := l.splat(0, x.dtype, n.Shape)
	var windows []int
	for i := 1; i < len(n.Shape); i++ {
		windows = append(windows, i)
	}
	e := typeOf(x.dtype, nil)
	out := value{shape: n.Shape, dtype: x.dtype}
	return l.convert(l.emit(out, signature(out, zeros, idx, x), "\"stablehlo.scatter\"(%s, %s, %s) <{scatter_dimension_numbers = "+
		"#stablehlo.scatter<update_window_dims = %s, inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, "+
		"indices_are_sorted = false, unique_indices = false}> ({\n    ^bb0(%%a: %s, %%b: %s):\n      %%s = stablehlo.add %%a, %%b : %s\n"+
		"      stablehlo.return %%s : %s\n    })", zeros.name, idx.name, x.name, ints(windows), e, e, e, e), l.result(n))
}

// poolIndex is where each window has its maximum, the first on ties.
func (l *lowering) poolIndex(x value, kernel, stride [2]int, out tensor.Shape) value {
	row, col := l.iota(tensor.I32, out, 1), l.iota(tensor.I32, out, 2)
	position := func(i, j int) value { // (row*stride + i)*W + col*stride + j
		y := l.binary("add", l.binary("multiply", row, l.like(float64(stride[0]), row)), l.like(float64(i), row))
		y = l.binary("multiply", y, l.like(float64(x.shape[2]), row))
		return l.binary("add", y, l.binary("add", l.binary("multiply", col, l.like(float64(stride[1]), row)), l.like(float64(j), row)))
	}
	var best, at value
	l.offsets(x, kernel, stride, out, func(i, j int, v value) {
		if i == 0 && j == 0 {
			best, at = v, position(i, j)
			return
		}
		more := l.compare("GT", v, best)
		best, at = l.choose(more, v, best), l.choose(more, position(i, j), at)
	})
	return at
}

// poolGrad gives each window's gradient to its maximum: for every position in
// the kernel the windows that have it there, spread over the picture.
func (l *lowering) poolGrad(n *graph.Node, o graph.PoolGrad) value {
	x, gy := l.f32(n, 0), l.f32(n, 1)
	at := l.poolIndex(x, o.Kernel, o.Stride, gy.shape)
	row, col := l.iota(tensor.I32, gy.shape, 1), l.iota(tensor.I32, gy.shape, 2)
	zero := l.like(0, gy)
	var sum value
	for i := range o.Kernel[0] {
		for j := range o.Kernel[1] {
			y := l.binary("add", l.binary("multiply", row, l.like(float64(o.Stride[0]), row)), l.like(float64(i), row))
			p := l.binary("add", l.binary("multiply", y, l.like(float64(x.shape[2]), row)),
				l.binary("add", l.binary("multiply", col, l.like(float64(o.Stride[1]), row)), l.like(float64(j), row)))
			v := l.choose(l.compare("EQ", at, p), gy, zero)
			between := []int{0, o.Stride[0] - 1, o.Stride[1] - 1, 0}
			after := make([]int, 4)
			for k, first := range []int{1: i, 2: j} {
				if k > 0 {
					after[k] = x.shape[k] - first - ((gy.shape[k]-1)*o.Stride[k-1] + 1)
				}
			}
			v = l.pad(v, 0, []int{0, i, j, 0}, after, between)
			if sum.name == "" {
				sum = v
			} else {
				sum = l.binary("add", sum, v)
			}
		}
	}
	return l.convert(sum, l.result(n))
}

// convGradInput is the convolution of the gradient, with zeros between its
// pixels, by the kernel turned around.
func (l *lowering) convGradInput(n *graph.Node, o graph.ConvGradInput) value {
	gy, w := l.f32(n, 0), l.f32(n, 1)
	s, g := w.shape, o.Groups // [O,C/G,kh,kw]
	// [G,O/G,C/G,kh,kw] -> [G,C/G,kh,kw,O/G]: the kernel of each group.
	w = l.reshape(w, tensor.Shape{g, s[0] / g, s[1], s[2], s[3]})
	w = l.reshape(l.transpose(w, 0, 2, 3, 4, 1), tensor.Shape{g * s[1], s[2], s[3], s[0] / g})
	w = l.reversed(w, 1, 2)
	win := window{stride: 1, lhsDilate: o.Stride, rhsDilate: o.Dilation, groups: g}
	for i, size := range []int{o.H, o.W} {
		reach := o.Dilation * (s[2+i] - 1)
		low := reach - o.Pad
		win.pads[i] = [2]int{low, size - ((gy.shape[1+i]-1)*o.Stride + 1) - low + reach}
	}
	return l.convert(l.convolve(gy, w, channelsLast, win, n.Shape, tensor.F32), l.result(n))
}

// convGradWeight is a convolution of the input by the gradient in which pictures
// and channels have changed places, for each group.
func (l *lowering) convGradWeight(n *graph.Node, o graph.ConvGradWeight) value {
	x, gy := l.f32(n, 0), l.f32(n, 1)
	g := o.Groups
	c, oc := x.shape[3]/g, gy.shape[3]/g
	win := window{stride: o.Dilation, lhsDilate: 1, rhsDilate: o.Stride, groups: 1}
	for i, k := range []int{o.KH, o.KW} {
		span := (gy.shape[1+i]-1)*o.Stride + 1
		win.pads[i] = [2]int{o.Pad, (k-1)*o.Dilation + span - x.shape[1+i] - o.Pad}
	}
	var parts []value
	for i := range g {
		xi, gi := l.cut(x, 3, i*c, (i+1)*c), l.cut(gy, 3, i*oc, (i+1)*oc)
		y := l.convolve(xi, gi, "[f, 0, 1, b]x[i, 0, 1, o]->[b, 0, 1, f]", win, tensor.Shape{c, o.KH, o.KW, oc}, tensor.F32)
		parts = append(parts, l.transpose(y, 3, 0, 1, 2))
	}
	return l.convert(l.concat(0, parts...), l.result(n))
}
