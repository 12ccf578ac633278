// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// MPSGraphTensorNamedDataLayout and MPSGraphPaddingStyle.
const (
	layoutNHWC      = 1
	layoutOIHW      = 2
	paddingExplicit = 0
)

// maxChannels: convolutions with more output channels were wrong before macOS
// 15.1.
const maxChannels = 65536

// Conv are the parameters of a convolution, equal on both axes. Data is NHWC,
// which is what a token grid is already, and what PyTorch hands over without a
// copy from macOS 15 on; weights are OIHW as PyTorch stores them, so that they stay where
// the file has them.
type Conv struct {
	Stride, Pad, Dilation, Groups int
}

func (c Conv) valid() bool {
	return c.Stride >= 1 && c.Pad >= 0 && c.Dilation >= 1 && c.Groups >= 1
}

// descriptor makes the MPSGraphConvolution2DOpDescriptor (+0). The 12-argument
// factory is the one that sets the paddings.
func (c Conv) descriptor() objc.ID {
	s, p, d := uint64(c.Stride), uint64(c.Pad), uint64(c.Dilation)
	return conv2DDescriptor.Send(convDescClass.ID, s, s, d, d, uint64(c.Groups), p, p, p, p, paddingExplicit, layoutNHWC, layoutOIHW)
}

// out is the number of output rows for n input rows and a kernel of k, rounded
// down: with a stride the last rows may be read by nobody.
func (c Conv) out(n, k int) int { return (n+2*c.Pad-c.Dilation*(k-1)-1)/c.Stride + 1 }

// shape is the result of a forward convolution; ok is false when it has none.
func (c Conv) shape(x, w tensor.Shape) (tensor.Shape, bool) {
	if !c.valid() || len(x) != 4 || len(w) != 4 || w[1]*c.Groups != x[3] || w[0]%c.Groups != 0 || w[0] > maxChannels {
		return nil, false
	}
	for i := range 2 {
		if x[1+i]+2*c.Pad < c.Dilation*(w[2+i]-1)+1 {
			return nil, false
		}
	}
	return tensor.Shape{x[0], c.out(x[1], w[2]), c.out(x[2], w[3]), w[0]}, true
}

// Conv2D is the convolution of x [B,H,W,C] with w [O,C/Groups,kh,kw]. A bias is
// a separate Add.
func (g *Graph) Conv2D(x, w *Tensor, c Conv) *Tensor {
	const op = "conv2d"
	if !g.ready(op, x, w) {
		return g.dead()
	}
	in := []*Tensor{x, w}
	out, ok := c.shape(x.shape, w.shape)
	if !ok || x.dtype != w.dtype || !x.dtype.Float() {
		return g.failf(op, in, "%+v", c)
	}
	if !g.mayMake(op, in, out, x.dtype) {
		return g.dead()
	}
	return g.done(op, in, conv2D.Send(g.id, x.id, w.id, c.descriptor(), 0), out, x.dtype)
}

// Conv2DDataGradient is the gradient with respect to x of shape xShape for the
// incoming gradient dy.
func (g *Graph) Conv2DDataGradient(dy, w *Tensor, xShape tensor.Shape, c Conv) *Tensor {
	const op = "conv2d data gradient"
	if !g.ready(op, dy, w) {
		return g.dead()
	}
	in := []*Tensor{dy, w}
	if out, ok := c.shape(xShape, w.shape); !ok || !dy.shape.Equal(out) || dy.dtype != w.dtype {
		return g.failf(op, in, "%+v for x %v", c, xShape)
	}
	if !g.mayMake(op, in, xShape, dy.dtype) {
		return g.dead()
	}
	id := conv2DDataGradient.Send(g.id, dy.id, w.id, objc.Integers(xShape), c.descriptor(), 0)
	return g.done(op, in, id, xShape, dy.dtype)
}

// Conv2DWeightsGradient is the gradient with respect to w of shape wShape. The
// shape is an argument since a stride hides how large a kernel was.
func (g *Graph) Conv2DWeightsGradient(dy, x *Tensor, wShape tensor.Shape, c Conv) *Tensor {
	const op = "conv2d weights gradient"
	if !g.ready(op, dy, x) {
		return g.dead()
	}
	in := []*Tensor{dy, x}
	if out, ok := c.shape(x.shape, wShape); !ok || !dy.shape.Equal(out) || dy.dtype != x.dtype {
		return g.failf(op, in, "%+v for w %v", c, wShape)
	}
	if !g.mayMake(op, in, wShape, dy.dtype) {
		return g.dead()
	}
	id := conv2DWeightsGradient.Send(g.id, dy.id, x.id, objc.Integers(wShape), c.descriptor(), 0)
	return g.done(op, in, id, wShape, dy.dtype)
}

