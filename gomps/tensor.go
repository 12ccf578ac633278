// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Tensor is a float32 array of a result, in device memory that the host can
// read. It owns that memory until Release, or until it is garbage-collected.
type Tensor struct {
	shape tensor.Shape
	// mem is apart from Tensor so that the cleanup of a forgotten Tensor can hold
	// it without holding the Tensor itself.
	mem *tensorMemory
}

type tensorMemory struct {
	buf atomic.Pointer[backend.Buffer]
}

func (m *tensorMemory) release() {
	if b := m.buf.Swap(nil); b != nil {
		(*b).Release()
	}
}

func newTensor(shape tensor.Shape, buf backend.Buffer) *Tensor {
	t := &Tensor{shape: shape, mem: &tensorMemory{}}
	t.mem.buf.Store(&buf)
	runtime.AddCleanup(t, (*tensorMemory).release, t.mem)
	return t
}

// Shape is a copy of the dimensions, slowest first.
func (t *Tensor) Shape() []int { return t.shape.Clone() }

// DType is "f32".
func (t *Tensor) DType() string { return tensor.F32.String() }

// Numel is the number of elements.
func (t *Tensor) Numel() int { return t.shape.Numel() }

// NBytes is the size in bytes.
func (t *Tensor) NBytes() int { return t.shape.Numel() * tensor.F32.Size() }

// Valid reports whether the tensor still has its memory.
func (t *Tensor) Valid() bool { return t != nil && t.mem.buf.Load() != nil }

// Fetch copies the elements to the host if needed and returns any error. Float32s
// does the same but cannot return an error.
func (t *Tensor) Fetch() error {
	b := t.mem.buf.Load()
	if b == nil || t.shape.Numel() == 0 {
		return nil
	}
	if err := (*b).Fetch(); err != nil {
		return deviceError("read a result", err)
	}
	return nil
}

// Device is the address of the elements in memory that the host cannot read, and
// the number of the GPU. ok is false for a tensor in host memory, and after
// Release. The address is valid until Release.
func (t *Tensor) Device() (address uintptr, id int, ok bool) {
	b := t.mem.buf.Load()
	if b == nil {
		return 0, 0, false
	}
	d, ok := (*b).(backend.DeviceMemory)
	if !ok {
		return 0, 0, false
	}
	address, id, err := d.Device()
	return address, id, err == nil
}

// Float32s is the tensor's own memory as a slice, row-major; nil after Release,
// and when it cannot be fetched. The slice is valid as long as t is referenced and
// not released.
func (t *Tensor) Float32s() []float32 {
	b := t.mem.buf.Load()
	n := t.shape.Numel()
	if b == nil || n == 0 {
		return nil
	}
	bytes := (*b).Bytes()
	if bytes == nil {
		return nil
	}
	return float32s(bytes, n)
}

// CopyTo copies the elements into dst, which must have exactly Numel elements.
func (t *Tensor) CopyTo(dst []float32) error {
	if !t.Valid() {
		return &ShapeError{"CopyTo", "a released tensor", "a valid one"}
	}
	if len(dst) != t.Numel() {
		return &ShapeError{"CopyTo", fmt.Sprintf("room for %d elements", len(dst)), fmt.Sprintf("%d for %v", t.Numel(), t.shape)}
	}
	if err := t.Fetch(); err != nil {
		return err
	}
	copy(dst, t.Float32s())
	runtime.KeepAlive(t)
	return nil
}

// Release gives the memory back. Calling it again does nothing.
func (t *Tensor) Release() { t.mem.release() }
