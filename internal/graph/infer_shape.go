// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func (o Reshape) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if err := o.Shape.Check(in[0].DType.Size()); err != nil {
		return nil, 0, err
	}
	if o.Shape.Numel() != in[0].Numel() {
		return nil, 0, shapeErr("%v has %d elements, want %d for %v", in[0], in[0].Numel(), o.Shape.Numel(), o.Shape)
	}
	return o.Shape, in[0].DType, nil
}

func (o Transpose) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	if len(o.Perm) != len(x.Shape) {
		return nil, 0, shapeErr("permutation %v for %v", o.Perm, x)
	}
	seen := make([]bool, len(x.Shape))
	out := make(tensor.Shape, len(x.Shape))
	for i, p := range o.Perm {
		if p < 0 || p >= len(seen) || seen[p] {
			return nil, 0, shapeErr("%v is not a permutation of %d axes", o.Perm, len(seen))
		}
		seen[p] = true
		out[i] = x.Shape[p]
	}
	return out, x.DType, nil
}

func (o Slice) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	r := len(x.Shape)
	if len(o.Begin) != r || len(o.End) != r || len(o.Step) != r {
		return nil, 0, shapeErr("begin %v, end %v, step %v for %v", o.Begin, o.End, o.Step, x)
	}
	out := make(tensor.Shape, r)
	for i, d := range x.Shape {
		b, e, s := o.Begin[i], o.End[i], o.Step[i]
		if s < 1 || b < 0 || e < b || e > d {
			return nil, 0, shapeErr("axis %d: %d:%d:%d of %d", i, b, e, s, d)
		}
		out[i] = (e - b + s - 1) / s
	}
	return out, x.DType, nil
}

func (o Concat) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if len(in) == 0 {
		return nil, 0, shapeErr("no operand")
	}
	a, err := axisIn(o.Axis, len(in[0].Shape))
	if err != nil {
		return nil, 0, err
	}
	out := in[0].Shape.Clone()
	for i, x := range in[1:] {
		if x.DType != in[0].DType {
			return nil, 0, dtypeErr("operand %d is %v, want %v", i+1, x.DType, in[0].DType)
		}
		if len(x.Shape) != len(out) {
			return nil, 0, shapeErr("operand %d is %v, want %d dimensions", i+1, x, len(out))
		}
		for j, d := range x.Shape {
			if j != a && d != out[j] {
				return nil, 0, shapeErr("operand %d is %v: dimension %d is %d, want %d", i+1, x, j, d, out[j])
			}
		}
		out[a] += x.Shape[a]
	}
	return out, in[0].DType, nil
}

func (o Pad) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	x := in[0]
	if len(o.Before) != len(x.Shape) || len(o.After) != len(x.Shape) {
		return nil, 0, shapeErr("before %v, after %v for %v", o.Before, o.After, x)
	}
	out := x.Shape.Clone()
	for i := range out {
		if o.Before[i] < 0 || o.After[i] < 0 {
			return nil, 0, shapeErr("negative padding: before %v, after %v", o.Before, o.After)
		}
		out[i] += o.Before[i] + o.After[i]
	}
	return out, x.DType, isFloat(x, "x")
}

func (o Broadcast) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	s, err := broadcastShapes(in[0].Shape, o.Shape)
	if err == nil && !s.Equal(o.Shape) {
		err = shapeErr("%v does not broadcast to %v", in[0], o.Shape)
	}
	return o.Shape, in[0].DType, err
}

func (o Gather) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	x, idx := in[0], in[1]
	if idx.DType != tensor.I32 && idx.DType != tensor.I64 {
		return nil, 0, dtypeErr("index is %v, want i32 or i64", idx.DType)
	}
	a, err := axisIn(o.Axis, len(x.Shape))
	if err != nil {
		return nil, 0, err
	}
	out := append(tensor.Shape{}, x.Shape[:a]...)
	out = append(out, idx.Shape...)
	return append(out, x.Shape[a+1:]...), x.DType, nil
}
