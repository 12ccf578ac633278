// SPDX-License-Identifier: Apache-2.0

package par

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Pool is a fixed set of workers: threads-1 goroutines and the caller of Run.
// Its methods may be called from several goroutines.
type Pool struct {
	threads int
	run     sync.Mutex // held during Run: one region at a time

	// One region. fn and tiles are written before left.Store publishes the
	// region and are read only by holders of a valid tile, which Run waits for:
	// that ordering is why they need no lock.
	fn      func(worker, tile int)
	tiles   int
	left    atomic.Int64 // tiles not yet handed out; negative when drained
	pending atomic.Int64 // tiles not yet finished
	failed  atomic.Pointer[Panic]
	fin     chan struct{} // sent by the worker that finishes the last tile

	wake   chan struct{}
	decoy  chan struct{} // see Run
	closed bool          // under run
	exited sync.WaitGroup
}

// New returns a pool of the given number of threads, the caller included.
// threads < 1 means GOMAXPROCS, which follows the cgroup quota of a container.
func New(threads int) *Pool {
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &Pool{
		threads: threads,
		fin:     make(chan struct{}, 1),
		wake:    make(chan struct{}, threads),
		decoy:   make(chan struct{}, 1),
	}
	p.exited.Add(threads)
	go func() { // cannot panic
		defer p.exited.Done()
		for range p.decoy {
		}
	}()
	for w := 1; w < threads; w++ {
		go p.work(w) // every tile runs under protect, which recovers
	}
	return p
}

// Threads returns the number of workers, the caller included: worker numbers
// seen by tiles are 0 <= worker < Threads().
func (p *Pool) Threads() int { return p.threads }

// Run calls fn(worker, tile) once for each 0 <= tile < tiles and returns when
// all have finished. No two calls that overlap in time share a worker number, so
// scratch memory may be indexed by it. Run allocates nothing; callers that must
// not allocate either keep fn in a field instead of writing a closure per call.
//
// Concurrent calls take turns. fn must not call Run on the same pool (it would
// wait for itself). If a tile panics, the tiles not yet started are skipped and
// Run panics with a *Panic once the running ones have ended. After Close, Run
// still works, on the calling goroutine alone.
func (p *Pool) Run(tiles int, fn func(worker, tile int)) {
	if tiles <= 0 {
		return
	}
	p.run.Lock()
	defer p.run.Unlock()
	p.fn, p.tiles = fn, tiles
	p.pending.Store(int64(tiles))
	p.left.Store(int64(tiles))
	if n := min(tiles, p.threads) - 1; n > 0 && !p.closed {
		p.wakeUp(n)
	}
	p.drain(0)
	p.fn = nil
	if e := p.failed.Swap(nil); e != nil {
		panic(e)
	}
}

// wakeUp wakes n workers. The goroutine that is made ready last waits to run after
// the one that woke it, and Go's scheduler lets another processor take it from
// there only after a sleep of 3 µs, which on Linux lasts 60: a third of a region of
// the usual size. Waking a goroutine that does nothing moves the last worker on to
// where idle processors find it at once.
func (p *Pool) wakeUp(n int) {
	for ; n > 0; n-- {
		select {
		case p.wake <- struct{}{}:
		default: // enough wake-ups are already under way
			return
		}
	}
	select {
	case p.decoy <- struct{}{}:
	default:
	}
}

// Close ends the workers once a running region has finished. It may be called
// more than once.
func (p *Pool) Close() {
	p.run.Lock()
	if !p.closed {
		p.closed = true
		close(p.wake)
		close(p.decoy)
	}
	p.run.Unlock()
	p.exited.Wait()
}

func (p *Pool) work(w int) {
	defer p.exited.Done()
	for range p.wake {
		// A late wake-up finds left <= 0, or a newer region, which it joins.
		for {
			n := p.left.Add(-1)
			if n < 0 {
				break
			}
			if p.tile(w, int(n)) {
				p.fin <- struct{}{}
			}
		}
	}
}

// drain is the caller's share of a region: its own tiles, then the wait for
// those that others still hold.
func (p *Pool) drain(w int) {
	for {
		n := p.left.Add(-1)
		if n < 0 {
			<-p.fin
			return
		}
		if p.tile(w, int(n)) {
			return
		}
	}
}

// tile runs the tile that leaves n others unclaimed and reports whether it was
// the last of the region to finish.
func (p *Pool) tile(w, n int) bool {
	if p.failed.Load() == nil {
		t := p.tiles - 1 - n
		if e := protect(p.fn, w, t); e != nil {
			p.failed.CompareAndSwap(nil, e)
		}
	}
	return p.pending.Add(-1) == 0
}
