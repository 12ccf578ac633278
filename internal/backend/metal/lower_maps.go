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

// featureMap lowers the operations on NHWC maps. NHWC from end to end: a token grid
// [B,N,C] is such a map without moving anything, the heads' 1x1 convolutions are
// products along its last dimension, and what shipping engines report as right
// and fast on these GPUs is NHWC.
func (l *lowering) featureMap(n *graph.Node) (*mpsgraph.Tensor, error) {
	g := l.out
	switch o := n.Op.(type) {
	case graph.Conv2D:
		return l.conv2D(n, o), nil
	case graph.ConvTranspose2D:
		return l.convTranspose2D(n, o), nil
	case graph.Pool2D:
		// A maximum is one of its operands and exact in any type, a mean is not.
		p := mpsgraph.Pool{Kernel: o.Kernel, Stride: o.Stride}
		if o.Average {
			return g.AvgPool2D(l.in(n, 0, tensor.F32), p), nil
		}
		return g.MaxPool2D(l.in(n, 0, carried), p), nil
	case graph.Resize2D:
		return l.resize2D(n, o), nil
	case graph.PixelShuffle:
		return g.PixelShuffle(l.in(n, 0, carried), o.R), nil
	}
	return nil, fmt.Errorf("%w: operation %s (%T)", ErrUnsupported, n.Op.Kind(), n.Op)
}

// conv2D computes in the product type, but in float32 where its result is the
// raw output of a head: rounding a log depth of 4.6 to half precision is 0.2 %
// of the depth (network.md 18).
func (l *lowering) conv2D(n *graph.Node, o graph.Conv2D) *mpsgraph.Tensor {
	g, d := l.out, l.product()
	if l.tail[n.ID] {
		d = tensor.F32
	}
	x := l.in(n, 0, carried)
	if d == tensor.F16 {
		x = l.cast(x, d)
	}
	if o.PreRelu {
		// Exact in any type, so in the narrower one: a map of full size is 50 MB.
		x = g.ReLU(x)
	}
	y := g.Conv2D(l.rounded(x, d), l.factor(n, 1, d), mpsgraph.Conv{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups})
	// Bias [O] broadcasts over NHWC as it is; NCHW would want [1,O,1,1].
	rest := n.In[2:]
	if o.Bias {
		y = g.Add(y, l.value(rest[0], d))
		rest = rest[1:]
	}
	y = l.activate(o.Act, y)
	if o.Residual {
		y = g.Add(y, l.value(rest[0], d))
	}
	return y
}

// convTranspose2D is, where the kernel equals the stride and nothing is padded
// (no two inputs then reach one output),
// a product per pixel whose O*k*k results are shuffled into place: the weights
// [C,O,k,k] are that matrix already. Other cases take MPSGraph's op.
func (l *lowering) convTranspose2D(n *graph.Node, o graph.ConvTranspose2D) *mpsgraph.Tensor {
	g, d := l.out, l.product()
	x, w := l.factor(n, 0, d), l.factor(n, 1, d)
	xs, ws := n.In[0].Shape, n.In[1].Shape
	if k := ws[2]; k == o.Stride && ws[3] == k && o.Pad == 0 && o.OutputPad == 0 {
		c, oc, rows := ws[0], ws[1], xs[0]*xs[1]*xs[2]
		y := g.MatMul(g.Reshape(x, rows, c), g.Reshape(w, c, oc*k*k))
		if o.Bias {
			// Before the shuffle, where it can be part of the product's kernel.
			y = g.Add(g.Reshape(y, rows, oc, k*k), g.Reshape(l.in(n, 2, d), oc, 1))
		}
		return g.PixelShuffle(g.Reshape(y, xs[0], xs[1], xs[2], oc*k*k), k)
	}
	y := g.ConvTranspose2D(x, w, o.Stride, o.Pad, o.OutputPad)
	if o.Bias {
		y = g.Add(y, l.in(n, 2, d))
	}
	return y
}

// resize2D uses MPSGraph's op where it has one with the same coordinates, and
// otherwise two products with matrices of interpolation weights.
func (l *lowering) resize2D(n *graph.Node, o graph.Resize2D) *mpsgraph.Tensor {
	// With one output, aligned corners divide by zero.
	single := o.AlignCorners && (o.H == 1 || o.W == 1)
	scaled := (o.ScaleH != 0 || o.ScaleW != 0) && !o.AlignCorners
	switch {
	case o.Mode == graph.Nearest:
		return l.out.Nearest(l.in(n, 0, carried), o.H, o.W)
	case o.Mode == graph.Bilinear && !single && !scaled:
		return l.out.Bilinear(l.in(n, 0, carried), o.H, o.W, o.AlignCorners)
	}
	// Bicubic, which MPSGraph lacks, and scales that are not the ratio of the sizes;
	// DUNE's position table has both (network.md 10.3).
	g, s := l.out, n.In[0].Shape
	x := l.in(n, 0, tensor.F32)
	b, h, w, c := s[0], s[1], s[2], s[3]
	x = g.MatMul(l.resampling(o, h, o.H, o.ScaleH), g.Reshape(x, b, h, w*c))
	x = g.MatMul(l.resampling(o, w, o.W, o.ScaleW), g.Reshape(x, b*o.H, w, c))
	return g.Reshape(x, b, o.H, o.W, c)
}

// resampling is the [m,n] matrix of the weights that outputs on one axis give
// to inputs (graph.Resize2D).
func (l *lowering) resampling(o graph.Resize2D, n, m int, scale float64) *mpsgraph.Tensor {
	mat := make([]float64, m*n)
	for i, output := range o.Taps(n, m, scale) {
		for _, tap := range output {
			mat[i*n+tap.At] += tap.Weight
		}
	}
	data := make([]byte, 0, 4*len(mat))
	for _, v := range mat {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
	}
	return l.out.Constant(data, tensor.Shape{m, n}, tensor.F32)
}
