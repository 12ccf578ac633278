// SPDX-License-Identifier: Apache-2.0

package bufpool

import "time"

// Stats are the books of a pool.
type Stats struct {
	// Pooled are free buffers kept for reuse, InUse those handed out (in flight
	// or not); bytes count whole capacities.
	PooledBuffers, InUseBuffers int
	PooledBytes, InUseBytes     uint64
	// InFlight counts buffers that a device uses.
	InFlight int
	// Classes is the number of sizes with a free buffer.
	Classes int
	// Allocations and Reuses count what Get handed out, Evictions the buffers
	// that the pool destroyed.
	Allocations, Reuses, Evictions uint64
	// PeakBytes is the most that was pooled and in use together.
	PeakBytes uint64
	// OverheadBytes is what the buffers in use have more than was asked for.
	OverheadBytes uint64

	released uint64
}

// ReuseRate is Reuses/(Reuses+Allocations), 0 before the first Get.
func (s Stats) ReuseRate() float64 {
	if s.Reuses+s.Allocations == 0 {
		return 0
	}
	return float64(s.Reuses) / float64(s.Reuses+s.Allocations)
}

// Stats returns the books.
func (p *Pool[M]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	for _, list := range p.free {
		s.Classes += min(len(list), 1)
	}
	return s
}

// Limit is the current byte limit, 0 for none.
func (p *Pool[M]) Limit() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// SetLimit changes the byte limit and enforces it at once.
func (p *Pool[M]) SetLimit(bytes uint64) {
	p.evicting(func() []slot[M] {
		p.limit = bytes
		return p.enforce(0)
	})
}

// PerClass is how many free buffers of one size are kept.
func (p *Pool[M]) PerClass() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.perClass
}

// SetPerClass changes how many free buffers of one size are kept, 0 for the usual
// number, and destroys the oldest of those beyond it.
func (p *Pool[M]) SetPerClass(n int) {
	if n <= 0 {
		n = PerClass
	}
	p.evicting(func() (victims []slot[M]) {
		p.perClass = n
		for size := range p.free {
			for len(p.free[size]) > n {
				victims = p.evict(victims, size, 0)
			}
		}
		return victims
	})
}

// ResetStats sets the counters to 0 and the peak to what there is now.
func (p *Pool[M]) ResetStats() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Allocations, p.stats.Reuses, p.stats.Evictions = 0, 0, 0
	p.stats.PeakBytes = p.stats.InUseBytes + p.stats.PooledBytes
}

// Warmup makes a free buffer for each of the sizes, so that the first requests
// need not allocate; a size given twice gives two. On an error what was made
// stays pooled.
func (p *Pool[M]) Warmup(sizes ...int) error {
	made := make([]*Buffer[M], 0, len(sizes))
	defer func() {
		for _, b := range made {
			b.Release()
		}
	}()
	for _, n := range sizes {
		b, err := p.Get(n)
		if err != nil {
			return err
		}
		made = append(made, b)
	}
	return nil
}

// Clear destroys all free buffers and returns their number.
func (p *Pool[M]) Clear() int { return p.remove(func(slot[M]) bool { return true }) }

// ClearSize destroys the free buffers of the class that serves n bytes.
func (p *Pool[M]) ClearSize(n int) int {
	size := ClassSize(n)
	return p.remove(func(s slot[M]) bool { return s.cap == size })
}

// EvictOlderThan destroys the buffers that have been free for longer than age.
func (p *Pool[M]) EvictOlderThan(age time.Duration) int {
	t := p.now().Add(-age)
	return p.remove(func(s slot[M]) bool { return s.since.Before(t) })
}

// ShrinkToFit destroys free buffers until at most bytes of them are left, the
// largest class first, within a class the oldest first.
func (p *Pool[M]) ShrinkToFit(bytes uint64) int {
	return p.evicting(func() (victims []slot[M]) {
		for p.stats.PooledBytes > bytes {
			largest := 0
			for size, list := range p.free {
				if len(list) > 0 {
					largest = max(largest, size)
				}
			}
			victims = p.evict(victims, largest, 0)
		}
		return victims
	})
}

// Close destroys all free buffers; those handed out are destroyed when they
// come back. It may be called again.
func (p *Pool[M]) Close() {
	p.evicting(func() []slot[M] {
		p.closed = true
		return nil
	})
	p.Clear()
}
