// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/bufpool"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
)

// poolLimit bounds the buffers in use and kept for reuse together: while it is
// exceeded, none is kept. The results of a large picture pair are about 50 MB;
// several pairs in flight fit many times.
const poolLimit = 2 << 30

// bufferPool keeps released buffers: an engine asks for the same few sizes again
// and again, and a training loop for the same small ones.
type bufferPool = bufpool.Pool[*region]

func newBufferPool() *bufferPool {
	return bufpool.New[*region](regions{}, bufpool.Options{Limit: poolLimit})
}

// regions allocates for the pool.
type regions struct{}

// onHeap is up to what size a buffer lies on the Go heap: a mapping of its own
// would cost a call of the system and whole pages.
const onHeap = 16 << 10

func (regions) Alloc(n int) (*region, error) {
	if n <= onHeap {
		return &region{b: gemm.Alloc(n)}, nil
	}
	return newRegion(n)
}

func (regions) Free(r *region) { r.release() }

// buffer is a backend.Buffer. What the pool hands out next is another buffer, so
// that a stale reference to a released one sees nothing.
type buffer struct {
	mem   *bufpool.Buffer[*region]
	whole []byte
	bytes atomic.Pointer[[]byte] // of whole; nil once released
}

// Pool is the memory of Alloc.
func (b *Backend) Pool() backend.Pool { return b.buffers }

// Alloc gives a buffer of n bytes with unspecified contents.
func (b *Backend) Alloc(n int) (backend.Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("cpu: buffer of %d bytes", n)
	}
	m, err := b.buffers.Get(n)
	if errors.Is(err, bufpool.ErrClosed) {
		return nil, ErrClosed
	}
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	x := &buffer{mem: m, whole: m.Memory().b[:n:n]}
	x.bytes.Store(&x.whole)
	return x, nil
}

func (b *buffer) Len() int { return b.mem.Len() }

// Fetch has nothing to do: the memory is the host's.
func (b *buffer) Fetch() error { return nil }

func (b *buffer) Bytes() []byte {
	if p := b.bytes.Load(); p != nil {
		return *p
	}
	return nil
}

func (b *buffer) Release() {
	b.bytes.Store(nil)
	b.mem.Release()
}

// fly keeps the memory of the buffers for a run that is about to use it, even
// when another goroutine releases one of them meanwhile. On an error none is kept.
func fly(bufs []backend.Buffer) error {
	for i, x := range bufs {
		if b, ok := x.(*buffer); ok {
			if err := b.mem.Fly(); err != nil {
				land(bufs[:i])
				return fmt.Errorf("cpu: buffer %d: %w", i, err)
			}
		}
	}
	return nil
}

// land ends a fly.
func land(bufs []backend.Buffer) {
	for _, x := range bufs {
		if b, ok := x.(*buffer); ok {
			b.mem.Land()
		}
	}
}
