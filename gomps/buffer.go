// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"fmt"
	"runtime"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// Buffer is device memory from the engine's pool that the host can read and
// write. It returns to the pool at Release, or when it is garbage-collected.
type Buffer struct {
	length int
	mem    *tensorMemory
}

// Acquire takes a buffer of n bytes, with unspecified contents, from the pool.
func (e *Engine) Acquire(n int) (*Buffer, error) {
	if n < 1 {
		return nil, &ShapeError{"buffer", fmt.Sprintf("%d bytes", n), "at least 1"}
	}
	if e.isClosed() {
		return nil, ErrClosed
	}
	buf, err := e.dev.Alloc(n)
	if err != nil {
		return nil, deviceError(fmt.Sprintf("allocate %d bytes", n), err)
	}
	b := &Buffer{length: n, mem: &tensorMemory{}}
	b.mem.buf.Store(&buf)
	runtime.AddCleanup(b, (*tensorMemory).release, b.mem)
	return b, nil
}

// Native is the MTLDevice and the MTLCommandQueue of an engine on Metal, 0 on other
// devices. They live as long as the engine is open.
func (e *Engine) Native() (device, queue uintptr) {
	if n, ok := e.dev.(backend.Native); ok && !e.isClosed() {
		return n.Native()
	}
	return 0, 0
}

// Native is the MTLBuffer of a buffer on Metal, 0 on other devices. It lives until
// the buffer is released.
func (b *Buffer) Native() uintptr {
	p := b.mem.buf.Load()
	if p == nil {
		return 0
	}
	n, ok := (*p).(backend.Native)
	if !ok {
		return 0
	}
	object, _ := n.Native()
	return object
}

func (e *Engine) isClosed() bool {
	e.state.RLock()
	defer e.state.RUnlock()
	return e.closed
}

// WarmPool puts buffers of these sizes into the pool, so that the first calls
// that need buffers of these sizes do not wait for the system.
func (e *Engine) WarmPool(sizes ...int) error {
	var held []*Buffer
	// All at once: one buffer taken and given back again and again would be the
	// same one every time.
	defer func() {
		for _, b := range held {
			b.Release()
		}
	}()
	for _, n := range sizes {
		b, err := e.Acquire(n)
		if err != nil {
			return err
		}
		clear(b.Bytes()) // pages that nobody has touched are not there yet
		held = append(held, b)
	}
	return nil
}

// Len is the requested size in bytes.
func (b *Buffer) Len() int { return b.length }

// Bytes is the memory itself; nil after Release. It is valid as long as b is
// referenced and not released.
func (b *Buffer) Bytes() []byte {
	p := b.mem.buf.Load()
	if p == nil {
		return nil
	}
	var buf backend.Buffer = *p
	return buf.Bytes()[:b.length]
}

// Release gives the memory back. Calling it again does nothing.
func (b *Buffer) Release() { b.mem.release() }
