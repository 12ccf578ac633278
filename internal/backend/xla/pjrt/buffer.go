// SPDX-License-Identifier: Apache-2.0

package pjrt

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Type is an element type, PJRT_Buffer_Type.
type Type int32

// The element types that are used.
const (
	Pred Type = 1
	S32  Type = 4
	S64  Type = 5
	U8   Type = 6
	F16  Type = 10
	F32  Type = 11
	F64  Type = 12
	BF16 Type = 13
)

// Buffer is an array on a device. It never changes: an execution makes new ones.
type Buffer struct {
	p      *Plugin
	handle uintptr
}

// semanticsDuringCall: the plugin has copied the bytes when the call returns.
const semanticsDuringCall = 0

// Upload copies data to the device, row-major.
func (d *Device) Upload(data []byte, t Type, dims []int64) (*Buffer, error) {
	args := &fromHostArgs{
		client: d.c.handle, data: unsafe.Pointer(unsafe.SliceData(data)), kind: int32(t), semantics: semanticsDuringCall,
		dims: unsafe.SliceData(dims), numDims: uintptr(len(dims)), device: d.handle,
	}
	err := call(d.c.p, clientBufferFromHostBuffer, args)
	runtime.KeepAlive(data)
	runtime.KeepAlive(dims)
	if err != nil {
		return nil, fmt.Errorf("pjrt: upload %d bytes: %w", len(data), err)
	}
	b := &Buffer{d.c.p, args.buffer}
	e := Event{d.c.p, args.doneWithHost}
	if err := e.Await(); err != nil {
		b.Close()
		return nil, fmt.Errorf("pjrt: upload %d bytes: %w", len(data), err)
	}
	return b, nil
}

// Download copies the array to dst, row-major, and waits for it.
func (b *Buffer) Download(dst []byte) error {
	args := &toHostArgs{buffer: b.handle, dst: unsafe.Pointer(unsafe.SliceData(dst)), size: uintptr(len(dst))}
	var pin runtime.Pinner
	defer pin.Unpin()
	if len(dst) > 0 {
		pin.Pin(unsafe.SliceData(dst)) // the copy goes on after the call
	}
	if err := call(b.p, bufferToHostBuffer, args); err != nil {
		return fmt.Errorf("pjrt: download %d bytes: %w", len(dst), err)
	}
	e := Event{b.p, args.event}
	if err := e.Await(); err != nil {
		return fmt.Errorf("pjrt: download %d bytes: %w", len(dst), err)
	}
	return nil
}

// Pointer is the array's address on the device, which is valid until Close.
func (b *Buffer) Pointer() (uintptr, error) {
	args := &bufferValueArgs{buffer: b.handle}
	err := call(b.p, bufferDevicePointer, args)
	return args.value, err
}

// Ready is an event that happens when the array's elements are there.
func (b *Buffer) Ready() (*Event, error) {
	args := &bufferValueArgs{buffer: b.handle}
	if err := call(b.p, bufferReadyEvent, args); err != nil {
		return nil, err
	}
	return &Event{b.p, args.value}, nil
}

// Close frees the array; the device keeps it until what was started with it is
// done.
func (b *Buffer) Close() {
	if b == nil || b.handle == 0 {
		return
	}
	// A failure here would mean a handle that is none.
	_ = call(b.p, bufferDestroy, &bufferArgs{buffer: b.handle})
	b.handle = 0
}

// Event is something that a device has yet to do.
type Event struct {
	p      *Plugin
	handle uintptr
}

// Await waits, frees the event and returns what went wrong.
func (e *Event) Await() error {
	if e == nil || e.handle == 0 {
		return nil
	}
	err := call(e.p, eventAwait, &eventArgs{event: e.handle})
	e.Close()
	return err
}

// Close frees an event that nobody waits for.
func (e *Event) Close() {
	if e.handle != 0 {
		_ = call(e.p, eventDestroy, &eventArgs{event: e.handle})
		e.handle = 0
	}
}
