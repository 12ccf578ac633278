// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"encoding/binary"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// message is a protobuf message under construction. The wire format is a list
// of (field number, wire type, value); field numbers are those of onnx.proto,
// IR version 9.
type message []byte

// Wire types of the protobuf encoding.
const (
	wireVarint = 0
	wireBytes  = 2
	wire32     = 5
)

func (m *message) tag(field, wire int) { *m = binary.AppendUvarint(*m, uint64(field<<3|wire)) }

func (m *message) integer(field int, v int64) {
	m.tag(field, wireVarint)
	*m = binary.AppendUvarint(*m, uint64(v))
}

func (m *message) text(field int, s string) {
	m.tag(field, wireBytes)
	*m = append(binary.AppendUvarint(*m, uint64(len(s))), s...)
}

func (m *message) bytes(field int, b []byte) { m.text(field, string(b)) }

func (m *message) float(field int, f float32) {
	m.tag(field, wire32)
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(f))
}

// Attributes of a node (AttributeProto).
type attribute struct {
	name  string
	value any // int, float32, string or []int
}

func (a attribute) encode() []byte {
	const (
		fieldName, fieldF, fieldI, fieldS, fieldInts, fieldType = 1, 2, 3, 4, 8, 20
		typeFloat, typeInt, typeString, typeInts                = 1, 2, 3, 7
	)
	var m message
	m.text(fieldName, a.name)
	switch v := a.value.(type) {
	case float32:
		m.float(fieldF, v)
		m.integer(fieldType, typeFloat)
	case int:
		m.integer(fieldI, int64(v))
		m.integer(fieldType, typeInt)
	case string:
		m.text(fieldS, v)
		m.integer(fieldType, typeString)
	case []int:
		for _, x := range v {
			m.integer(fieldInts, int64(x))
		}
		m.integer(fieldType, typeInts)
	}
	return m
}

// node encodes a NodeProto.
func node(op, name string, in, out []string, attrs ...attribute) []byte {
	const fieldInput, fieldOutput, fieldName, fieldOp, fieldAttr = 1, 2, 3, 4, 5
	var m message
	for _, s := range in {
		m.text(fieldInput, s)
	}
	for _, s := range out {
		m.text(fieldOutput, s)
	}
	m.text(fieldName, name)
	m.text(fieldOp, op)
	for _, a := range attrs {
		m.bytes(fieldAttr, a.encode())
	}
	return m
}

// dataType is the TensorProto.DataType of a dtype, 0 for one that ONNX lacks.
func dataType(d tensor.DType) int {
	switch d {
	case tensor.F32:
		return 1
	case tensor.U8:
		return 2
	case tensor.I8:
		return 3
	case tensor.I32:
		return 6
	case tensor.I64:
		return 7
	case tensor.Bool:
		return 9
	case tensor.F16:
		return 10
	case tensor.F64:
		return 11
	case tensor.BF16:
		return 16
	}
	return 0
}

// Fields of TensorProto.
const (
	tensorDims, tensorType, tensorName, tensorRaw = 1, 2, 8, 9
	tensorExternal, tensorLocation                = 13, 14
	locationExternal                              = 1
)

func tensorHead(name string, d tensor.DType, shape tensor.Shape) message {
	var m message
	for _, n := range shape {
		m.integer(tensorDims, int64(n))
	}
	m.integer(tensorType, int64(dataType(d)))
	m.text(tensorName, name)
	return m
}

// inlineTensor is a TensorProto with its bytes in it.
func inlineTensor(name string, d tensor.DType, shape tensor.Shape, raw []byte) []byte {
	m := tensorHead(name, d, shape)
	m.bytes(tensorRaw, raw)
	return m
}

// externalTensor is a TensorProto whose bytes are in another file.
func externalTensor(name string, d tensor.DType, shape tensor.Shape, file string, offset, length int64) []byte {
	m := tensorHead(name, d, shape)
	for _, kv := range [][2]string{{"location", file}, {"offset", itoa(offset)}, {"length", itoa(length)}} {
		var e message
		e.text(1, kv[0])
		e.text(2, kv[1])
		m.bytes(tensorExternal, e)
	}
	m.integer(tensorLocation, locationExternal)
	return m
}

// valueInfo is a ValueInfoProto: a name with type and shape.
func valueInfo(name string, d tensor.DType, shape tensor.Shape) []byte {
	var dims message
	for _, n := range shape {
		var dim message
		dim.integer(1, int64(n))
		dims.bytes(1, dim)
	}
	var t message
	t.integer(1, int64(dataType(d)))
	t.bytes(2, dims)
	var typ message
	typ.bytes(1, t)
	var m message
	m.text(1, name)
	m.bytes(2, typ)
	return m
}
