// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// ConvOptions of a convolution. The zero value is stride 1, no padding, no
// dilation, one group, no activation.
type ConvOptions struct {
	Stride, Pad, Dilation, Groups int
	Activation                    Activation
}

// filled has the defaults in place of zeros.
func (o ConvOptions) filled() (ConvOptions, error) {
	if min(o.Stride, o.Pad, o.Dilation, o.Groups) < 0 {
		return o, refuse(ErrOption, "stride %d, padding %d, dilation %d, groups %d, want none below 0", o.Stride, o.Pad, o.Dilation, o.Groups)
	}
	o.Stride, o.Dilation, o.Groups = max(o.Stride, 1), max(o.Dilation, 1), max(o.Groups, 1)
	if o.Activation == "" {
		o.Activation = None
	}
	return o, o.Activation.check()
}

// Conv2D is a convolution of maps x [B,C,H,W] with w [O,C/groups,kh,kw] and bias
// b [O], which may be nil.
func (c *Context) Conv2D(x, w, b *Tensor, opt ConvOptions) (*Tensor, error) {
	o, err := opt.filled()
	if err != nil {
		return nil, err
	}
	in := []*Tensor{x, w}
	if b != nil {
		in = append(in, b)
	}
	return c.compute(fmt.Sprintf("conv2d%v", o), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		op := graph.Conv2D{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups, Bias: len(in) == 3}
		y := g.Add(op, append([]*graph.Node{g.Transpose(in[0], 0, 2, 3, 1)}, in[1:]...)...)
		return g.Transpose(o.Activation.apply(g, y), 0, 3, 1, 2)
	}, in...)
}

// Conv2DBackward gives the gradients of Conv2D without activation for the
// gradient gy of its result: of the input, of the weight, and of the bias, which
// is a sum over pictures and pixels and not a mean.
func (c *Context) Conv2DBackward(gy, x, w *Tensor, opt ConvOptions) (gx, gw, gb *Tensor, err error) {
	o, err := opt.filled()
	if err != nil {
		return nil, nil, nil, err
	}
	if o.Activation != None {
		return nil, nil, nil, refuse(ErrOption, "the gradient of a convolution with activation %q; apply ActivationBackward first", o.Activation)
	}
	if err := wantRank("conv2d_backward", 4, gy, x, w); err != nil {
		return nil, nil, nil, err
	}
	out, err := c.computeAll(fmt.Sprintf("conv2d_backward%v", o), func(g *graph.Graph, in []*graph.Node) []*graph.Node {
		gy, x := g.Transpose(in[0], 0, 2, 3, 1), g.Transpose(in[1], 0, 2, 3, 1)
		w := in[2]
		gx := g.Add(graph.ConvGradInput{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups, H: x.Shape[1], W: x.Shape[2]}, gy, w)
		gw := g.Add(graph.ConvGradWeight{Stride: o.Stride, Pad: o.Pad, Dilation: o.Dilation, Groups: o.Groups, KH: w.Shape[2], KW: w.Shape[3]}, x, gy)
		gb := g.Add(graph.Reduce{Axes: []int{0, 1, 2}}, gy)
		return []*graph.Node{g.Transpose(gx, 0, 3, 1, 2), gw, gb}
	}, gy, x, w)
	if err != nil {
		return nil, nil, nil, err
	}
	return out[0], out[1], out[2], nil
}

// MaxPool2D pools maps [B,C,H,W] with windows of kernel rows and columns, stride rows and
// columns apart; argmax holds, as int32, the flat position
// y*W+x of each maximum in its plane, the lowest on ties.
func (c *Context) MaxPool2D(x *Tensor, kernel, stride [2]int) (y, argmax *Tensor, err error) {
	out, err := c.computeAll(fmt.Sprintf("max_pool%v/%v", kernel, stride), func(g *graph.Graph, in []*graph.Node) []*graph.Node {
		x := g.Transpose(in[0], 0, 2, 3, 1)
		y := g.Add(graph.Pool2D{Kernel: kernel, Stride: stride}, x)
		at := g.Add(graph.PoolIndex{Kernel: kernel, Stride: stride}, x)
		return []*graph.Node{g.Transpose(y, 0, 3, 1, 2), g.Transpose(at, 0, 3, 1, 2)}
	}, x)
	if err != nil {
		return nil, nil, err
	}
	return out[0], out[1], nil
}

