// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// storageShared is MTLResourceStorageModeShared with the default cache mode and
// hazard tracking: the GPU orders dependent work by itself.
const storageShared = 0

// Buffer is an MTLBuffer in shared storage.
type Buffer struct {
	dev   *Device
	id    objc.ID
	bytes []byte // the host's view; for a no-copy buffer the caller's memory
	freed atomic.Bool
}

// NewBuffer allocates n bytes, n > 0. The contents are unspecified.
func (d *Device) NewBuffer(n int) (*Buffer, error) {
	if err := d.checkSize(n); err != nil {
		return nil, err
	}
	var b *Buffer
	var err error
	objc.WithPool(func() {
		id := newBufferWithLength.Send(d.id, uint64(n), storageShared)
		if id == 0 {
			err = &AllocError{Size: uint64(n)}
			return
		}
		p := bufferContents.Send(id)
		if p == nil {
			objc.Release(id)
			err = fmt.Errorf("metal: buffer of %d bytes is not visible to the host", n)
			return
		}
		b = &Buffer{dev: d, id: id, bytes: unsafe.Slice((*byte)(p), n)}
		d.live.Add(1)
	})
	return b, err
}

// NewBufferNoCopy lays a buffer over mem without copying it. mem must be mapped
// memory, not Go's heap: it must start on a page boundary, and since Metal wants
// whole pages the buffer covers the rest of the last page too, which a mapping
// always has. mem must stay mapped until the buffer is released and the GPU is
// done with it.
func (d *Device) NewBufferNoCopy(mem []byte) (*Buffer, error) {
	if err := d.checkSize(len(mem)); err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	start := unsafe.Pointer(unsafe.SliceData(mem))
	if uintptr(start)%uintptr(page) != 0 {
		return nil, fmt.Errorf("metal: memory at %#x is not aligned to the page size %d", uintptr(start), page)
	}
	length := uint64(len(mem)+page-1) &^ uint64(page-1)
	if length > d.info.MaxBuffer {
		return nil, &AllocError{Size: length, Limit: d.info.MaxBuffer}
	}
	var b *Buffer
	var err error
	objc.WithPool(func() {
		id := newBufferNoCopy.Send(d.id, start, length, storageShared, 0)
		if id == 0 {
			err = &AllocError{Size: length}
			return
		}
		b = &Buffer{dev: d, id: id, bytes: mem}
		d.live.Add(1)
	})
	return b, err
}

func (d *Device) checkSize(n int) error {
	if d.id == 0 {
		return ErrClosed
	}
	if n <= 0 {
		return fmt.Errorf("metal: buffer of %d bytes, want at least 1", n)
	}
	if uint64(n) > d.info.MaxBuffer {
		return &AllocError{Size: uint64(n), Limit: d.info.MaxBuffer}
	}
	return nil
}

// ID is the MTLBuffer; it belongs to b.
func (b *Buffer) ID() objc.ID { return b.id }

// Len is the size in bytes.
func (b *Buffer) Len() int { return len(b.bytes) }

// Bytes is the host's view. While the GPU writes, its contents are undefined.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Release frees the buffer; command buffers that use it keep it alive until
// they are done. Calling it again does nothing.
func (b *Buffer) Release() {
	if b.freed.Swap(true) {
		return
	}
	objc.WithPool(func() { objc.Release(b.id) })
	b.dev.live.Add(-1)
	b.bytes = nil
}
