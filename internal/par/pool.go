// SPDX-License-Identifier: Apache-2.0

package par

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A network is some hundred regions in a row, and putting a thread to sleep and
// waking it takes 20 to 100 us, which is as long as a small one of them. So whoever
// has nothing to do looks again and again before going to sleep: long enough for the
// gap between two regions and for the last tiles of one, too short to matter when nothing
// follows or when another process wants the core. Threads are woken one after the other,
// so the more there are, the longer.
const lingerFor = 20 * time.Microsecond // for each thread beside the caller

// Pool is a fixed set of workers: threads-1 goroutines and the caller of Run.
// Its methods may be called from several goroutines.
type Pool struct {
	*crew
	stop *atomic.Bool // see With; nil: nothing ends a region early
}

// crew is what the views of one pool share.
type crew struct {
	threads int
	run     sync.Mutex // held during Run: one region at a time

	// One region. fn, tiles and stop are written before left.Store publishes the
	// region and are read only by holders of a valid tile, which Run waits for:
	// that ordering is why they need no lock.
	// What many threads write lies apart: a line of the cache goes from core to core in
	// about 100 ns, one after the other.
	_       line
	fn      func(worker, tile int)
	tiles   int
	stop    *atomic.Bool // never nil
	failed  atomic.Pointer[Panic]
	_       line
	left    atomic.Int64 // tiles not yet handed out; negative when drained
	_       line
	pending atomic.Int64 // tiles not yet finished
	_       line
	end     atomic.Int32 // a region... value, written last by whoever ends the region
	_       line
	fin     chan struct{} // wakes the caller of Run when it sleeps

	wake  chan struct{}
	decoy chan struct{} // see call
	// awake counts the workers that work or look for the next region. Of the latter there
	// are at most seats: those more than the threads that can run at once would only be in
	// the way.
	awake, seats atomic.Int32

	closed bool // under run
	exited sync.WaitGroup
}

// line keeps its neighbours in a struct apart: two lines of the cache, which processors
// fetch together.
type line [128]byte

// Values of Pool.end. The caller of Run waits for regionEnded, awake for a while,
// then asleep.
const (
	regionRuns int32 = iota
	regionAwaited
	regionEnded
)

// MaxThreads bounds the number of threads that settings may ask for: more than any
// machine has, and few enough that a slip of the keyboard does no harm.
const MaxThreads = 1024

// New returns a pool of the given number of threads, the caller included.
// threads < 1 means GOMAXPROCS, which follows the cgroup quota of a container.
func New(threads int) *Pool {
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &Pool{crew: &crew{
		threads: threads,
		fin:     make(chan struct{}, 1),
		wake:    make(chan struct{}, threads),
		decoy:   make(chan struct{}, 1),
	}}
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
//
// Below With, Run does not return to its caller once the context has ended.
func (p *Pool) Run(tiles int, fn func(worker, tile int)) {
	if tiles <= 0 {
		return
	}
	p.region(tiles, fn)
	if p.stop != nil && p.stop.Load() {
		panic(errStopped)
	}
}

// region is one turn of Run.
func (p *Pool) region(tiles int, fn func(worker, tile int)) {
	p.run.Lock()
	defer p.run.Unlock()
	p.fn, p.tiles, p.crew.stop = fn, tiles, &never
	if p.stop != nil {
		p.crew.stop = p.stop
	}
	p.end.Store(regionRuns)
	p.pending.Store(int64(tiles))
	p.left.Store(int64(tiles))
	if !p.closed {
		p.call(min(tiles, p.threads) - 1)
	}
	p.drain(0)
	p.fn = nil
	if e := p.failed.Swap(nil); e != nil {
		panic(e)
	}
}

// call sees to it that so many workers take part, as far as there are threads to
// run them. Those that are awake come by themselves: one that gives up just now looks
// once more after it has left the count.
func (p *crew) call(helpers int) {
	if helpers -= int(p.awake.Load()); helpers <= 0 {
		return
	}
	threads := min(p.threads, runtime.GOMAXPROCS(0))
	p.seats.Store(int32(threads - 1))
	for range helpers {
		select {
		case p.wake <- struct{}{}:
		default: // enough wake-ups are already under way
			return
		}
	}
	// The goroutine that is made ready last waits to run after the one that woke it,
	// and Go's scheduler lets another processor take it from there only after a sleep
	// of 3 us, which on Linux lasts 60. Waking one more, which does nothing, moves the
	// last worker on to where idle processors find it at once.
	select {
	case p.decoy <- struct{}{}:
	default:
	}
}

// Close ends the workers once a running region has finished. It may be called
// more than once.
func (p *Pool) Close() {
	p.dismiss()
	p.exited.Wait()
}

func (p *crew) dismiss() {
	p.run.Lock()
	defer p.run.Unlock()
	if !p.closed {
		p.closed = true
		close(p.wake)
		close(p.decoy)
	}
}

func (p *crew) work(w int) {
	defer p.exited.Done()
	// A fault in a tile is the caller's error, as one on the caller's own goroutine
	// is (package fault).
	debug.SetPanicOnFault(true)
	for range p.wake {
		// A late wake-up finds left <= 0, or a newer region, which it joins.
		p.awake.Add(1)
		for more := true; more; more = p.linger() {
			for p.left.Load() > 0 {
				n := p.left.Add(-1)
				if n >= 0 && p.tile(w, int(n)) && p.end.Swap(regionEnded) == regionAwaited {
					p.fin <- struct{}{}
				}
			}
		}
	}
}

// linger waits for another region, not for long, and reports whether there is one. If not,
// the worker is no longer counted as awake.
func (p *crew) linger() bool {
	if seats := p.seats.Load(); p.awake.Load() > seats {
		if p.awake.Add(-1) >= seats { // one too many
			return p.again()
		}
		p.awake.Add(1)
	}
	if p.spin(func() bool { return p.left.Load() > 0 }) {
		return true
	}
	p.awake.Add(-1)
	return p.again()
}

// again is the last look of a worker that has left the count, whoever began a region
// before having counted on it.
func (p *crew) again() bool {
	if p.left.Load() <= 0 {
		return false
	}
	p.awake.Add(1)
	return true
}

// drain is the caller's share of a region: its own tiles, then the wait for
// those that others still hold.
func (p *crew) drain(w int) {
	for n := p.left.Add(-1); n >= 0; n = p.left.Add(-1) {
		if p.tile(w, int(n)) {
			return
		}
	}
	ended := func() bool { return p.end.Load() == regionEnded }
	if p.seats.Load() > 0 && p.spin(ended) {
		return
	}
	if p.end.CompareAndSwap(regionRuns, regionAwaited) {
		<-p.fin
	}
}

// spin calls f until it is true or the time is up, and reports whether it was.
func (p *crew) spin(f func() bool) bool {
	long := time.Duration(max(1, p.threads-1)) * lingerFor
	for start := time.Now(); time.Since(start) < long; {
		for range 32 {
			if f() {
				return true
			}
			pause()
		}
	}
	return false
}

// tile runs the tile that leaves n others unclaimed and reports whether it was
// the last of the region to finish.
func (p *crew) tile(w, n int) bool {
	if p.failed.Load() == nil && !p.stop.Load() {
		t := p.tiles - 1 - n
		if e := protect(p.fn, w, t); e != nil {
			p.failed.CompareAndSwap(nil, e)
		}
	}
	return p.pending.Add(-1) == 0
}
