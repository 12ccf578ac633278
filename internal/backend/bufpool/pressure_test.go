// SPDX-License-Identifier: Apache-2.0

package bufpool

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// TestPressureIsSeen: a pool that keeps free buffers gives them back by itself when the
// system is short of memory, all of them when it is critical, and asks nobody while it
// keeps nothing or is closed.
func TestPressureIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeap(t)
		var low, critical atomic.Bool
		var asked atomic.Int64
		p := New[chunk](h, Options{Pressure: func() (bool, bool) {
			asked.Add(1)
			return low.Load(), critical.Load()
		}})
		step := func() {
			time.Sleep(watchEvery)
			synctest.Wait()
		}
		step()
		if n := asked.Load(); n != 0 {
			t.Fatalf("an empty pool asked %d times", n)
		}
		if err := p.Warmup(64, 64, 64, 64); err != nil {
			t.Fatal(err)
		}
		step()
		if s := p.Stats(); s.PooledBuffers != 4 || asked.Load() != 1 {
			t.Fatalf("without pressure %d of 4 buffers, asked %d times, want once", s.PooledBuffers, asked.Load())
		}
		low.Store(true)
		step()
		if s := p.Stats(); s.PooledBuffers != 2 {
			t.Fatalf("%d buffers under pressure, want half of 4", s.PooledBuffers)
		}
		low.Store(false)
		critical.Store(true)
		step()
		if s := p.Stats(); s.PooledBuffers != 0 || len(h.live) != 0 {
			t.Fatalf("%d buffers when it is critical, %d alive", s.PooledBuffers, len(h.live))
		}
		before := asked.Load()
		step()
		step()
		if n := asked.Load() - before; n != 0 {
			t.Fatalf("an emptied pool asked %d times", n)
		}
		critical.Store(false)
		if err := p.Warmup(64); err != nil {
			t.Fatal(err)
		}
		step()
		if asked.Load() != before+1 {
			t.Fatal("a pool that was filled again does not ask")
		}
		p.Close()
		step()
		step()
		if n := asked.Load(); n > before+2 {
			t.Fatalf("a closed pool goes on asking: %d", n)
		}
	})
}

// TestForgottenPool: the clock does not keep a pool alive.
func TestForgottenPool(t *testing.T) {
	p := New[chunk](newHeap(t), Options{Every: time.Hour, Pressure: func() (bool, bool) { return false, false }})
	if err := p.Warmup(64); err != nil {
		t.Fatal(err)
	}
	w := weak.Make(p)
	p = nil
	for range 5 {
		runtime.GC()
	}
	if w.Value() != nil {
		t.Error("a pool that nobody holds is still there")
	}
}
