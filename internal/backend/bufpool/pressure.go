// SPDX-License-Identifier: Apache-2.0

package bufpool

import (
	"time"
	"weak"
)

// watchEvery is how often a pool that keeps free buffers asks whether memory is short.
// It is the only work of an idle pool, and a pool that keeps nothing asks nothing.
const watchEvery = 2 * time.Second

// MemoryPressure gives free buffers back to a system that is short of memory: half of
// the bytes, or, when the pressure is critical, all. The pool calls it by itself; a host
// with a notice of its own may do so too.
func (p *Pool[M]) MemoryPressure(critical bool) int {
	if critical {
		return p.Clear()
	}
	return p.ShrinkToFit(p.Stats().PooledBytes / 2)
}

// watch starts the clock of a pool that keeps something. The caller holds the lock. The
// clock holds the pool weakly, so that one which is forgotten can be collected.
func (p *Pool[M]) watch() {
	if p.watching || p.closed || p.stats.PooledBuffers == 0 {
		return
	}
	p.watching = true
	self := weak.Make(p)
	time.AfterFunc(p.every, func() {
		if p := self.Value(); p != nil {
			p.look()
		}
	})
}

// look asks for the pressure, gives way to it, and goes on watching.
func (p *Pool[M]) look() {
	if low, critical := p.pressure(); low || critical {
		p.MemoryPressure(critical)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching = false
	p.watch()
}
