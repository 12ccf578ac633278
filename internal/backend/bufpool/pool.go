// SPDX-License-Identifier: Apache-2.0

package bufpool

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/memory"
)

const (
	// MinClass and MaxClass are the smallest and the largest size class.
	MinClass = 64
	MaxClass = 512 << 20
	// PerClass is how many free buffers of one size are kept where nothing else is
	// asked for.
	PerClass = 50
)

// ErrClosed means use of a closed pool.
var ErrClosed = errors.New("bufpool: the pool is closed")

// ErrReleased means that a buffer was given to a device after its release.
var ErrReleased = errors.New("bufpool: the buffer was released")

// ErrOutOfMemory is in the chain of every backend's error about memory that a device
// does not have.
var ErrOutOfMemory = errors.New("out of device memory")

// Allocator makes and frees memory of kind M. Its methods may be called from
// any goroutine.
type Allocator[M any] interface {
	// Alloc makes memory of exactly n bytes, n >= 1.
	Alloc(n int) (M, error)
	// Free destroys memory that Alloc made; it is called once for each.
	Free(m M)
}

// Options configure a pool.
type Options struct {
	// Limit bounds the bytes that the pool owns, free and in use together: free
	// buffers are evicted while it is exceeded. What is in use may exceed it,
	// since only the allocator can refuse. 0 means no limit.
	Limit uint64
	// PerClass is how many free buffers of one size are kept; 0 means PerClass.
	PerClass int
	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// Pressure says whether the system is short of memory, memory.Pressure when nil. It
	// is asked each Every, watchEvery when 0, while there are free buffers.
	Pressure func() (low, critical bool)
	Every    time.Duration
}

// Pool hands out buffers. Its methods may be called from any goroutine.
type Pool[M any] struct {
	alloc    Allocator[M]
	now      func() time.Time
	pressure func() (low, critical bool)
	every    time.Duration

	mu       sync.Mutex
	limit    uint64
	perClass int
	closed   bool
	watching bool // a clock runs that will ask for the pressure
	// free maps a capacity to its free slots, oldest first.
	free  map[int][]slot[M]
	stats Stats
}

// slot is memory and when it became free.
type slot[M any] struct {
	mem   M
	cap   int
	since time.Time
	seq   uint64 // breaks ties of the clock: release order
}

// New makes a pool over an allocator.
func New[M any](a Allocator[M], o Options) *Pool[M] {
	now := o.Now
	if now == nil {
		start := time.Now() // reading the monotonic clock alone takes half as long as time.Now
		now = func() time.Time { return start.Add(time.Since(start)) }
	}
	perClass := o.PerClass
	if perClass <= 0 {
		perClass = PerClass
	}
	pressure := o.Pressure
	if pressure == nil {
		pressure = memory.Pressure
	}
	return &Pool[M]{
		alloc: a, now: now, pressure: pressure, every: cmp.Or(o.Every, watchEvery),
		limit: o.Limit, perClass: perClass, free: map[int][]slot[M]{},
	}
}

// ClassSize is the capacity of the buffer that serves a request of n bytes.
func ClassSize(n int) int {
	switch {
	case n <= MinClass:
		return MinClass
	case n > MaxClass:
		return n
	}
	return 1 << bits.Len(uint(n-1))
}

// Get hands out a buffer of at least n bytes with unspecified contents: a free
// one of the class, otherwise a new one. When the allocator has no memory, the
// free buffers are given back to it and it is asked once more.
func (p *Pool[M]) Get(n int) (*Buffer[M], error) {
	if n < 0 {
		return nil, fmt.Errorf("bufpool: buffer of %d bytes", n)
	}
	size := ClassSize(n)
	mem, found, err := p.reuse(size, n)
	if err != nil {
		return nil, err
	}
	if found {
		return &Buffer[M]{pool: p, mem: mem, n: n, cap: size}, nil
	}
	mem, err = p.alloc.Alloc(size)
	if err != nil && p.Clear() > 0 {
		mem, err = p.alloc.Alloc(size)
	}
	if err != nil {
		return nil, fmt.Errorf("bufpool: %d bytes: %w", size, err)
	}
	p.evicting(func() []slot[M] {
		p.stats.Allocations++
		p.take(size, n)
		return p.enforce(0) // others may have allocated meanwhile
	})
	return &Buffer[M]{pool: p, mem: mem, n: n, cap: size}, nil
}

