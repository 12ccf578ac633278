// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/bufpool"
)

// Pool is the memory that a backend keeps for reuse, a bufpool.Pool of whatever
// its buffers are made of.
type Pool interface {
	Stats() bufpool.Stats
	// Limit bounds the bytes in use and kept together; 0 is no limit.
	Limit() uint64
	SetLimit(bytes uint64)
	// PerClass is how many free buffers of one size are kept.
	PerClass() int
	SetPerClass(n int)
	// ResetStats sets the counters to 0 and the peak to what there is now.
	ResetStats()
	// Warmup makes a free buffer for each of the sizes.
	Warmup(sizes ...int) error
	// The others give free buffers back to the system and return their number: all,
	// those that serve n bytes, those free for longer than age, the largest until at
	// most so many bytes are kept, and half of them, or all when it is critical.
	Clear() int
	ClearSize(n int) int
	EvictOlderThan(age time.Duration) int
	ShrinkToFit(bytes uint64) int
	MemoryPressure(critical bool) int
}
