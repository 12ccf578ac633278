// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// class is a name that a pickle may use. make takes the place of calling it.
type class struct {
	name string
	make func(m *machine, args Tuple) (Value, error)
	// storage is the element type of a torch storage class.
	storage tensor.DType
}

// classes is every name that is not refused.
var classes = map[string]*class{}

func init() {
	constructors := map[string]func(*machine, Tuple) (Value, error){
		"collections.OrderedDict":         makeDict,
		"collections.defaultdict":         makeDefaultDict,
		"argparse.Namespace":              makeNamespace,
		"torch.Size":                      makeSize,
		"torch._utils._rebuild_tensor":    makeTensor,
		"torch._utils._rebuild_tensor_v2": makeTensor,
		"torch._utils._rebuild_parameter": makeParameter,
		"torch.device":                    makeDevice,
		"_codecs.encode":                  makeBytes,
		"numpy.dtype":                     makeDType,
		"numpy.ndarray":                   nil,
	}
	for _, name := range []string{"pathlib.PosixPath", "pathlib.PurePosixPath", "pathlib._local.PosixPath"} {
		constructors[name] = makePath // a training script's output folder
	}
	// numpy 2 renamed its private modules; files of both are about.
	for _, core := range []string{"numpy.core", "numpy._core"} {
		constructors[core+".multiarray._reconstruct"] = makeArray
		constructors[core+".multiarray.scalar"] = makeScalar
		constructors[core+".numeric._frombuffer"] = makeFromBuffer
	}
	for name, f := range constructors {
		classes[name] = &class{name: name, make: f}
	}
	for name, d := range storages {
		name = "torch." + name + "Storage"
		classes[name] = &class{name: name, storage: d}
	}
	for _, name := range torchDTypes {
		classes["torch."+name] = &class{name: "torch." + name}
	}
}

// storages are torch's names of the element types that a model may have.
var storages = map[string]tensor.DType{
	"Double": tensor.F64, "Float": tensor.F32, "Half": tensor.F16, "BFloat16": tensor.BF16,
	"Long": tensor.I64, "Int": tensor.I32, "Short": tensor.I16, "Char": tensor.I8,
	"Byte": tensor.U8, "Bool": tensor.Bool,
}

