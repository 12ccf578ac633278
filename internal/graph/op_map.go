// SPDX-License-Identifier: Apache-2.0

package graph

import "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"

// Conv2D is a convolution with zero padding, x [B,H,W,C], w [O,C/Groups,kh,kw].
// Operands: x, w, then those that the flags name: b [O], residual (the shape of
// the result). With PreRelu the input goes through ReLU first; Act applies
// before the residual is added. PreRelu, Act and Residual are set by passes.Fuse.
type Conv2D struct {
	Stride, Pad, Dilation, Groups int
	Bias, Residual, PreRelu       bool
	Act                           Activation
}

func (Conv2D) Kind() string { return "conv2d" }

func (o Conv2D) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2+count(o.Bias, o.Residual)); err != nil {
		return nil, 0, err
	}
	x, w := in[0], in[1]
	if err := featureMap(x); err != nil {
		return nil, 0, err
	}
	if err := kernel4(w); err != nil {
		return nil, 0, err
	}
	if o.Stride < 1 || o.Dilation < 1 || o.Groups < 1 || o.Pad < 0 {
		return nil, 0, shapeErr("stride %d, dilation %d, groups %d, want >= 1; pad %d, want >= 0", o.Stride, o.Dilation, o.Groups, o.Pad)
	}
	oc, ic := w.Shape[0], w.Shape[1]
	if oc%o.Groups != 0 || ic*o.Groups != x.Shape[3] {
		return nil, 0, shapeErr("w %v, want [out,%d,kh,kw] for x %v in %d groups", w.Shape, x.Shape[3]/o.Groups, x.Shape, o.Groups)
	}
	out := tensor.Shape{x.Shape[0], 0, 0, oc}
	for i := range 2 {
		span := o.Dilation*(w.Shape[2+i]-1) + 1
		free := x.Shape[1+i] + 2*o.Pad - span
		if free < 0 {
			return nil, 0, shapeErr("x %v with pad %d is smaller than the kernel's %d", x.Shape, o.Pad, span)
		}
		out[1+i] = free/o.Stride + 1
	}
	rest := in[2:]
	if o.Bias {
		if err := vector(rest[0], "b", oc); err != nil {
			return nil, 0, err
		}
		rest = rest[1:]
	}
	if o.Residual {
		if err := same(rest[0], "residual", out); err != nil {
			return nil, 0, err
		}
	}
	return out, x.DType, nil
}

// ConvTranspose2D is the transposed convolution, x [B,H,W,C], w [C,O,kh,kw];
// result (H-1)*Stride - 2*Pad + kh + OutputPad rows. Operands: x, w and, with
// Bias, b [O].
type ConvTranspose2D struct {
	Stride, Pad, OutputPad int
	Bias                   bool
}

func (ConvTranspose2D) Kind() string { return "conv_transpose2d" }

func (o ConvTranspose2D) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2+count(o.Bias)); err != nil {
		return nil, 0, err
	}
	x, w := in[0], in[1]
	if err := featureMap(x); err != nil {
		return nil, 0, err
	}
	if err := kernel4(w); err != nil {
		return nil, 0, err
	}
	if o.Stride < 1 || o.Pad < 0 || o.OutputPad < 0 || o.OutputPad >= o.Stride {
		return nil, 0, shapeErr("stride %d, pad %d, output pad %d", o.Stride, o.Pad, o.OutputPad)
	}
	if w.Shape[0] != x.Shape[3] {
		return nil, 0, shapeErr("w %v, want [%d,out,kh,kw] for x %v", w.Shape, x.Shape[3], x.Shape)
	}
	out := tensor.Shape{x.Shape[0], 0, 0, w.Shape[1]}
	for i := range 2 {
		out[1+i] = (x.Shape[1+i]-1)*o.Stride - 2*o.Pad + w.Shape[2+i] + o.OutputPad
		if out[1+i] < 1 {
			return nil, 0, shapeErr("x %v gives an empty result", x.Shape)
		}
	}
	if o.Bias {
		if err := vector(in[2], "b", w.Shape[1]); err != nil {
			return nil, 0, err
		}
	}
	return out, x.DType, nil
}

// Pool2D is max or average pooling without padding. Kernel and Stride are rows, then
// columns.
type Pool2D struct {
	Kernel, Stride [2]int
	Average        bool
}

func (Pool2D) Kind() string { return "pool2d" }

func (o Pool2D) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	if err := featureMap(x); err != nil {
		return nil, 0, err
	}
	out := x.Shape.Clone()
	for i, size := range x.Shape[1:3] {
		if o.Kernel[i] < 1 || o.Stride[i] < 1 || size < o.Kernel[i] {
			return nil, 0, shapeErr("kernel %v, stride %v for x %v", o.Kernel, o.Stride, x.Shape)
		}
		out[1+i] = (size-o.Kernel[i])/o.Stride[i] + 1
	}
	return out, x.DType, nil
}

// ResizeMode is the interpolation of Resize2D.
type ResizeMode uint8

// The interpolations. Nearest takes floor(i*in/out). Bicubic has a = -0.75.
const (
	Nearest ResizeMode = iota
	Bilinear
	Bicubic
)

func (m ResizeMode) String() string {
	return enumName(resizeNames[:], m)
}

