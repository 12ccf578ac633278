// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"errors"
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Data is an MPSGraphTensorData: packed elements in a buffer.
type Data struct {
	id    objc.ID
	value Value
	buf   *device.Buffer // keeps the host's view of the memory alive
}

func (d *Data) String() string {
	if d == nil {
		return "nil"
	}
	return d.value.String()
}

// NewData describes elements at an offset of a buffer, without a copy.
//
// At offset 0 the tensor data wraps the buffer itself, which MPSGraph takes as
// packed. MPSGraphTensorData knows no offset, so a weight inside a mapped file
// goes through an MPSNDArray, whose descriptor must ask for packed rows: the
// default would let MPS assume padding. PyTorch feeds its storages the same way.
func NewData(b *device.Buffer, offset int, shape tensor.Shape, d tensor.DType) (*Data, error) {
	if err := checkValue(shape, d); err != nil {
		return nil, fmt.Errorf("mpsgraph: data: %w", err)
	}
	v := Value{shape.Clone(), d}
	if offset < 0 || offset > b.Len() || v.Bytes() > b.Len()-offset {
		return nil, fmt.Errorf("mpsgraph: data %v at offset %d needs %d bytes, the buffer has %d", v, offset, v.Bytes(), b.Len())
	}
	// Metal reads elements at multiples of their size only.
	if offset%d.Size() != 0 {
		return nil, fmt.Errorf("mpsgraph: data %v at offset %d is not aligned to its elements", v, offset)
	}
	dims := objc.Integers(shape)
	var id objc.ID
	if offset == 0 {
		id = initWithBuffer.Send(objc.Alloc(tensorDataClass), b.ID(), dims, dataTypes[d])
	} else {
		desc := arrayDescriptor.Send(arrayDescClass.ID, dataTypes[d], dims)
		setPreferPackedRows.Send(desc, true)
		array := initArray.Send(objc.Alloc(arrayClass), b.ID(), uint64(offset), desc)
		if array == 0 {
			return nil, fmt.Errorf("mpsgraph: no array %v at offset %d", v, offset)
		}
		defer objc.Release(array)
		id = initWithNDArray.Send(objc.Alloc(tensorDataClass), array)
	}
	if id == 0 {
		return nil, errors.New("mpsgraph: no tensor data for " + v.String())
	}
	return &Data{id: id, value: v, buf: b}, nil
}

// Value is the shape and type.
func (d *Data) Value() Value { return d.value }

// Release drops the description, not the buffer. It may be called again.
func (d *Data) Release() {
	objc.Release(d.id)
	d.id = 0
}
