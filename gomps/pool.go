// SPDX-License-Identifier: Apache-2.0

package gomps

import "github.com/mast3r-runtime/mast3r-runtime/internal/backend"

// Pool is the memory that an engine keeps for reuse: its books, its limits, and the
// ways to make it smaller.
type Pool struct{ pool backend.Pool }

// Pool is the memory of the engine's buffers and results.
func (e *Engine) Pool() Pool { return Pool{e.dev.Pool()} }

// PoolStats are the books of a pool.
type PoolStats struct {
	// Pooled are free buffers kept for reuse, InUse those handed out; bytes count
	// whole capacities.
	PooledBuffers, InUseBuffers int
	PooledBytes, InUseBytes     uint64
	// InFlight counts buffers that the device uses.
	InFlight int
	// Classes is the number of sizes with a free buffer.
	Classes int
	// Allocations and Reuses count what was handed out, Evictions the buffers that
	// the pool destroyed.
	Allocations, Reuses, Evictions uint64
	// PeakBytes is the most that was pooled and in use together.
	PeakBytes uint64
	// OverheadBytes is what the buffers in use have more than was asked for.
	OverheadBytes uint64
}

// ReuseRate is Reuses/(Reuses+Allocations), 0 before the first request.
func (s PoolStats) ReuseRate() float64 {
	if s.Reuses+s.Allocations == 0 {
		return 0
	}
	return float64(s.Reuses) / float64(s.Reuses+s.Allocations)
}

// Stats returns the books.
func (p Pool) Stats() PoolStats {
	s := p.pool.Stats()
	return PoolStats{
		PooledBuffers: s.PooledBuffers, InUseBuffers: s.InUseBuffers, PooledBytes: s.PooledBytes, InUseBytes: s.InUseBytes,
		InFlight: s.InFlight, Classes: s.Classes, Allocations: s.Allocations, Reuses: s.Reuses, Evictions: s.Evictions,
		PeakBytes: s.PeakBytes, OverheadBytes: s.OverheadBytes,
	}
}

// Limit bounds the bytes in use and kept together; 0 is no limit.
func (p Pool) Limit() uint64 { return p.pool.Limit() }

// SetLimit changes the limit and enforces it at once.
func (p Pool) SetLimit(bytes uint64) { p.pool.SetLimit(bytes) }

// PerClass is how many free buffers of one size are kept.
func (p Pool) PerClass() int { return p.pool.PerClass() }

// SetPerClass changes that number, 0 for the usual one, and gives back what is beyond it.
func (p Pool) SetPerClass(n int) { p.pool.SetPerClass(n) }

// MemoryPressure gives back half of the free buffers, or all when it is critical.
func (p Pool) MemoryPressure(critical bool) int { return p.pool.MemoryPressure(critical) }