// ConvTranspose2D is the transposed convolution of x [B,H,W,C] with w
// [C,O,kh,kw], PyTorch's weights unchanged: the op is the data gradient of a
// forward convolution whose output channels are this one's input channels.
func (g *Graph) ConvTranspose2D(x, w *Tensor, stride, padding, outputPad int) *Tensor {
	const op = "conv transpose2d"
	if !g.ready(op, x, w) {
		return g.dead()
	}
	in := []*Tensor{x, w}
	c := Conv{Stride: stride, Pad: padding, Dilation: 1, Groups: 1}
	if !c.valid() || outputPad < 0 || outputPad >= stride || len(x.shape) != 4 || len(w.shape) != 4 ||
		w.shape[0] != x.shape[3] || x.dtype != w.dtype || !x.dtype.Float() {
		return g.failf(op, in, "stride %d, pad %d, output pad %d", stride, padding, outputPad)
	}
	out := tensor.Shape{x.shape[0], 0, 0, w.shape[1]}
	for i := range 2 {
		if out[1+i] = (x.shape[1+i]-1)*stride - 2*padding + w.shape[2+i] + outputPad; out[1+i] < 1 {
			return g.failf(op, in, "empty result")
		}
	}
	if !g.mayMake(op, in, out, x.dtype) {
		return g.dead()
	}
	id := convTranspose2D.Send(g.id, x.id, w.id, objc.Integers(out), c.descriptor(), 0)
	return g.done(op, in, id, out, x.dtype)
}

// Pool are the parameters of a pooling without padding, equal on both axes. With
// padding a maximum and a mean would differ in what the border counts as.
type Pool struct{ Kernel, Stride [2]int }

func (p Pool) descriptor() objc.ID {
	kh, kw, sy, sx := uint64(p.Kernel[0]), uint64(p.Kernel[1]), uint64(p.Stride[0]), uint64(p.Stride[1])
	return pool2DDescriptor.Send(poolDescClass.ID, kw, kh, sx, sy, 1, 1, 0, 0, 0, 0, paddingExplicit, layoutNHWC)
}

func (p Pool) shape(x tensor.Shape) (tensor.Shape, bool) {
	if len(x) != 4 {
		return nil, false
	}
	out := x.Clone()
	for i, size := range x[1:3] {
		if p.Kernel[i] < 1 || p.Stride[i] < 1 || size < p.Kernel[i] {
			return nil, false
		}
		out[1+i] = (size-p.Kernel[i])/p.Stride[i] + 1
	}
	return out, true
}

type poolSend = *objc.Method[func(o, x, descriptor, name objc.ID) objc.ID]

func (g *Graph) pool(op string, m poolSend, x *Tensor, p Pool) *Tensor {
	if !g.ready(op, x) {
		return g.dead()
	}
	in := []*Tensor{x}
	out, ok := p.shape(x.shape)
	if !ok || !x.dtype.Float() {
		return g.failf(op, in, "%+v", p)
	}
	return g.done(op, in, m.Send(g.id, x.id, p.descriptor(), 0), out, x.dtype)
}

// MaxPool2D is the maximum of each window of x [B,H,W,C].
func (g *Graph) MaxPool2D(x *Tensor, p Pool) *Tensor { return g.pool("max pool2d", maxPool2D, x, p) }

// AvgPool2D is the mean of each window; there is no padding to be counted or not.
func (g *Graph) AvgPool2D(x *Tensor, p Pool) *Tensor { return g.pool("avg pool2d", avgPool2D, x, p) }

type poolGradSend = *objc.Method[func(o, dy, x, descriptor, name objc.ID) objc.ID]

func (g *Graph) poolGradient(op string, m poolGradSend, dy, x *Tensor, p Pool) *Tensor {
	if !g.ready(op, dy, x) {
		return g.dead()
	}
	in := []*Tensor{dy, x}
	if out, ok := p.shape(x.shape); !ok || !dy.shape.Equal(out) || dy.dtype != x.dtype {
		return g.failf(op, in, "%+v", p)
	}
	return g.done(op, in, m.Send(g.id, dy.id, x.id, p.descriptor(), 0), x.shape, x.dtype)
}

// MaxPool2DGradient is the gradient of MaxPool2D with respect to x; overlapping
// windows add up.
func (g *Graph) MaxPool2DGradient(dy, x *Tensor, p Pool) *Tensor {
	return g.poolGradient("max pool2d gradient", maxPool2DGradient, dy, x, p)
}

// AvgPool2DGradient is the gradient of AvgPool2D with respect to x.
func (g *Graph) AvgPool2DGradient(dy, x *Tensor, p Pool) *Tensor {
	return g.poolGradient("avg pool2d gradient", avgPool2DGradient, dy, x, p)
}
