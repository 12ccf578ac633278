// SPDX-License-Identifier: Apache-2.0

package bufpool

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// model is the pool as one flat list, the obvious way: free buffers in the
// order of their release.
type model struct {
	limit int
	free  []freeChunk // oldest first
	inUse int         // bytes
	peak  int
	evict int
}

type freeChunk struct {
	id, size int
	since    time.Time
}

func (m *model) pooled() int {
	n := 0
	for _, f := range m.free {
		n += f.size
	}
	return n
}

func (m *model) enforce(extra int) {
	for m.limit != 0 && m.inUse+m.pooled()+extra > m.limit && len(m.free) > 0 {
		m.remove(0)
	}
}

func (m *model) remove(i int) {
	m.free = slices.Delete(m.free, i, i+1)
	m.evict++
}

// get returns the memory that must be reused, 0 for a new one.
func (m *model) get(size int) int {
	id := 0
	for i := len(m.free) - 1; i >= 0; i-- {
		if m.free[i].size == size {
			id = m.free[i].id
			m.free = slices.Delete(m.free, i, i+1)
			break
		}
	}
	if id == 0 {
		m.enforce(size)
	}
	m.inUse += size
	m.peak = max(m.peak, m.inUse+m.pooled())
	return id
}

func (m *model) release(id, size int, now time.Time) {
	m.inUse -= size
	if m.limit != 0 && size > m.limit {
		m.evict++
		return
	}
	same := 0
	for _, f := range m.free {
		if f.size == size {
			same++
		}
	}
	if same >= PerClass {
		m.remove(slices.IndexFunc(m.free, func(f freeChunk) bool { return f.size == size }))
	}
	m.free = append(m.free, freeChunk{id, size, now})
	m.enforce(0)
}

func (m *model) shrink(bytes int) {
	for m.pooled() > bytes {
		best := 0
		for i, f := range m.free {
			if f.size > m.free[best].size {
				best = i
			}
		}
		m.remove(best)
	}
}

func (m *model) removeIf(match func(freeChunk) bool) {
	for i := len(m.free) - 1; i >= 0; i-- {
		if match(m.free[i]) {
			m.remove(i)
		}
	}
}

// TestRandomAgainstModel drives the pool and the model with the same random
// operations and compares every book and every live buffer after each.
func TestRandomAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, seed, 1500) })
	}
}

type loan struct {
	b       *Buffer[chunk]
	flights int
	gone    bool // released while in flight
}

func runModel(t *testing.T, seed uint64, steps int) {
	r := rand.New(rand.NewPCG(seed, 7))
	limit := []int{0, 0, 3000, 50_000, 1 << 20}[r.IntN(5)]
	p, h, c := newPool(t, uint64(limit))
	m := &model{limit: limit}
	var loans []*loan
	for step := range steps {
		op := r.IntN(100)
		switch {
		case op < 45:
			n := randomSize(r)
			want := m.get(ClassSize(n))
			b := get(t, p, n)
			if want != 0 && b.Memory().id != want {
				t.Fatalf("step %d: got memory %d, want %d", step, b.Memory().id, want)
			}
			for _, l := range loans {
				if l.b.Memory().id == b.Memory().id {
					t.Fatalf("step %d: memory %d handed out twice", step, want)
				}
			}
			loans = append(loans, &loan{b: b})
		case op < 90 && len(loans) > 0:
			i := r.IntN(len(loans))
			if useLoan(t, r, m, c, loans[i], op) {
				loans = slices.Delete(loans, i, i+1)
			}
		case op < 92:
			n := ClassSize(randomSize(r))
			p.ClearSize(n)
			m.removeIf(func(f freeChunk) bool { return f.size == n })
		case op < 94:
			age := time.Duration(r.IntN(50)) * time.Second
			p.EvictOlderThan(age)
			m.removeIf(func(f freeChunk) bool { return f.since.Before(c.now().Add(-age)) })
		case op < 96:
			n := r.IntN(m.pooled() + 1)
			p.ShrinkToFit(uint64(n))
			m.shrink(n)
		case op < 97:
			p.Clear()
			m.removeIf(func(freeChunk) bool { return true })
		default:
			if limit != 0 {
				m.limit = 1 + r.IntN(2*limit)
				p.SetLimit(uint64(m.limit))
				m.enforce(0)
			}
		}
		c.add(time.Duration(r.IntN(2)) * time.Second) // sometimes the clock stands still
		compare(t, step, p, h, m, loans)
	}
}

// useLoan releases, flies or lands one buffer and reports whether it is back in
// the pool.
func useLoan(t *testing.T, r *rand.Rand, m *model, c *clock, l *loan, op int) bool {
	switch {
	case op < 60 && !l.gone:
		if err := l.b.Fly(); err != nil {
			t.Fatal(err)
		}
		l.flights++
		return false
	case l.flights > 0 && r.IntN(2) == 0:
		l.flights--
		if l.gone && l.flights == 0 {
			m.release(l.b.Memory().id, l.b.Cap(), c.now())
		}
		l.b.Land()
	default:
		if !l.gone && l.flights == 0 {
			m.release(l.b.Memory().id, l.b.Cap(), c.now())
		}
		l.gone = true
		l.b.Release()
	}
	return l.gone && l.flights == 0
}

