// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

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

func (o Pool2D) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	if err := featureMap(x); err != nil {
		return nil, 0, err
	}
	if o.Kernel < 1 || o.Stride < 1 || x.Shape[1] < o.Kernel || x.Shape[2] < o.Kernel {
		return nil, 0, shapeErr("kernel %d, stride %d for x %v", o.Kernel, o.Stride, x.Shape)
	}
	return tensor.Shape{x.Shape[0], (x.Shape[1]-o.Kernel)/o.Stride + 1, (x.Shape[2]-o.Kernel)/o.Stride + 1, x.Shape[3]}, x.DType, nil
}

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
