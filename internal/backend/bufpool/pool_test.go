// SPDX-License-Identifier: Apache-2.0

package bufpool

import (
	"errors"
	"math"
	"sync"
	"testing"
	"time"
)

var errNoMemory = errors.New("no memory")

// heap is an allocator that knows what is alive and refuses beyond a capacity.
type heap struct {
	mu       sync.Mutex
	t        testing.TB
	live     map[int]int // id -> size
	next     int
	bytes    int
	capacity int // 0: unlimited
	allocs   int
}

type chunk struct{ id, size int }

func newHeap(t testing.TB) *heap { return &heap{t: t, live: map[int]int{}} }

func (h *heap) Alloc(n int) (chunk, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n < 1 {
		h.t.Errorf("allocator asked for %d bytes", n)
	}
	if h.capacity != 0 && h.bytes+n > h.capacity {
		return chunk{}, errNoMemory
	}
	h.next++
	h.allocs++
	h.live[h.next] = n
	h.bytes += n
	return chunk{h.next, n}, nil
}

func (h *heap) Free(c chunk) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.live[c.id] != c.size {
		h.t.Errorf("memory %d freed twice", c.id)
	}
	delete(h.live, c.id)
	h.bytes -= c.size
}

// clock is set by hand.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func newPool(t testing.TB, limit uint64) (*Pool[chunk], *heap, *clock) {
	h, c := newHeap(t), &clock{t: time.Unix(1, 0)}
	return New[chunk](h, Options{Limit: limit, Now: c.now}), h, c
}