func randomSize(r *rand.Rand) int {
	switch r.IntN(10) {
	case 0:
		return r.IntN(3)
	case 1:
		return MaxClass + r.IntN(3)
	}
	return 1 + r.IntN(1<<(4+r.IntN(10)))
}

func compare(t *testing.T, step int, p *Pool[chunk], h *heap, m *model, loans []*loan) {
	t.Helper()
	s := p.Stats()
	flying := 0
	for _, l := range loans {
		if l.flights > 0 {
			flying++
		}
	}
	classes := map[int]bool{}
	for _, f := range m.free {
		classes[f.size] = true
		if h.live[f.id] != f.size {
			t.Fatalf("step %d: free memory %d is not alive", step, f.id)
		}
	}
	if s.PooledBuffers != len(m.free) || s.PooledBytes != uint64(m.pooled()) || s.InUseBytes != uint64(m.inUse) ||
		s.InUseBuffers != len(loans) || s.InFlight != flying || s.Classes != len(classes) ||
		s.Evictions != uint64(m.evict) || s.PeakBytes != uint64(m.peak) {
		t.Fatalf("step %d: stats %+v, want %d free (%d bytes, %d classes), %d in use (%d bytes), %d flying, %d evicted, peak %d",
			step, s, len(m.free), m.pooled(), len(classes), len(loans), m.inUse, flying, m.evict, m.peak)
	}
	if len(h.live) != len(m.free)+len(loans) {
		t.Fatalf("step %d: %d buffers alive, want %d free and %d in use", step, len(h.live), len(m.free), len(loans))
	}
	if s.PooledBytes > 0 && m.limit != 0 && s.PooledBytes+s.InUseBytes > uint64(m.limit) {
		t.Fatalf("step %d: %d bytes pooled, %d in use, limit %d", step, s.PooledBytes, s.InUseBytes, m.limit)
	}
}

// TestLimitsDoNotChangeWhatCallersSee is metamorphic: the same requests through
// pools with different limits get buffers of the same sizes; only the number of
// allocations differs, and a tighter limit never needs fewer.
func TestLimitsDoNotChangeWhatCallersSee(t *testing.T) {
	allocs := func(limit uint64) int {
		p, h, c := newPool(t, limit)
		r := rand.New(rand.NewPCG(1, 2))
		var out []*Buffer[chunk]
		for range 3000 {
			n := 1 + r.IntN(5000)
			b := get(t, p, n)
			if b.Len() != n || b.Cap() != ClassSize(n) || b.Memory().size != b.Cap() {
				t.Fatalf("limit %d: %d bytes: len %d, cap %d, memory %d", limit, n, b.Len(), b.Cap(), b.Memory().size)
			}
			out = append(out, b)
			if len(out) > 8 {
				i := r.IntN(len(out))
				out[i].Release()
				out = slices.Delete(out, i, i+1)
			}
			c.add(time.Second)
		}
		for _, b := range out {
			b.Release()
		}
		p.Close()
		if len(h.live) != 0 {
			t.Errorf("limit %d: %d alive after Close", limit, len(h.live))
		}
		return h.allocs
	}
	none, wide, tight := allocs(0), allocs(60_000), allocs(1)
	if none > wide || wide > tight || tight != 3000 {
		t.Errorf("allocations %d without a limit, %d with a wide one, %d with none to keep", none, wide, tight)
	}
}

// TestConcurrent has many goroutines use one pool; each writes its mark into a
// table of owners, so that memory handed out twice is seen.
func TestConcurrent(t *testing.T) {
	h := newHeap(t)
	p := New[chunk](h, Options{Limit: 1 << 18})
	var owners sync.Map
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 2000 {
				b, err := p.Get(r.IntN(1 << 14))
				if err != nil {
					t.Error(err)
					return
				}
				id := b.Memory().id
				if other, taken := owners.LoadOrStore(id, g); taken {
					t.Errorf("memory %d belongs to %v and %d", id, other, g)
				}
				if r.IntN(3) == 0 {
					if err := b.Fly(); err != nil {
						t.Error(err)
					}
					b.Release()
					owners.Delete(id)
					b.Land()
					continue
				}
				owners.Delete(id)
				b.Release()
				switch r.IntN(40) {
				case 0:
					p.Clear()
				case 1:
					p.ShrinkToFit(1 << 14)
				case 2:
					p.EvictOlderThan(time.Microsecond)
				}
			}
		})
	}
	wg.Wait()
	s := p.Stats()
	if s.InUseBuffers != 0 || s.InFlight != 0 || s.PooledBuffers != len(h.live) || int(s.PooledBytes) != h.bytes {
		t.Errorf("stats %+v, %d buffers of %d bytes alive", s, len(h.live), h.bytes)
	}
	p.Close()
	if len(h.live) != 0 {
		t.Errorf("%d alive after Close", len(h.live))
	}
}