// Resize2D resamples x [B,h,w,C] to [B,H,W,C]. Source coordinate of output i on
// an axis of n -> m: AlignCorners i*(n-1)/(m-1) (0 when m is 1), otherwise
// (i+0.5)*s-0.5 with s = n/m, or s = ScaleH / ScaleW where those are not 0 (the
// DUNE position table needs a scale that is not the ratio of the sizes).
// Taps outside are clamped to the edge.
type Resize2D struct {
	H, W           int
	Mode           ResizeMode
	AlignCorners   bool
	ScaleH, ScaleW float64
}

func (Resize2D) Kind() string { return "resize2d" }

func (o Resize2D) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	if err := featureMap(x); err != nil {
		return nil, 0, err
	}
	if int(o.Mode) >= len(resizeNames) {
		return nil, 0, dtypeErr("unknown mode %d", o.Mode)
	}
	if o.H < 1 || o.W < 1 || x.Shape[1] < 1 || x.Shape[2] < 1 {
		return nil, 0, shapeErr("%v to %dx%d", x.Shape, o.H, o.W)
	}
	if o.ScaleH < 0 || o.ScaleW < 0 {
		return nil, 0, shapeErr("scales %v, %v, want >= 0", o.ScaleH, o.ScaleW)
	}
	return tensor.Shape{x.Shape[0], o.H, o.W, x.Shape[3]}, x.DType, nil
}

// PixelShuffle turns [B,h,w,C*R*R] into [B,h*R,w*R,C]; the input channel of
// (c, i, j) is c*R*R + i*R + j (network.md 4.2).
type PixelShuffle struct{ R int }

func (PixelShuffle) Kind() string { return "pixel_shuffle" }

func (o PixelShuffle) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	if err := featureMap(x); err != nil {
		return nil, 0, err
	}
	if o.R < 1 || x.Shape[3]%(o.R*o.R) != 0 {
		return nil, 0, shapeErr("%d channels, want a multiple of %d*%d", x.Shape[3], o.R, o.R)
	}
	return tensor.Shape{x.Shape[0], x.Shape[1] * o.R, x.Shape[2] * o.R, x.Shape[3] / (o.R * o.R)}, x.DType, nil
}

var resizeNames = [...]string{Nearest: "nearest", Bilinear: "bilinear", Bicubic: "bicubic"}

// featureMap checks that n is a float map [B,H,W,C].
func featureMap(n *Node) error {
	if err := rank(n, "x", 4); err != nil {
		return err
	}
	return isFloat(n, "x")
}

func kernel4(w *Node) error {
	if err := rank(w, "w", 4); err != nil {
		return err
	}
	if w.Shape[2] < 1 || w.Shape[3] < 1 {
		return shapeErr("w %v has an empty kernel", w.Shape)
	}
	return isFloat(w, "w")
}

var mapOps = []Operation{
	{"conv2d", "x, w, b?, residual?", "float; weights of any float type", "Convolution of maps [B,H,W,C] with w [O,C/groups,kh,kw].", func(g *Graph) *Node {
		return g.Conv2D(floats(g, 1, 5, 6, 3), floats(g, 4, 3, 3, 3), floats(g, 4), 1, 1)
	}, nil},
	{"conv_transpose2d", "x, w, b?", "float; weights of any float type", "Transposed convolution of maps [B,H,W,C] with w [C,O,kh,kw].", func(g *Graph) *Node {
		return g.ConvTranspose2D(floats(g, 1, 3, 4, 3), floats(g, 3, 4, 2, 2), floats(g, 4), 2)
	}, nil},
	{"pool2d", "x", "float", "Max or average pooling of maps [B,H,W,C].", func(g *Graph) *Node {
		return g.Add(Pool2D{Kernel: [2]int{2, 3}, Stride: [2]int{2, 1}}, floats(g, 1, 5, 6, 3))
	}, nil},
	{"resize2d", "x", "float", "Resample maps [B,H,W,C].", func(g *Graph) *Node { return g.Bilinear(floats(g, 1, 3, 4, 2), 5, 7) }, nil},
	{"pixel_shuffle", "x", "float", "Channels to space: [B,h,w,C*R*R] to [B,h*R,w*R,C].", func(g *Graph) *Node { return g.Add(PixelShuffle{R: 2}, floats(g, 1, 2, 3, 8)) }, nil},
	{"pool_index", "x", "float", "Positions of the maxima of max pooling, the lowest on ties.", func(g *Graph) *Node {
		return g.Add(PoolIndex{Kernel: [2]int{2, 2}, Stride: [2]int{1, 1}}, floats(g, 1, 3, 4, 2))
	}, noONNX},
	{"pool_grad", "x, gy", "float", "Gradient of max pooling; overlapping windows add up.", func(g *Graph) *Node {
		return g.Add(PoolGrad{Kernel: [2]int{2, 2}, Stride: [2]int{1, 1}}, floats(g, 1, 3, 4, 2), floats(g, 1, 2, 3, 2))
	}, noONNX},
	{"conv_grad_input", "gy, w", "float", "Gradient of conv2d with respect to its input.", func(g *Graph) *Node {
		o := ConvGradInput{Stride: 1, Pad: 1, Dilation: 1, Groups: 1, H: 4, W: 5}
		return g.Add(o, floats(g, 1, 4, 5, 3), floats(g, 3, 2, 3, 3))
	}, noONNX},
	{"conv_grad_weight", "x, gy", "float", "Gradient of conv2d with respect to its weight.", func(g *Graph) *Node {
		o := ConvGradWeight{Stride: 1, Pad: 1, Dilation: 1, Groups: 1, KH: 3, KW: 3}
		return g.Add(o, floats(g, 1, 4, 5, 2), floats(g, 1, 4, 5, 3))
	}, noONNX},
}
