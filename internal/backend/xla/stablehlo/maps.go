// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// maps are the operations on feature maps.
func (l *lowering) maps(n *graph.Node) (value, error) {
	switch o := n.Op.(type) {
	case graph.Conv2D:
		return l.conv2d(n, o), nil
	case graph.ConvTranspose2D:
		return l.convTranspose2d(n, o), nil
	case graph.Pool2D:
		return l.pool(n, o), nil
	case graph.Resize2D:
		return l.resize(n, o), nil
	case graph.PixelShuffle:
		x := l.in(n, 0)
		s, r := x.shape, o.R
		x = l.reshape(x, tensor.Shape{s[0], s[1], s[2], s[3] / (r * r), r, r})
		return l.reshape(l.transpose(x, 0, 1, 4, 2, 5, 3), n.Shape), nil
	}
	return value{}, fmt.Errorf("%w: %T", ErrUnsupported, n.Op)
}

// window are the numbers of a convolution; pads are low and high per axis.
type window struct {
	stride, lhsDilate, rhsDilate int
	pads                         [2][2]int
	groups                       int
}

// convolve is x [B,H,W,C] with a kernel w [O,kh,kw,C/groups].
func (l *lowering) convolve(x, w value, layout string, win window, out tensor.Shape, d tensor.DType) value {
	y := value{shape: out, dtype: d}
	p := "DEFAULT"
	if l.exactMaps() {
		p = "HIGHEST"
	}
	return l.emit(y, signature(y, x, w), "stablehlo.convolution(%s, %s) dim_numbers = %s, "+
		"window = {stride = [%d, %d], pad = [[%d, %d], [%d, %d]], lhs_dilate = [%d, %d], rhs_dilate = [%d, %d]} "+
		"{batch_group_count = 1 : i64, feature_group_count = %d : i64, precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]}",
		x.name, w.name, layout, win.stride, win.stride, win.pads[0][0], win.pads[0][1], win.pads[1][0], win.pads[1][1],
		win.lhsDilate, win.lhsDilate, win.rhsDilate, win.rhsDilate, win.groups, p, p)
}

// channelsLast is the layout of an ordinary convolution: the kernel as cuDNN
// reads it.
const channelsLast = "[b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]"

func (l *lowering) conv2d(n *graph.Node, o graph.Conv2D) value {
	d := l.result(n)
	x := l.mapFactor(n, 0)
	if o.PreRelu {
		x = l.relu(x)
	}
	s := n.In[1].Shape
	var y value
	if s[2] == 1 && s[3] == 1 && o.Stride == 1 && o.Pad == 0 && o.Groups == 1 {
		// A product over the channels.
		w := l.reshape(l.mapFactor(n, 1, 0, 2, 3, 1), tensor.Shape{s[0], s[1]})
		y = l.dot(x, w, contraction{sumA: []int{3}, sumB: []int{1}}, d, l.exactMaps())
	} else {
		win := window{stride: o.Stride, lhsDilate: 1, rhsDilate: o.Dilation, groups: o.Groups, pads: [2][2]int{{o.Pad, o.Pad}, {o.Pad, o.Pad}}}
		y = l.convolve(x, l.mapFactor(n, 1, 0, 2, 3, 1), channelsLast, win, n.Shape, d)
	}
	at := 2
	if o.Bias {
		y = l.binary("add", y, l.last(l.as(n, at, d), y.shape))
		at++
	}
	y = l.activate(o.Act, y)
	if o.Residual {
		y = l.binary("add", y, l.as(n, at, d))
	}
	return y
}

