// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	eager "github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// tensor is what a tensor handle stands for: a result's tensor or an array of matches. One of
// an eager tensor stands for that itself, which is made so often that a struct around it would
// be noticed.
type tensor struct {
	eager *eager.Tensor // see lookupTensor; has no host memory, and says itself what it is: the fields below are zero

	shape []int
	dtype C.int32_t
	size  int           // bytes of an element
	mem   *gomps.Tensor // nil for matches
	host  func() unsafe.Pointer

	mu     sync.Mutex
	pinned runtime.Pinner // set while C may hold the pointer
	data   unsafe.Pointer
}

// tensorHandle is 0 for an output that was left out.
func tensorHandle(t *gomps.Tensor) C.mast3r_tensor {
	if t == nil {
		return 0
	}
	return C.mast3r_tensor(handles.add(kindTensor, &tensor{
		shape: t.Shape(),
		dtype: C.MAST3R_F32,
		size:  4,
		mem:   t,
		host:  func() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(t.Float32s())) },
	}))
}

func sliceHandle[T int32 | int64 | float32 | float64](data []T, shape ...int) C.mast3r_tensor {
	var zero T
	dtype := C.int32_t(C.MAST3R_F32)
	switch any(zero).(type) {
	case int32:
		dtype = C.MAST3R_I32
	case int64:
		dtype = C.MAST3R_I64
	case float64:
		dtype = C.MAST3R_F64
	}
	return C.mast3r_tensor(handles.add(kindTensor, &tensor{
		shape: shape,
		dtype: dtype,
		size:  int(unsafe.Sizeof(zero)),
		host:  func() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(data)) },
	}))
}

// kind is the shape, the element type and the bytes of an element.
func (t *tensor) kind() (shape []int, dtype C.int32_t, size int) {
	if t.eager != nil {
		return eagerKind(t.eager)
	}
	return t.shape, t.dtype, t.size
}

func numel(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// pointer is the host memory, nil for an empty tensor. Memory of the Go heap is
// pinned until the release, as cgo's rules ask for a pointer that C keeps.
func (t *tensor) pointer() unsafe.Pointer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.data == nil && numel(t.shape) > 0 {
		if p := t.host(); p != nil {
			t.pinned.Pin(p)
			t.data = p
		}
	}
	return t.data
}

func (t *tensor) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pinned.Unpin()
	t.data = nil
	if t.mem != nil {
		t.mem.Release()
	}
}

// lookupTensor is the tensor of a handle of either kind.
func lookupTensor(call string, h C.mast3r_tensor) (*tensor, error) {
	v, err := handles.get(call, uint64(h), kindTensor)
	if err != nil {
		return nil, err
	}
	if t, ok := v.(*eager.Tensor); ok {
		return &tensor{eager: t}, nil
	}
	return v.(*tensor), nil
}

//export m3r_tensor_describe
func m3r_tensor_describe(h C.mast3r_tensor, out *C.mast3r_tensor_desc) status {
	return done(func() error {
		const call = "mast3r_tensor_describe"
		if out == nil {
			return null(call, "out")
		}
		if err := sized(call, "description", out.size, unsafe.Sizeof(*out)); err != nil {
			return err
		}
		t, err := lookupTensor(call, h)
		if err != nil {
			return err
		}
		shape, dtype, size := t.kind()
		*out = C.mast3r_tensor_desc{
			size:   out.size,
			dtype:  dtype,
			ndim:   C.int32_t(len(shape)),
			valid:  flag(t.mem == nil || t.mem.Valid()),
			numel:  C.uint64_t(numel(shape)),
			nbytes: C.uint64_t(numel(shape) * size),
		}
		for i, d := range shape {
			out.shape[i] = C.int64_t(d)
		}
		return nil
	})
}

//export m3r_tensor_data
func m3r_tensor_data(h C.mast3r_tensor, out *unsafe.Pointer) status {
	return done(func() error {
		const call = "mast3r_tensor_data"
		if out == nil {
			return null(call, "out")
		}
		p, err := hostMemory(call, h)
		*out = p
		return err
	})
}

//export m3r_tensors_data
func m3r_tensors_data(tensors *C.mast3r_tensor, count C.size_t, out *unsafe.Pointer) status {
	return done(func() error {
		const call = "mast3r_tensors_data"
		if tensors == nil || out == nil {
			return null(call, "tensors or out")
		}
		if count > maxSide {
			return fail(C.MAST3R_E_ARGUMENT, "%s: %d tensors, want at most %d", call, count, maxSide)
		}
		pointers := unsafe.Slice(out, int(count))
		for i, h := range unsafe.Slice(tensors, int(count)) {
			pointers[i] = nil
			if h == 0 {
				continue
			}
			p, err := hostMemory(call, h)
			if err != nil {
				return err
			}
			pointers[i] = p
		}
		return nil
	})
}

// hostMemory is the memory of a tensor that has some; nil for an empty one.
func hostMemory(call string, h C.mast3r_tensor) (unsafe.Pointer, error) {
	t, err := lookupTensor(call, h)
	if err != nil {
		return nil, err
	}
	if t.eager != nil {
		return nil, fail(C.MAST3R_E_ARGUMENT, "%s: the tensor lives on a device, read it with mast3r_tensor_copy", call)
	}
	if t.mem != nil {
		if err := t.mem.Fetch(); err != nil {
			return nil, err
		}
	}
	return t.pointer(), nil
}

//export m3r_tensor_device
func m3r_tensor_device(h C.mast3r_tensor, kind, device *C.int32_t, address *unsafe.Pointer) status {
	return done(func() error {
		const call = "mast3r_tensor_device"
		if kind == nil || device == nil || address == nil {
			return null(call, "kind, device or address")
		}
		t, err := lookupTensor(call, h)
		if err != nil {
			return err
		}
		const host, cuda = 1, 2 // DLDeviceType
		if t.mem != nil {
			if at, id, ok := t.mem.Device(); ok {
				*kind, *device, *(*uintptr)(unsafe.Pointer(address)) = cuda, C.int32_t(id), at
				return nil
			}
		}
		*kind, *device = host, 0
		*address, err = hostMemory(call, h)
		return err
	})
}

//export m3r_tensor_copy
func m3r_tensor_copy(h C.mast3r_tensor, destination unsafe.Pointer, nbytes C.size_t) status {
	return done(func() error {
		const call = "mast3r_tensor_copy"
		t, err := lookupTensor(call, h)
		if err != nil {
			return err
		}
		shape, _, size := t.kind()
		want := numel(shape) * size
		if uint64(nbytes) != uint64(want) {
			return fail(C.MAST3R_E_SHAPE, "%s: %d bytes, want %d", call, nbytes, want)
		}
		if want == 0 {
			return nil
		}
		if destination == nil {
			return null(call, "destination")
		}
		if t.eager != nil {
			return named(call, t.eager.CopyBytes(unsafe.Slice((*byte)(destination), want)))
		}
		source, err := hostMemory(call, h)
		if err != nil {
			return err
		}
		copy(unsafe.Slice((*byte)(destination), want), unsafe.Slice((*byte)(source), want))
		runtime.KeepAlive(t)
		return nil
	})
}

//export m3r_tensor_release
func m3r_tensor_release(h C.mast3r_tensor) status {
	return done(func() error {
		v, err := handles.remove("mast3r_tensor_release", uint64(h), kindTensor)
		if err != nil {
			return err
		}
		switch t := v.(type) {
		case *eager.Tensor:
			t.Release()
		case *tensor:
			t.release()
		}
		return nil
	})
}
