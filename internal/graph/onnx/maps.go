// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
)

// maps emits the operations on feature maps. ONNX has channels first, we have
// them last: each is wrapped in two transposes, of which the other runtime
// removes those that meet.
func (e *exporter) maps(n *graph.Node, in []string) (string, error) {
	product := isProduct(n)
	if product {
		in = e.factors(n, in)
	}
	in[0] = e.transpose(in[0], 0, 3, 1, 2)
	y, err := e.channelsFirst(n, in)
	y = e.transpose(y, 0, 2, 3, 1)
	if product {
		y = e.widened(n, y)
	}
	return y, err
}

func (e *exporter) channelsFirst(n *graph.Node, in []string) (string, error) {
	switch o := n.Op.(type) {
	case graph.Conv2D:
		if o.Residual || o.PreRelu || o.Act != graph.ActNone {
			break
		}
		return e.op("Conv", in,
			attribute{"strides", []int{o.Stride, o.Stride}}, attribute{"pads", []int{o.Pad, o.Pad, o.Pad, o.Pad}},
			attribute{"dilations", []int{o.Dilation, o.Dilation}}, attribute{"group", o.Groups}), nil
	case graph.ConvTranspose2D:
		return e.op("ConvTranspose", in,
			attribute{"strides", []int{o.Stride, o.Stride}}, attribute{"pads", []int{o.Pad, o.Pad, o.Pad, o.Pad}},
			attribute{"output_padding", []int{o.OutputPad, o.OutputPad}}), nil
	case graph.Pool2D:
		op := "MaxPool"
		if o.Average {
			op = "AveragePool"
		}
		return e.op(op, in, attribute{"kernel_shape", o.Kernel[:]}, attribute{"strides", o.Stride[:]}), nil
	case graph.PixelShuffle:
		return e.op("DepthToSpace", in, attribute{"blocksize", o.R}, attribute{"mode", "CRD"}), nil
	case graph.Resize2D:
		if o.ScaleH != 0 || o.ScaleW != 0 {
			break // only the position table, which is folded
		}
		return e.resize(o, n, in[0]), nil
	}
	return "", fmt.Errorf("%w: %s %+v", ErrUnsupported, n.Op.Kind(), n.Op)
}

func (e *exporter) resize(o graph.Resize2D, n *graph.Node, x string) string {
	s := n.Shape
	attrs := []attribute{
		{"mode", [...]string{graph.Nearest: "nearest", graph.Bilinear: "linear", graph.Bicubic: "cubic"}[o.Mode]},
		{"cubic_coeff_a", float32(-0.75)},
		{"nearest_mode", "floor"},
	}
	how := "half_pixel"
	switch {
	case o.Mode == graph.Nearest:
		how = "asymmetric"
	case o.AlignCorners:
		how = "align_corners"
	}
	attrs = append(attrs, attribute{"coordinate_transformation_mode", how})
	// Inputs: x, roi (none), scales (none), sizes.
	return e.op("Resize", []string{x, "", "", e.ints(s[0], s[3], s[1], s[2])}, attrs...)
}

func (e *exporter) shapes(n *graph.Node, in []string) (string, error) {
	switch o := n.Op.(type) {
	case graph.Reshape:
		return e.reshape(in[0], o.Shape...), nil
	case graph.Transpose:
		return e.transpose(in[0], o.Perm...), nil
	case graph.Slice:
		axes := make([]int, len(o.Begin))
		for i := range axes {
			axes[i] = i
		}
		return e.op("Slice", []string{in[0], e.ints(o.Begin...), e.ints(o.End...), e.ints(axes...), e.ints(o.Step...)}), nil
	case graph.Concat:
		return e.op("Concat", in, attribute{"axis", o.Axis}), nil
	case graph.Pad:
		return e.op("Pad", []string{in[0], e.ints(append(append([]int{}, o.Before...), o.After...)...), e.scalar(o.Value)}), nil
	case graph.Broadcast:
		return e.op("Expand", []string{in[0], e.ints(o.Shape...)}), nil
	case graph.Gather:
		return e.op("Gather", in, attribute{"axis", o.Axis}), nil
	case graph.Reduce:
		op := [...]string{graph.ReduceSum: "ReduceSum", graph.ReduceMean: "ReduceMean", graph.ReduceMax: "ReduceMax", graph.ReduceMin: "ReduceMin"}[o.Fn]
		keep := 0
		if o.Keep {
			keep = 1
		}
		return e.op(op, []string{in[0], e.ints(o.Axes...)}, attribute{"keepdims", keep}), nil
	case graph.ArgReduce:
		op := "ArgMax"
		if o.Min {
			op = "ArgMin"
		}
		y := e.op(op, in, attribute{"axis", o.Axis}, attribute{"keepdims", 0})
		return e.op("Cast", []string{y}, attribute{"to", dataType(n.DType)}), nil
	case graph.TopK:
		values, index := e.name("TopK"), e.name("TopK")
		e.nodes = append(e.nodes, node("TopK", values, []string{in[0], e.ints(o.K)}, []string{values, index}))
		if o.Index {
			return e.op("Cast", []string{index}, attribute{"to", dataType(n.DType)}), nil
		}
		return values, nil
	}
	return "", fmt.Errorf("%w: %s (%T)", ErrUnsupported, n.Op.Kind(), n.Op)
}