func (l *lowering) convTranspose2d(n *graph.Node, o graph.ConvTranspose2D) value {
	d := l.result(n)
	x := l.mapFactor(n, 0)
	s := n.In[1].Shape // [C,O,kh,kw]
	var y value
	if s[2] == o.Stride && s[3] == o.Stride && o.Pad == 0 && o.OutputPad == 0 {
		// The patches do not overlap: a product over the channels gives each of them.
		w := l.mapFactor(n, 1, 2, 3, 1, 0)
		w = l.reshape(w, tensor.Shape{s[2] * s[3] * s[1], s[0]})
		y = l.dot(x, w, contraction{sumA: []int{3}, sumB: []int{1}}, d, l.exactMaps())
		in := x.shape
		y = l.reshape(y, tensor.Shape{in[0], in[1], in[2], s[2], s[3], s[1]})
		y = l.reshape(l.transpose(y, 0, 1, 3, 2, 4, 5), n.Shape)
	} else {
		// An ordinary convolution of the input with zeros between its pixels, by the
		// kernel turned around.
		w := l.reversed(l.mapFactor(n, 1, 1, 2, 3, 0), 1, 2)
		win := window{stride: 1, lhsDilate: o.Stride, rhsDilate: 1, groups: 1}
		for i, k := range []int{s[2], s[3]} {
			win.pads[i] = [2]int{k - 1 - o.Pad, k - 1 - o.Pad + o.OutputPad}
		}
		y = l.convolve(x, w, channelsLast, win, n.Shape, d)
	}
	if o.Bias {
		y = l.binary("add", y, l.last(l.as(n, 2, d), y.shape))
	}
	return y
}

// reversed turns axes around.
func (l *lowering) reversed(x value, axes ...int) value {
	return l.emit(x, x.typ(), "stablehlo.reverse %s, dims = %s", x.name, ints(axes))
}

// offsets calls f with x cut to what pixel (i, j) of each window sees: strided
// slices, one for each position in the kernel.
func (l *lowering) offsets(x value, kernel, stride [2]int, out tensor.Shape, f func(i, j int, v value)) {
	for i := range kernel[0] {
		for j := range kernel[1] {
			f(i, j, l.slice(x, []int{0, i, j, 0},
				[]int{x.shape[0], i + (out[1]-1)*stride[0] + 1, j + (out[2]-1)*stride[1] + 1, x.shape[3]}, []int{1, stride[0], stride[1], 1}))
		}
	}
}

func (l *lowering) pool(n *graph.Node, o graph.Pool2D) value {
	var y value
	l.offsets(l.f32(n, 0), o.Kernel, o.Stride, n.Shape, func(i, j int, v value) {
		switch {
		case i == 0 && j == 0:
			y = v
		case o.Average:
			y = l.binary("add", y, v)
		default:
			y = l.binary("maximum", y, v)
		}
	})
	if o.Average {
		y = l.binary("divide", y, l.like(float64(o.Kernel[0]*o.Kernel[1]), y))
	}
	return l.convert(y, l.result(n))
}

// resize is a product with a matrix of taps for each axis. In TF32 it keeps all
// digits: it is a small part of the work, and a head's five of them, one upon the
// other, were a third of the error that the head adds to the points.
func (l *lowering) resize(n *graph.Node, o graph.Resize2D) value {
	d := l.half()
	x := l.as(n, 0, d)
	exact := d == tensor.F32
	matrix := func(in, out int, scale float64) value {
		table := make([]float32, out*in)
		for i, taps := range o.Taps(in, out, scale) {
			for _, t := range taps {
				table[i*in+t.At] += float32(t.Weight)
			}
		}
		return l.weight(Weight{Table: table, Shape: tensor.Shape{out, in}, DType: d})
	}
	s := n.In[0].Shape
	// [H,h] x [B,h,w,C] -> [H,B,w,C]
	y := l.dot(matrix(s[1], o.H, o.ScaleH), x, contraction{sumA: []int{1}, sumB: []int{1}}, d, exact)
	// [W,w] x [H,B,w,C] -> [W,H,B,C]
	y = l.dot(matrix(s[2], o.W, o.ScaleW), y, contraction{sumA: []int{1}, sumB: []int{2}}, l.result(n), exact)
	return l.transpose(y, 2, 1, 0, 3)
}