// MaxPool2DBackward is the gradient of MaxPool2D; where windows overlap, contributions are
// added.
func (c *Context) MaxPool2DBackward(gy, x *Tensor, kernel, stride [2]int) (*Tensor, error) {
	return c.compute(fmt.Sprintf("max_pool_backward%v/%v", kernel, stride), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		gx := g.Add(graph.PoolGrad{Kernel: kernel, Stride: stride}, g.Transpose(in[1], 0, 2, 3, 1), g.Transpose(in[0], 0, 2, 3, 1))
		return g.Transpose(gx, 0, 3, 1, 2)
	}, gy, x)
}

// AvgPool2D averages windows of maps [B,C,H,W].
func (c *Context) AvgPool2D(x *Tensor, kernel, stride [2]int) (*Tensor, error) {
	return c.compute(fmt.Sprintf("avg_pool%v/%v", kernel, stride), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		y := g.Add(graph.Pool2D{Kernel: kernel, Stride: stride, Average: true}, g.Transpose(in[0], 0, 2, 3, 1))
		return g.Transpose(y, 0, 3, 1, 2)
	}, x)
}

// patches lists, for every output position and kernel tap, the pixel y*W+x that
// it reads in a map padded by pad.
func patches(h, w int, kernel [2]int, stride, pad int) (index []int, oh, ow int) {
	ph, pw := h+2*pad, w+2*pad
	oh, ow = (ph-kernel[0])/stride+1, (pw-kernel[1])/stride+1
	for y := range oh {
		for x := range ow {
			for i := range kernel[0] {
				for j := range kernel[1] {
					index = append(index, (y*stride+i)*pw+x*stride+j)
				}
			}
		}
	}
	return index, oh, ow
}

// maxPatches bounds the table of patches, which is in host memory. 64 Mi positions are 149
// pictures of 224 x 224 with a kernel of 3 x 3.
const maxPatches = 64 << 20

func checkPatches(what string, h, w int, kernel [2]int, stride, pad int) error {
	const side = 1 << 20 // no product below overflows
	kh, kw := kernel[0], kernel[1]
	if min(h, w, kh, kw, stride) < 1 || pad < 0 || max(h, w, kh, kw, stride, pad) > side || h+2*pad < kh || w+2*pad < kw {
		return refuse(ErrShape, "%s of %dx%d with kernel %v, stride %d, padding %d", what, h, w, kernel, stride, pad)
	}
	positions := ((h+2*pad-kh)/stride + 1) * ((w+2*pad-kw)/stride + 1)
	if positions > maxPatches || positions*kh > maxPatches || positions*kh*kw > maxPatches {
		return refuse(ErrShape, "%s of %dx%d with kernel %v, stride %d, padding %d: more than %d taps", what, h, w, kernel, stride, pad, maxPatches)
	}
	return nil
}

// Im2Col lays out the patches of x [B,C,H,W] as columns: [B, C*kh*kw, OH*OW] for a
// kernel of kh rows and kw columns.
func (c *Context) Im2Col(x *Tensor, kernel [2]int, stride, pad int) (*Tensor, error) {
	if err := wantRank("im2col", 4, x); err != nil {
		return nil, err
	}
	b, ch, h, w := x.shape[0], x.shape[1], x.shape[2], x.shape[3]
	if err := checkPatches("im2col", h, w, kernel, stride, pad); err != nil {
		return nil, err
	}
	k := kernel[0] * kernel[1]
	return c.compute(fmt.Sprintf("im2col%v/%d/%d", kernel, stride, pad), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		p := g.Add(graph.Pad{Before: []int{0, 0, pad, pad}, After: []int{0, 0, pad, pad}}, in[0])
		idx, oh, ow := patches(h, w, kernel, stride, pad)
		p = g.Reshape(p, b, ch, (h+2*pad)*(w+2*pad))
		y := g.Add(graph.Gather{Axis: 2}, p, indices(g, idx))
		y = g.Transpose(g.Reshape(y, b, ch, oh*ow, k), 0, 1, 3, 2)
		return g.Reshape(y, b, ch*k, oh*ow)
	}, x)
}