func get(t testing.TB, p *Pool[chunk], n int) *Buffer[chunk] {
	t.Helper()
	b, err := p.Get(n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestClassSize(t *testing.T) {
	for n, want := range map[int]int{
		0: 64, 1: 64, 64: 64, 65: 128, 128: 128, 129: 256, 4096: 4096, 4097: 8192,
		MaxClass - 1: MaxClass, MaxClass: MaxClass, MaxClass + 1: MaxClass + 1, 3 * MaxClass: 3 * MaxClass,
	} {
		if got := ClassSize(n); got != want {
			t.Errorf("%d: class %d, want %d", n, got, want)
		}
	}
	// A class never holds less than was asked for, nor twice as much.
	for n := 65; n < 1<<20; n += 61 {
		if c := ClassSize(n); c < n || c >= 2*n {
			t.Fatalf("%d: class %d", n, c)
		}
	}
}

func TestReuseNewestOfClass(t *testing.T) {
	p, h, c := newPool(t, 0)
	a, b := get(t, p, 100), get(t, p, 120)
	ida, idb := a.Memory().id, b.Memory().id
	a.Release()
	c.add(time.Second)
	b.Release()
	if x := get(t, p, 65); x.Memory().id != idb {
		t.Errorf("got memory %d, want the newest, %d", x.Memory().id, idb)
	}
	if x := get(t, p, 128); x.Memory().id != ida || x.Len() != 128 || x.Cap() != 128 {
		t.Errorf("got memory %d of %d/%d bytes, want %d of 128", x.Memory().id, x.Len(), x.Cap(), ida)
	}
	if x := get(t, p, 129); x.Memory().id == ida || x.Memory().id == idb || x.Memory().size != 256 {
		t.Error("a request of another class was served from this one")
	}
	if s := p.Stats(); s.Allocations != 3 || s.Reuses != 2 || s.ReuseRate() != 0.4 || h.allocs != 3 {
		t.Errorf("stats %+v", s)
	}
}

// TestReuseAllocatesABuffer: that is a new one each time, so that a stale reference sees
// nothing, and the books of the pool take no memory, however often a class runs empty.
func TestReuseAllocatesABuffer(t *testing.T) {
	p, _, _ := newPool(t, 1<<20)
	got := testing.AllocsPerRun(100, func() { get(t, p, 100).Release() })
	if got > 1 {
		t.Errorf("%v allocations, want 1", got)
	}
	if s := p.Stats(); s.Classes != 1 || s.PooledBuffers != 1 {
		t.Errorf("stats %+v, want one free buffer", s)
	}
	get(t, p, 100)
	if s := p.Stats(); s.Classes != 0 || s.PooledBuffers != 0 {
		t.Errorf("stats %+v, want no free buffer", s)
	}
}

func TestExactBeyondLargestClass(t *testing.T) {
	p, _, _ := newPool(t, 0)
	n := MaxClass + 100
	a := get(t, p, n)
	if a.Cap() != n {
		t.Errorf("capacity %d, want exactly %d", a.Cap(), n)
	}
	id := a.Memory().id
	a.Release()
	if b := get(t, p, n+1); b.Memory().id == id {
		t.Error("a larger request got a smaller buffer")
	}
	if b := get(t, p, n-1); b.Memory().id == id {
		t.Error("exact sizes are shared only by equal requests")
	}
	if b := get(t, p, n); b.Memory().id != id {
		t.Error("an equal request got a new buffer")
	}
}

func TestPerClassBound(t *testing.T) {
	p, h, c := newPool(t, 0)
	var all []*Buffer[chunk]
	for range PerClass + 7 {
		all = append(all, get(t, p, 64))
	}
	first := all[0].Memory().id
	for _, b := range all {
		b.Release()
		c.add(time.Millisecond)
	}
	if s := p.Stats(); s.PooledBuffers != PerClass || s.Evictions != 7 || len(h.live) != PerClass {
		t.Errorf("stats %+v, %d alive, want %d buffers", s, len(h.live), PerClass)
	}
	if _, ok := h.live[first]; ok {
		t.Error("the oldest buffer outlived newer ones")
	}
}

func TestLimitEvictsLeastRecentlyUsed(t *testing.T) {
	p, h, c := newPool(t, 1024)
	var ids []int
	var bufs []*Buffer[chunk]
	for _, n := range []int{512, 256, 128, 64} {
		b := get(t, p, n)
		bufs, ids = append(bufs, b), append(ids, b.Memory().id)
	}
	for _, i := range []int{2, 0, 3, 1} { // ages: 128 oldest, then 512, 64, 256
		bufs[i].Release()
		c.add(time.Second)
	}
	get(t, p, 200).Release() // reuse: nothing to evict
	if len(h.live) != 4 {
		t.Fatalf("%d buffers alive, want 4", len(h.live))
	}
	b := get(t, p, 1000) // a new 1024 leaves no room for anything free
	if len(h.live) != 1 || h.bytes != 1024 {
		t.Errorf("%d buffers, %d bytes alive, want only the new one", len(h.live), h.bytes)
	}
	b.Release()
	get(t, p, 64)
	if _, ok := h.live[ids[0]]; ok || p.Stats().PooledBytes != 0 {
		t.Errorf("the limit is exceeded: %+v", p.Stats())
	}
}

func TestLimitOrder(t *testing.T) {
	p, h, c := newPool(t, 640)
	a, b := get(t, p, 256), get(t, p, 128)
	b.Release()
	c.add(time.Second)
	a.Release()
	get(t, p, 300) // 512 more: 128 must go, then 256 as well
	if len(h.live) != 1 {
		t.Errorf("%d alive, want 1", len(h.live))
	}
	p, h, c = newPool(t, 800)
	a, b = get(t, p, 256), get(t, p, 128)
	ida := a.Memory().id
	a.Release()
	c.add(time.Second)
	b.Release()
	get(t, p, 300) // 512+384 exceeds 800: the older 256 goes, and that is enough
	if _, ok := h.live[ida]; ok || len(h.live) != 2 {
		t.Errorf("alive %v, want all but %d", h.live, ida)
	}
}

func TestLargerThanLimit(t *testing.T) {
	p, h, _ := newPool(t, 256)
	small := get(t, p, 64)
	big := get(t, p, 4096) // only the allocator may refuse
	small.Release()
	if s := p.Stats(); s.PooledBuffers != 0 {
		t.Errorf("a buffer was pooled while the limit was exceeded: %+v", s)
	}
	big.Release()
	if len(h.live) != 0 {
		t.Errorf("%d alive, want none", len(h.live))
	}
	p.SetLimit(0)
	get(t, p, 4096).Release()
	if p.Stats().PooledBuffers != 1 {
		t.Error("without a limit the buffer should be kept")
	}
	p.SetLimit(64)
	if p.Stats().PooledBuffers != 0 || p.Limit() != 64 {
		t.Error("a lower limit was not enforced at once")
	}
}

func TestInFlight(t *testing.T) {
	p, h, _ := newPool(t, 0)
	b := get(t, p, 64)
	id := b.Memory().id
	for range 2 {
		if err := b.Fly(); err != nil {
			t.Fatal(err)
		}
	}
	b.Release()
	b.Release()
	if s := p.Stats(); s.InFlight != 1 || s.InUseBuffers != 1 || s.PooledBuffers != 0 {
		t.Errorf("stats %+v: a buffer in flight is in use", s)
	}
	if x := get(t, p, 64); x.Memory().id == id {
		t.Fatal("a buffer in flight was handed out")
	}
	p.Clear()
	b.Land()
	if x := get(t, p, 64); x.Memory().id == id {
		t.Fatal("one of two flights is still under way")
	}
	if err := b.Fly(); !errors.Is(err, ErrReleased) {
		t.Errorf("a released buffer took off: %v", err)
	}
	b.Land()
	if x := get(t, p, 64); x.Memory().id != id {
		t.Error("after landing the buffer should be free")
	}
	if _, ok := h.live[id]; !ok {
		t.Error("the buffer was freed in flight")
	}
	defer func() {
		if recover() == nil {
			t.Error("Land without Fly passed")
		}
	}()
	b.Land()
}

func TestDoubleReleaseDoesNotStealFromNextOwner(t *testing.T) {
	p, _, _ := newPool(t, 0)
	a := get(t, p, 64)
	a.Release()
	b := get(t, p, 64) // the same memory, another owner
	a.Release()
	if c := get(t, p, 64); c.Memory().id == b.Memory().id {
		t.Fatal("a second Release freed the buffer of its next owner")
	}
}

func TestManage(t *testing.T) {
	p, h, c := newPool(t, 0)
	if err := p.Warmup(64, 64, 200, 1000, MaxClass+1); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.PooledBuffers != 5 || s.Classes != 4 || s.PooledBytes != 64+64+256+1024+MaxClass+1 {
		t.Errorf("after warmup: %+v", s)
	}
	if n := p.ClearSize(1); n != 2 {
		t.Errorf("cleared %d of class 64, want 2", n)
	}
	if n := p.ShrinkToFit(1100); n != 2 || p.Stats().PooledBytes != 256 {
		t.Errorf("shrunk %d buffers to %d bytes, want the largest two gone", n, p.Stats().PooledBytes)
	}
	c.add(10 * time.Second)
	get(t, p, 5000).Release()
	if n := p.EvictOlderThan(5 * time.Second); n != 1 || p.Stats().PooledBytes != 8192 {
		t.Errorf("evicted %d, %d bytes left, want the old one gone", n, p.Stats().PooledBytes)
	}
	if err := p.Warmup(64, 64, 64); err != nil {
		t.Fatal(err)
	}
	if n := p.MemoryPressure(false); n != 1 || p.Stats().PooledBytes != 192 {
		t.Errorf("pressure freed %d, %d bytes left; the largest buffer should go", n, p.Stats().PooledBytes)
	}
	p.MemoryPressure(true)
	out := get(t, p, 64)
	p.Close()
	p.Close()
	out.Release()
	if len(h.live) != 0 {
		t.Errorf("%d alive after Close", len(h.live))
	}
	if _, err := p.Get(1); !errors.Is(err, ErrClosed) {
		t.Errorf("Get after Close: %v", err)
	}
}

func TestOutOfMemoryRetriesWithoutFreeBuffers(t *testing.T) {
	p, h, _ := newPool(t, 0)
	h.capacity = 1024
	get(t, p, 512).Release()
	get(t, p, 256).Release()
	b := get(t, p, 1024) // fits only when the free ones are given back
	if len(h.live) != 1 {
		t.Errorf("%d alive, want 1", len(h.live))
	}
	if _, err := p.Get(64); !errors.Is(err, errNoMemory) {
		t.Errorf("got %v, want the allocator's error", err)
	}
	if _, err := p.Get(-1); err == nil {
		t.Error("a negative size passed")
	}
	if err := p.Warmup(64, 64); !errors.Is(err, errNoMemory) {
		t.Errorf("warmup: got %v", err)
	}
	b.Release()
	if s := p.Stats(); s.InUseBuffers != 0 || s.InUseBytes != 0 {
		t.Errorf("stats %+v after failures", s)
	}
}

func TestLongLoopIsFlat(t *testing.T) {
	p, h, c := newPool(t, 1<<20)
	for i := range 10000 {
		a, b := get(t, p, 1000+i%5000), get(t, p, 40000+i%1000)
		c.add(time.Millisecond)
		b.Release()
		a.Release()
	}
	s := p.Stats()
	if h.allocs > 10 || s.ReuseRate() < 0.999 || s.PeakBytes > 1<<17 {
		t.Errorf("%d allocations in 10000 rounds, stats %+v", h.allocs, s)
	}
}

func BenchmarkGetRelease(b *testing.B) {
	p := New[chunk](newHeap(b), Options{})
	b.ReportAllocs()
	for b.Loop() {
		x, err := p.Get(1 << 16)
		if err != nil {
			b.Fatal(err)
		}
		x.Release()
	}
}

// TestNegativeSizes: no buffer has fewer than 0 bytes, and one of 0 is a buffer.
func TestNegativeSizes(t *testing.T) {
	p, _, _ := newPool(t, 0)
	for _, n := range []int{-1, -2, math.MinInt} {
		if b, err := p.Get(n); err == nil {
			t.Errorf("a buffer of %d bytes: %v", n, b)
		}
	}
	b, err := p.Get(0)
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
}
