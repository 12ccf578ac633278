// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// keepBytes bounds the released buffers that wait for reuse. The results of a
// large picture pair are about 50 MB; several pairs in flight fit.
const keepBytes = 512 << 20

// bufferPool keeps released buffers by their exact size: an engine asks for the
// same few sizes again and again.
type bufferPool struct {
	mu     sync.Mutex
	free   map[int][]*region
	bytes  int // of free
	count  int // of free
	live   int
	closed bool
}

// get returns a buffer of n bytes, a released one if there is one of that size.
func (p *bufferPool) get(n int) (*region, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if l := p.free[n]; len(l) > 0 {
		r := l[len(l)-1]
		p.free[n] = l[:len(l)-1]
		p.bytes -= n
		p.count--
		p.live++
		return r, nil
	}
	r, err := newRegion(n)
	if err == nil {
		p.live++
	}
	return r, err
}

// put takes a buffer back, to keep it or to give it to the system.
func (p *bufferPool) put(r *region, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live--
	if p.closed || p.bytes+n > keepBytes {
		r.release()
		return
	}
	if p.free == nil {
		p.free = map[int][]*region{}
	}
	p.free[n] = append(p.free[n], r)
	p.bytes += n
	p.count++
}

func (p *bufferPool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.free {
		for _, r := range l {
			r.release()
		}
	}
	p.free, p.bytes, p.count = nil, 0, 0
}

func (p *bufferPool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.trim()
}

// buffer is a backend.Buffer. It owns its region until it is released; what the
// pool hands out next is another buffer, so that a stale reference to this one
// sees nothing.
type buffer struct {
	pool *bufferPool
	n    int
	mu   sync.Mutex
	r    *region // nil once released
}

// Alloc gives a buffer of n bytes with unspecified contents.
func (b *Backend) Alloc(n int) (backend.Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("cpu: buffer of %d bytes", n)
	}
	r, err := b.buffers.get(n)
	if err != nil {
		return nil, err
	}
	return &buffer{pool: &b.buffers, n: n, r: r}, nil
}

func (b *buffer) Len() int { return b.n }

func (b *buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.r == nil {
		return nil
	}
	return b.r.b
}

func (b *buffer) Release() {
	b.mu.Lock()
	r := b.r
	b.r = nil
	b.mu.Unlock()
	if r != nil {
		b.pool.put(r, b.n)
	}
}
