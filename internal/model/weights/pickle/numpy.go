// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// dtype is numpy.dtype(kind, align, copy); its byte order comes with its state.
type dtype struct {
	d    tensor.DType
	kind string
}

// numpyTypes are the kinds that numpy writes, without byte order.
var numpyTypes = map[string]tensor.DType{
	"f8": tensor.F64, "f4": tensor.F32, "f2": tensor.F16,
	"i8": tensor.I64, "i4": tensor.I32, "i2": tensor.I16, "i1": tensor.I8,
	"u8": tensor.U64, "u4": tensor.U32, "u2": tensor.U16, "u1": tensor.U8, "b1": tensor.Bool,
}

func makeDType(_ *machine, args Tuple) (Value, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("no arguments, want a kind")
	}
	kind, ok := args[0].(string)
	d, known := numpyTypes[kind]
	if !ok || !known {
		return nil, fmt.Errorf("kind %s %q, want a number type such as f4", TypeName(args[0]), scalarText(args[0]))
	}
	return &dtype{d, kind}, nil
}

// build checks (version, byte order, ...): only plain little-endian numbers.
func (d *dtype) build(state Value) error {
	t, ok := state.(Tuple)
	if !ok || len(t) < 5 {
		return fmt.Errorf("state of numpy.dtype %s: a %s, want (version, byte order, ...)", d.kind, TypeName(state))
	}
	order, ok := t[1].(string)
	if !ok || order != "<" && order != "|" {
		return fmt.Errorf("numpy.dtype %s of byte order %q, want little-endian", d.kind, scalarText(t[1]))
	}
	for _, v := range t[2:5] { // subarray, names, fields
		if v != nil {
			return fmt.Errorf("numpy.dtype %s with fields, want plain numbers", d.kind)
		}
	}
	return nil
}

// makeArray is _reconstruct(ndarray, (0,), b"b"): an array that waits for its
// state.
func makeArray(_ *machine, args Tuple) (Value, error) {
	if len(args) != 3 {
		return nil, fmt.Errorf("%d arguments, want 3", len(args))
	}
	if c, ok := args[0].(*class); !ok || c.name != "numpy.ndarray" {
		return nil, fmt.Errorf("a subclass of ndarray, %s, want ndarray itself", TypeName(args[0]))
	}
	return &Array{DType: tensor.U8, Shape: tensor.Shape{0}}, nil
}

// build takes (version, shape, dtype, is Fortran, bytes).
func (a *Array) build(state Value) error {
	t, ok := state.(Tuple)
	if !ok || len(t) != 5 {
		return fmt.Errorf("state of ndarray: a %s, want (version, shape, dtype, order, bytes)", TypeName(state))
	}
	fortran, ok := t[3].(bool)
	if !ok {
		return fmt.Errorf("state of ndarray: order is a %s, want bool", TypeName(t[3]))
	}
	return a.fill(t[4], t[2], t[1], fortran)
}

// fill checks an array's parts against each other.
func (a *Array) fill(data, kind, shape Value, fortran bool) error {
	b, ok := data.([]byte)
	if !ok {
		return fmt.Errorf("ndarray: contents of type %s, want bytes", TypeName(data))
	}
	d, ok := kind.(*dtype)
	if !ok {
		return fmt.Errorf("ndarray: a dtype of type %s", TypeName(kind))
	}
	dims, err := counts(shape)
	if err != nil {
		return fmt.Errorf("ndarray: shape: %w", err)
	}
	s := tensor.Shape(dims)
	if err := s.Check(d.d.Size()); err != nil {
		return fmt.Errorf("ndarray: %w", err)
	}
	if want := s.Numel() * d.d.Size(); len(b) != want {
		return fmt.Errorf("ndarray: %d bytes, want %d for %v of %v", len(b), want, s, d.d)
	}
	a.DType, a.Shape, a.Fortran, a.Data = d.d, s, fortran, b
	return nil
}

// makeFromBuffer is _frombuffer(bytes, dtype, shape, order), protocol 5's form.
func makeFromBuffer(_ *machine, args Tuple) (Value, error) {
	if len(args) != 4 {
		return nil, fmt.Errorf("%d arguments, want 4", len(args))
	}
	order, ok := args[3].(string)
	if !ok || order != "C" && order != "F" {
		return nil, fmt.Errorf("order %q, want C or F", scalarText(args[3]))
	}
	a := &Array{}
	return a, a.fill(args[0], args[1], args[2], order == "F")
}

// makeScalar is scalar(dtype, bytes): an array without dimensions.
func makeScalar(_ *machine, args Tuple) (Value, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("%d arguments, want 2", len(args))
	}
	a := &Array{}
	return a, a.fill(args[1], args[0], Tuple{}, false)
}