// reuse takes a free buffer of a class. When there is none, it makes room for a new
// one before the allocation, so that the device never holds both.
func (p *Pool[M]) reuse(size, n int) (mem M, found bool, err error) {
	p.evicting(func() []slot[M] {
		if p.closed {
			err = ErrClosed
			return nil
		}
		list := p.free[size]
		if len(list) == 0 {
			return p.enforce(size)
		}
		mem, found = list[len(list)-1].mem, true
		p.drop(size, len(list)-1)
		p.stats.Reuses++
		p.take(size, n)
		return nil
	})
	return mem, found, err
}

// evicting calls f under the lock, destroys what it returns outside of it, since a
// device may take its time, and returns their number.
func (p *Pool[M]) evicting(f func() []slot[M]) int {
	victims := p.locked(f)
	for _, v := range victims {
		p.alloc.Free(v.mem)
	}
	return len(victims)
}

func (p *Pool[M]) locked(f func() []slot[M]) []slot[M] {
	p.mu.Lock()
	defer p.mu.Unlock()
	return f()
}

// take counts a buffer that goes out for a request of n bytes.
func (p *Pool[M]) take(size, n int) {
	p.stats.InUseBuffers++
	p.stats.InUseBytes += uint64(size)
	p.stats.OverheadBytes += uint64(size - n)
	p.stats.PeakBytes = max(p.stats.PeakBytes, p.stats.InUseBytes+p.stats.PooledBytes)
}

// put takes the buffer of a request of n bytes back and returns what must be
// destroyed for it.
func (p *Pool[M]) put(mem M, size, n int) []slot[M] {
	p.stats.InUseBuffers--
	p.stats.InUseBytes -= uint64(size)
	p.stats.OverheadBytes -= uint64(size - n)
	s := slot[M]{mem: mem, cap: size, since: p.now(), seq: p.stats.released}
	p.stats.released++
	if p.closed || p.limit != 0 && uint64(size) > p.limit {
		// It alone exceeds the limit: evicting others for it would be in vain.
		p.stats.Evictions++
		return []slot[M]{s}
	}
	var victims []slot[M]
	if len(p.free[size]) >= p.perClass {
		victims = p.evict(victims, size, 0)
	}
	p.free[size] = append(p.free[size], s)
	p.stats.PooledBuffers++
	p.stats.PooledBytes += uint64(size)
	victims = append(victims, p.enforce(0)...)
	p.watch()
	return victims
}

// enforce evicts the least recently used free buffers while what the pool owns,
// and extra bytes, exceed the limit.
func (p *Pool[M]) enforce(extra int) []slot[M] {
	var victims []slot[M]
	for p.limit != 0 && p.stats.InUseBytes+p.stats.PooledBytes+uint64(extra) > p.limit && p.stats.PooledBuffers > 0 {
		oldest := -1
		for size, list := range p.free {
			if len(list) > 0 && (oldest < 0 || list[0].before(p.free[oldest][0])) {
				oldest = size
			}
		}
		victims = p.evict(victims, oldest, 0)
	}
	return victims
}

func (s slot[M]) before(o slot[M]) bool {
	if !s.since.Equal(o.since) {
		return s.since.Before(o.since)
	}
	return s.seq < o.seq
}

// evict moves free buffer i of a class to victims.
func (p *Pool[M]) evict(victims []slot[M], size, i int) []slot[M] {
	victims = append(victims, p.free[size][i])
	p.drop(size, i)
	p.stats.Evictions++
	return victims
}

// drop removes free buffer i of a class from the books. Exact sizes without free
// buffers leave the map, so that they do not pile up in it.
func (p *Pool[M]) drop(size, i int) {
	list := slices.Delete(p.free[size], i, i+1)
	if p.free[size] = list; len(list) == 0 && size > MaxClass {
		delete(p.free, size)
	}
	p.stats.PooledBuffers--
	p.stats.PooledBytes -= uint64(size)
}

// remove evicts the free buffers that match, destroys them and returns their
// number.
func (p *Pool[M]) remove(match func(slot[M]) bool) int {
	return p.evicting(func() (victims []slot[M]) {
		for size, list := range p.free {
			for i := len(list) - 1; i >= 0; i-- {
				if match(list[i]) {
					victims = p.evict(victims, size, i)
				}
			}
		}
		return victims
	})
}
