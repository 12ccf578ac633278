// SPDX-License-Identifier: Apache-2.0

package bufpool

// Buffer is memory on loan from a pool.
type Buffer[M any] struct {
	pool   *Pool[M]
	mem    M
	n, cap int

	// Guarded by the pool's lock.
	flights  int
	released bool
}

// Memory is the memory itself; after Release it belongs to someone else.
func (b *Buffer[M]) Memory() M { return b.mem }

// Len is the number of bytes asked for, Cap what there is.
func (b *Buffer[M]) Len() int { return b.n }

// Cap is the capacity in bytes.
func (b *Buffer[M]) Cap() int { return b.cap }

// Fly marks the start of a device's use. Flights nest.
func (b *Buffer[M]) Fly() error {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.released {
		return ErrReleased
	}
	if b.flights == 0 {
		b.pool.stats.InFlight++
	}
	b.flights++
	return nil
}

// Land marks the end of a device's use; the last one frees a buffer that was
// released meanwhile. It panics without a matching Fly, a programmer error that
// would hand out memory the device is writing.
func (b *Buffer[M]) Land() {
	b.pool.evicting(func() []slot[M] {
		if b.flights == 0 {
			panic("bufpool: Land without Fly")
		}
		if b.flights--; b.flights > 0 {
			return nil
		}
		b.pool.stats.InFlight--
		if !b.released {
			return nil
		}
		return b.pool.put(b.mem, b.cap, b.n)
	})
}

// Release gives the buffer back. Calling it again does nothing.
func (b *Buffer[M]) Release() {
	b.pool.evicting(func() []slot[M] {
		if b.released {
			return nil
		}
		b.released = true
		if b.flights > 0 {
			return nil
		}
		return b.pool.put(b.mem, b.cap, b.n)
	})
}
