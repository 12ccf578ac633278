// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// Device describes the device of a context.
type Device struct {
	// Backend is "cpu", "metal" or "cuda", Name the device in words, ISA the instruction
	// set of the kernels.
	Backend, Name, ISA string
	Threads            int
	// WorkingSet and MaxBuffer are in bytes; 0 means no limit is known.
	WorkingSet, MaxBuffer uint64
	UnifiedMemory         bool
	OS                    string
	// PoolBuffers and PoolBytes are what the pool keeps for reuse, LiveBuffers are
	// in use.
	PoolBuffers int
	PoolBytes   uint64
	LiveBuffers int
}

func deviceOf(d backend.Device) Device {
	return Device{
		Backend: d.Backend, Name: d.Name, ISA: d.ISA, Threads: d.Threads,
		WorkingSet: d.WorkingSet, MaxBuffer: d.MaxBuffer, UnifiedMemory: d.UnifiedMemory, OS: d.OS,
		PoolBuffers: d.PoolBuffers, PoolBytes: d.PoolBytes, LiveBuffers: d.LiveBuffers,
	}
}

// Pool is the memory that the tensors of one context are made of. Its methods return
// counters, set limits and free memory.
type Pool struct {
	pool  backend.Pool
	books *books
}

// Pool is the memory of the context's tensors.
func (c *Context) Pool() Pool { return Pool{c.dev.Pool(), &c.books} }

// PoolStats are the counters of a pool.
type PoolStats struct {
	// Pooled are free buffers kept for reuse, InUse those in use; bytes are their whole
	// capacities.
	PooledBuffers, InUseBuffers int
	PooledBytes, InUseBytes     uint64
	// InFlight counts buffers that the device uses.
	InFlight int
	// Classes is the number of sizes with a free buffer.
	Classes int
	// Allocations and Reuses count new and reused buffers, Evictions those that the pool
	// freed.
	Allocations, Reuses, Evictions uint64
	// PeakBytes is the largest sum of the bytes pooled and in use.
	PeakBytes uint64
	// OverheadBytes is how much larger the buffers in use are than what was asked for.
	OverheadBytes uint64
}

// ReuseRate is Reuses/(Reuses+Allocations), 0 before the first request.
func (s PoolStats) ReuseRate() float64 {
	if s.Reuses+s.Allocations == 0 {
		return 0
	}
	return float64(s.Reuses) / float64(s.Reuses+s.Allocations)
}

// Stats returns the counters.
func (p Pool) Stats() PoolStats {
	s := p.pool.Stats()
	return PoolStats{
		PooledBuffers: s.PooledBuffers, InUseBuffers: s.InUseBuffers, PooledBytes: s.PooledBytes, InUseBytes: s.InUseBytes,
		InFlight: s.InFlight, Classes: s.Classes, Allocations: s.Allocations, Reuses: s.Reuses + p.books.count(), Evictions: s.Evictions,
		PeakBytes: s.PeakBytes, OverheadBytes: s.OverheadBytes,
	}
}

// ResetStats sets the counters to 0 and the peak to what there is now.
func (p Pool) ResetStats() {
	p.pool.ResetStats()
	p.books.reset()
}

// Limit bounds the bytes in use and kept together; 0 is no limit.
func (p Pool) Limit() uint64 { return p.pool.Limit() }

// SetLimit changes the limit and enforces it at once.
func (p Pool) SetLimit(bytes uint64) { p.pool.SetLimit(bytes) }

// PerClass is how many free buffers of one size are kept.
func (p Pool) PerClass() int { return p.pool.PerClass() }

// SetPerClass changes that number, 0 for the default, and frees the buffers above it.
func (p Pool) SetPerClass(n int) { p.pool.SetPerClass(n) }

// Warmup makes a free buffer for each of the sizes, in bytes.
func (p Pool) Warmup(sizes ...int) error { return p.pool.Warmup(sizes...) }

// Clear gives all free buffers back to the system and returns their number.
func (p Pool) Clear() int { return p.pool.Clear() }

// ClearSize gives back the free buffers that serve n bytes.
func (p Pool) ClearSize(n int) int { return p.pool.ClearSize(n) }

// EvictOlderThan gives back the buffers that have been free for longer than age.
func (p Pool) EvictOlderThan(age time.Duration) int { return p.pool.EvictOlderThan(age) }

// ShrinkToFit gives back the largest buffers until at most so many bytes are kept.
func (p Pool) ShrinkToFit(bytes uint64) int { return p.pool.ShrinkToFit(bytes) }

// MemoryPressure gives back half of the free buffers, or all when it is critical.
func (p Pool) MemoryPressure(critical bool) int { return p.pool.MemoryPressure(critical) }
