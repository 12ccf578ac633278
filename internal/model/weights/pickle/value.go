// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Value is what a pickle can hold: nil (None), bool, int64, float64, string,
// []byte, Tuple, *List, *Dict, *Object, *Opaque, Name, *Storage, *Tensor or *Array.
type Value = any

// Tuple is a Python tuple, or a torch.Size.
type Tuple []Value

// List is a Python list.
type List struct{ Items []Value }

// Object is an argparse.Namespace: a class with attributes.
type Object struct {
	Class string
	Attrs *Dict
}

// Name is a value that is only a name, such as torch.float32.
type Name string

// Dict is a dict or OrderedDict, in insertion order. A key is a string, an
// int64, a bool or nil.
type Dict struct {
	keys   []Value
	values map[Value]Value
}

// Len is the number of items.
func (d *Dict) Len() int { return len(d.keys) }

// Get returns the value of a string key.
func (d *Dict) Get(key string) (Value, bool) {
	v, ok := d.values[key]
	return v, ok
}

// All calls yield for each item whose key is a string, in order.
func (d *Dict) All(yield func(key string, value Value) bool) {
	for _, k := range d.keys {
		if s, ok := k.(string); ok && !yield(s, d.values[k]) {
			return
		}
	}
}

// set adds or replaces an item; a later value wins, as in Python.
func (d *Dict) set(key, value Value) error {
	switch key.(type) {
	case nil, bool, int64, string:
	default:
		return fmt.Errorf("a dict key of type %s, want str, int, bool or None", TypeName(key))
	}
	if d.values == nil {
		d.values = map[Value]Value{}
	}
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
	return nil
}

// Storage is a torch storage, kept outside the pickle under Key.
type Storage struct {
	DType tensor.DType
	Key   string
	Numel int
}

// Tensor is a view into a storage; offset and strides count elements. Nothing
// but the signs was checked: the storage's true size is not in the pickle.
type Tensor struct {
	Storage *Storage
	Offset  int
	Shape   tensor.Shape
	Stride  []int
}

// Array is a numpy array. Data is a view into the pickle, of the size that shape
// and dtype demand. Fortran arrays run along the first index.
type Array struct {
	DType   tensor.DType
	Shape   tensor.Shape
	Fortran bool
	Data    []byte
}

// TypeName is how Python calls the type of a value, for errors.
func TypeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []byte:
		return "bytes"
	case Tuple:
		return "tuple"
	case *List:
		return "list"
	case *Dict:
		return "dict"
	case *Object:
		return v.Class
	case *Opaque:
		return v.Class
	case *Storage:
		return "storage"
	case *Tensor:
		return "tensor"
	case *Array:
		return "ndarray"
	case *class:
		return "class " + v.name
	case *dtype:
		return "dtype"
	}
	return fmt.Sprintf("%T", v)
}
