// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"encoding/binary"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// train lowers the operations that only training needs, all in float32: gradients
// span more than half precision holds, and nobody trains in it without scaling
// the loss.
func (l *lowering) train(n *graph.Node) (*mpsgraph.Tensor, bool) {
	g := l.out
	switch o := n.Op.(type) {
	case graph.ScatterAdd:
		zeros := g.Broadcast(g.Scalar(0, tensor.F32), n.Shape...)
		return g.ScatterAdd(zeros, l.in(n, 0, tensor.F32), l.in(n, 1, tensor.I32), 0), true
	case graph.OneHot:
		return l.oneHot(n, o), true
	case graph.PoolIndex:
		return l.poolIndex(n, o), true
	case graph.PoolGrad:
		return g.MaxPool2DGradient(l.in(n, 1, tensor.F32), l.in(n, 0, tensor.F32), mpsgraph.Pool{Kernel: o.Kernel, Stride: o.Stride}), true
	case graph.ConvGradInput:
		c := mpsgraph.Conv{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups}
		return g.Conv2DDataGradient(l.in(n, 0, tensor.F32), l.in(n, 1, tensor.F32), n.Shape, c), true
	case graph.ConvGradWeight:
		c := mpsgraph.Conv{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups}
		return g.Conv2DWeightsGradient(l.in(n, 1, tensor.F32), l.in(n, 0, tensor.F32), n.Shape, c), true
	}
	return nil, false
}

// integers is a constant of int32 numbers, the type that MPSGraph indexes with.
func (l *lowering) integers(shape tensor.Shape, value func(i int) int) *mpsgraph.Tensor {
	var data []byte
	for i := range shape.Numel() {
		data = binary.LittleEndian.AppendUint32(data, uint32(int32(value(i))))
	}
	return l.out.Constant(data, shape, tensor.I32)
}

// oneHot compares each index with 0, 1, ..., Depth-1: an index outside gives a row
// of zeros, about which Apple says nothing for its own op.
func (l *lowering) oneHot(n *graph.Node, o graph.OneHot) *mpsgraph.Tensor {
	g := l.out
	idx := g.Reshape(l.in(n, 0, tensor.I32), append(n.In[0].Shape.Clone(), 1)...)
	hit := g.Equal(idx, l.integers(tensor.Shape{o.Depth}, func(i int) int { return i }))
	return g.Cast(hit, tensor.F32)
}

// poolIndex walks the window's positions in order and keeps the first that is
// larger than all before it, as a strided slice of the map per position. Which of
// equal elements MPSGraph's own indices name is not documented.
func (l *lowering) poolIndex(n *graph.Node, o graph.PoolIndex) *mpsgraph.Tensor {
	g := l.out
	x, s := l.in(n, 0, tensor.F32), n.In[0].Shape
	oh, ow := n.Shape[1], n.Shape[2]
	var best, at *mpsgraph.Tensor
	for i := range o.Kernel[0] {
		for j := range o.Kernel[1] {
			v := g.Slice(x, []int{0, i, j, 0},
				[]int{s[0], i + (oh-1)*o.Stride[0] + 1, j + (ow-1)*o.Stride[1] + 1, s[3]}, []int{1, o.Stride[0], o.Stride[1], 1})
			where := g.Broadcast(l.integers(tensor.Shape{1, oh, ow, 1}, func(k int) int {
				return (k/ow*o.Stride[0]+i)*s[2] + k%ow*o.Stride[1] + j
			}), n.Shape...)
			if best == nil {
				best, at = v, where
				continue
			}
			larger := g.Greater(v, best)
			at = g.Select(larger, where, at)
			best = g.Select(larger, v, best)
		}
	}
	return at
}