// Col2Im adds columns [B, C*kh*kw, OH*OW] back into maps [B,C,H,W]: the
// gradient of Im2Col.
func (c *Context) Col2Im(cols *Tensor, channels, h, w int, kernel [2]int, stride, pad int) (*Tensor, error) {
	if err := checkPatches("col2im", h, w, kernel, stride, pad); err != nil {
		return nil, err
	}
	idx, oh, ow := patches(h, w, kernel, stride, pad)
	k := kernel[0] * kernel[1]
	if err := given("col2im", cols); err != nil {
		return nil, err
	}
	if len(cols.shape) != 3 || channels < 1 || cols.shape[1] != channels*k || cols.shape[2] != oh*ow {
		return nil, refuse(ErrShape, "col2im of %v, want [B,%d,%d]", cols.shape, channels*k, oh*ow)
	}
	b := cols.shape[0]
	key := fmt.Sprintf("col2im%d/%dx%d/%v/%d/%d", channels, h, w, kernel, stride, pad)
	return c.compute(key, func(g *graph.Graph, in []*graph.Node) *graph.Node {
		ph, pw := h+2*pad, w+2*pad
		// Rows of the sum are pixels; every picture and channel is a column of it.
		v := g.Transpose(g.Reshape(in[0], b, channels, k, oh*ow), 3, 2, 0, 1)
		v = g.Reshape(v, oh*ow*k, b*channels)
		y := g.Add(graph.ScatterAdd{Rows: ph * pw}, v, indices(g, idx))
		y = g.Transpose(g.Reshape(y, ph, pw, b, channels), 2, 3, 0, 1)
		return g.Add(graph.Slice{Begin: []int{0, 0, pad, pad}, End: []int{b, channels, pad + h, pad + w}, Step: []int{1, 1, 1, 1}}, y)
	}, cols)
}

// convAttributes are those of the convolution and its gradient, which must agree.
const convAttributes = "stride int = 1, padding int = 0, dilation int = 1, groups int = 1"

var mapOps = []row{
	{"conv2d(x, w, b?; " + convAttributes + ", activation string = none)", "Convolution of maps [B,C,H,W] with w [O,C/groups,kh,kw].", "conv2d_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		o := a.convolution()
		o.Activation = a.activation()
		return one(c.Conv2D(in[0], in[1], in[2], o))
	}},
	{"conv2d_backward(gy, x, w; " + convAttributes + ") -> gx, gw, gb", "Gradients of conv2d: input, weight, bias (a sum, not a mean).", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return three(c.Conv2DBackward(in[0], in[1], in[2], a.convolution()))
	}},
	{"max_pool2d(x; kernel size, stride size) -> y, argmax", "Max pooling of maps [B,C,H,W]; also the positions of the maxima.", "max_pool2d_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return two(c.MaxPool2D(in[0], a.size("kernel"), a.size("stride")))
	}},
	{"max_pool2d_backward(gy, x; kernel size, stride size)", "Gradient of max_pool2d; overlapping windows add up.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.MaxPool2DBackward(in[0], in[1], a.size("kernel"), a.size("stride")))
	}},
	{"avg_pool2d(x; kernel size, stride size)", "Average pooling of maps [B,C,H,W].", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.AvgPool2D(in[0], a.size("kernel"), a.size("stride")))
	}},
	{"im2col(x; kernel size, stride int = 1, padding int = 0)", "Patches of maps [B,C,H,W] as columns [B,C*kh*kw,positions].", "col2im", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Im2Col(in[0], a.size("kernel"), a.int("stride"), a.int("padding")))
	}},
	{"col2im(cols; channels int, height int, width int, kernel size, stride int = 1, padding int = 0)", "Add columns back into maps: the gradient of im2col.", "im2col", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Col2Im(in[0], a.int("channels"), a.int("height"), a.int("width"), a.size("kernel"), a.int("stride"), a.int("padding")))
	}},
}