// torchDTypes may stand among a training script's arguments.
var torchDTypes = []string{"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}

// makeDict is OrderedDict() or OrderedDict([[k, v], ...]).
func makeDict(m *machine, args Tuple) (Value, error) {
	d := &Dict{}
	if len(args) == 0 {
		return d, nil
	}
	l, ok := args[0].(*List)
	if !ok || len(args) != 1 {
		return nil, fmt.Errorf("%d arguments, want none or a list", len(args))
	}
	if err := m.spend(len(l.Items)); err != nil {
		return nil, err
	}
	for _, item := range l.Items {
		pair, err := pairOf(item)
		if err != nil {
			return nil, err
		}
		if err := d.set(pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func pairOf(v Value) (Tuple, error) {
	switch v := v.(type) {
	case Tuple:
		if len(v) == 2 {
			return v, nil
		}
	case *List:
		if len(v.Items) == 2 {
			return v.Items, nil
		}
	}
	return nil, fmt.Errorf("an item of type %s, want a key and a value", TypeName(v))
}

func makeNamespace(_ *machine, args Tuple) (Value, error) {
	if len(args) != 0 {
		return nil, fmt.Errorf("%d arguments, want none", len(args))
	}
	return &Object{Class: "argparse.Namespace", Attrs: &Dict{}}, nil
}

// makeSize gives torch.Size(sizes), a tuple.
func makeSize(_ *machine, args Tuple) (Value, error) {
	if len(args) == 1 {
		if t, ok := args[0].(Tuple); ok {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%d arguments, want a tuple", len(args))
}

func makeDevice(_ *machine, args Tuple) (Value, error) {
	if len(args) > 0 {
		if s, ok := args[0].(string); ok {
			return Name("torch.device:" + s), nil
		}
	}
	return nil, fmt.Errorf("%d arguments, want the name of a device", len(args))
}

func makePath(_ *machine, args Tuple) (Value, error) {
	for _, a := range args {
		if _, ok := a.(string); !ok {
			return nil, fmt.Errorf("a part of type %s, want str", TypeName(a))
		}
	}
	return Name("path"), nil // which one, no model asks
}

// makeBytes is encode(text, "latin1"), protocol 2's way of writing bytes.
func makeBytes(m *machine, args Tuple) (Value, error) {
	if len(args) == 2 {
		text, ok := args[0].(string)
		if ok && args[1] == Value("latin1") {
			// One text may be encoded again and again by five bytes of pickle.
			if err := m.charge(len(text)); err != nil {
				return nil, err
			}
			b := make([]byte, 0, len(text))
			for _, r := range text {
				if r > math.MaxUint8 {
					return nil, fmt.Errorf("character %q is not in latin1", r)
				}
				b = append(b, byte(r))
			}
			return b, nil
		}
	}
	return nil, fmt.Errorf("%d arguments, want a text and latin1", len(args))
}

// storage reads the persistent id of a torch storage:
// ("storage", class, key, location, number of elements).
func storage(id Value) (*Storage, error) {
	t, ok := id.(Tuple)
	if !ok || len(t) != 5 || t[0] != Value("storage") {
		return nil, fmt.Errorf(`a %s, want ("storage", class, key, location, size)`, TypeName(id))
	}
	c, ok := t[1].(*class)
	if !ok || c.storage == tensor.Invalid {
		return nil, fmt.Errorf("a storage of class %s, want one of torch's", TypeName(t[1]))
	}
	key, ok := t[2].(string)
	if !ok {
		return nil, fmt.Errorf("a storage key of type %s, want str", TypeName(t[2]))
	}
	n, err := count(t[4])
	if err != nil {
		return nil, fmt.Errorf("storage %q: size: %w", short(key), err)
	}
	return &Storage{DType: c.storage, Key: key, Numel: n}, nil
}

// makeTensor is _rebuild_tensor_v2(storage, offset, size, stride, ...); what
// follows is about gradients.
func makeTensor(_ *machine, args Tuple) (Value, error) {
	if len(args) < 4 {
		return nil, fmt.Errorf("%d arguments, want at least 4", len(args))
	}
	s, ok := args[0].(*Storage)
	if !ok {
		return nil, fmt.Errorf("a %s, want a storage", TypeName(args[0]))
	}
	offset, err := count(args[1])
	if err != nil {
		return nil, fmt.Errorf("offset: %w", err)
	}
	shape, err := counts(args[2])
	if err != nil {
		return nil, fmt.Errorf("size: %w", err)
	}
	stride, err := counts(args[3])
	if err != nil {
		return nil, fmt.Errorf("stride: %w", err)
	}
	if len(shape) != len(stride) {
		return nil, fmt.Errorf("%d sizes and %d strides", len(shape), len(stride))
	}
	return &Tensor{Storage: s, Offset: offset, Shape: shape, Stride: stride}, nil
}

// makeParameter is _rebuild_parameter(data, requires_grad, hooks).
func makeParameter(_ *machine, args Tuple) (Value, error) {
	if len(args) > 0 {
		if t, ok := args[0].(*Tensor); ok {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%d arguments, want a tensor", len(args))
}

// count reads a number of things.
func count(v Value) (int, error) {
	n, ok := v.(int64)
	if !ok || n < 0 || n > math.MaxInt {
		return 0, fmt.Errorf("%s %v, want an integer from 0", TypeName(v), scalarText(v))
	}
	return int(n), nil
}

func scalarText(v Value) string {
	switch v := v.(type) {
	case int64, float64, bool:
		return fmt.Sprint(v)
	case string:
		return short(v)
	}
	return "value"
}

// maxDims is far above any tensor's rank.
const maxDims = 32

func counts(v Value) ([]int, error) {
	t, ok := v.(Tuple)
	if !ok || len(t) > maxDims {
		return nil, fmt.Errorf("a %s, want a tuple of at most %d", TypeName(v), maxDims)
	}
	list := make([]int, len(t))
	for i, v := range t {
		var err error
		if list[i], err = count(v); err != nil {
			return nil, err
		}
	}
	return list, nil
}
