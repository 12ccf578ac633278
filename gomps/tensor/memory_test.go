// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// footprint is what must not grow.
type footprint struct {
	tensors, buffers, pooled, programs int
	poolBytes                          uint64
	heap                               uint64
}

func measure(t *testing.T, c *Context) footprint {
	t.Helper()
	if err := c.Sync(); err != nil {
		t.Fatal(err)
	}
	// Twice: what the first collection finds unused is freed by cleanups that run
	// after it.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := c.Stats()
	return footprint{s.LiveTensors, s.Device.LiveBuffers, s.Device.PoolBuffers, s.Programs, s.Device.PoolBytes, m.HeapAlloc}
}

// TestLongTrainingIsFlat trains for 10,000 steps, on the simulated GPU for fewer.
func TestLongTrainingIsFlat(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		steps := 10_000
		if c.Stats().Device.Backend != "cpu" {
			steps = 400
		}
		keep := keeper(t)
		r := rand.New(rand.NewPCG(3, 4))
		x, y := keep(c.FromFloat32s([]float32{0, 0, 0, 1, 1, 0, 1, 1}, 4, 2)), keep(c.FromFloat32s([]float32{0, 1, 1, 0}, 4, 1))
		w1, b1 := newParameter(t, c, keep, r, 2, 8, 2), newParameter(t, c, keep, r, 2, 8)
		w2, b2 := newParameter(t, c, keep, r, 8, 1, 8), newParameter(t, c, keep, r, 8, 1)
		var start footprint
		for s := 1; s <= steps; s++ {
			h := must[*Tensor](t)(c.Linear(x, w1.w, b1.w, Tanh))
			p := must[*Tensor](t)(c.Linear(h, w2.w, b2.w, Sigmoid))
			gp := must[*Tensor](t)(c.MSEGrad(p, y, 0.5))
			gh := must[*Tensor](t)(c.LinearBackward(gp, p, h, w2.w, w2.g, b2.g, Sigmoid))
			gx := must[*Tensor](t)(c.LinearBackward(gh, h, x, w1.w, w1.g, b1.g, Tanh))
			for _, q := range []*parameter{w1, b1, w2, b2} {
				q.step(t, c, DefaultAdam(), s)
			}
			release([]*Tensor{h, p, gp, gh, gx})
			if s == steps/4 {
				start = measure(t, c)
			}
		}
		end := measure(t, c)
		// The pool may have come to hold a buffer more for a batch that ended
		// elsewhere; a leak would be one a step.
		if end.tensors != start.tensors || end.buffers != start.buffers || end.programs != start.programs || end.pooled > start.pooled+perBatch {
			t.Errorf("after %d steps %+v, after %d %+v", steps, end, steps/4, start)
		}
		if end.heap > start.heap+512<<10 {
			t.Errorf("the heap grew from %d to %d bytes", start.heap, end.heap)
		}
	})
}

// perBatch is how many buffers a batch of operations may hold more or less.
const perBatch = 64

// TestCacheIsBounded runs operations of random shapes, none of which comes often.
func TestCacheIsBounded(t *testing.T) {
	for _, name := range []string{"cpu", "metal"} {
		t.Run(name, func(t *testing.T) {
			rounds, size := 4000, 32
			if name == "metal" {
				metalsim.Open(t)
				rounds = 300
			}
			c, err := Open(Config{Backend: name, CacheSize: size})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r := rand.New(rand.NewPCG(7, 8))
			var start footprint
			for i := range rounds {
				m, k, n := 1+r.IntN(20), 1+r.IntN(20), 1+r.IntN(20)
				a, b := must[*Tensor](t)(c.Full(1, m, k)), must[*Tensor](t)(c.Full(2, k, n))
				y := must[*Tensor](t)(c.MatMul(a, b))
				v := must[[]float32](t)(y.Float32s())
				if v[m*n-1] != float32(2*k) {
					t.Fatalf("%dx%dx%d: %v", m, k, n, v[m*n-1])
				}
				release([]*Tensor{a, b, y})
				if i == rounds/2 {
					start = measure(t, c)
				}
			}
			end := measure(t, c)
			if end.programs > size || end.tensors != 0 || end.buffers != start.buffers {
				t.Errorf("%+v, want at most %d programs and nothing alive", end, size)
			}
			if end.heap > start.heap+1<<20 || end.pooled > start.pooled+perBatch {
				t.Errorf("grew from %+v to %+v", start, end)
			}
			before := c.Stats()
			x := must[*Tensor](t)(c.Full(1, 3))
			defer x.Release()
			for range 5 {
				must[*Tensor](t)(c.Exp(x)).Release()
			}
			if s := c.Stats(); s.CacheHits != before.CacheHits+4 || s.CacheMisses != before.CacheMisses+1 {
				t.Errorf("%d hits and %d misses of 5 equal operations", s.CacheHits-before.CacheHits, s.CacheMisses-before.CacheMisses)
			}
			if err := c.Cleanup(); err != nil {
				t.Fatal(err)
			}
			if s := c.Stats(); s.Programs != 0 || s.Operations != 0 || s.Device.PoolBuffers != 0 {
				t.Errorf("after Cleanup: %+v", s)
			}
			if err := c.Cleanup(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBatches: operations go to the device by number, by Commit, by Sync and by a
// read; no more than a few batches are under way.
func TestBatches(t *testing.T) {
	metalsim.Open(t)
	c, err := Open(Config{Backend: "metal", BatchSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x := must[*Tensor](t)(c.Full(1, 4))
	defer x.Release()
	run := func(n int) {
		for range n {
			must[*Tensor](t)(c.Exp(x)).Release()
		}
	}
	want := func(what string, commits uint64, pending int) {
		t.Helper()
		if s := c.Stats(); s.Commits != commits || s.Pending != pending {
			t.Errorf("%s: %d commits and %d pending, want %d and %d", what, s.Commits, s.Pending, commits, pending)
		}
	}
	run(25)
	want("25 operations", 2, 5)
	if err := c.Commit(); err != nil {
		t.Fatal(err)
	}
	want("commit", 3, 0)
	run(1)
	if err := c.Sync(); err != nil {
		t.Fatal(err)
	}
	want("sync", 4, 0)
	if len(c.flying) != 0 {
		t.Errorf("%d batches after Sync", len(c.flying))
	}
	run(2)
	must[[]float32](t)(x.Float32s())
	want("read", 5, 0)
	run(100)
	if len(c.flying) > maxFlying {
		t.Errorf("%d batches are under way, want at most %d", len(c.flying), maxFlying)
	}
}

// TestPool: tensors come from one pool of power-of-two classes, which does as it
// is told.
func TestPool(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		p := c.Pool()
		if err := p.Warmup(1000, 1000, 5000); err != nil {
			t.Fatal(err)
		}
		if s := p.Stats(); s.PooledBuffers != 3 || s.PooledBytes != 2*1024+8192 || s.Classes != 2 || s.Allocations != 3 {
			t.Errorf("after Warmup: %+v", s)
		}
		x := must[*Tensor](t)(c.Full(1, 250)) // 1000 bytes
		if s := p.Stats(); s.Reuses != 1 || s.InUseBytes != 1024 || s.ReuseRate() != 0.25 {
			t.Errorf("after a tensor: %+v", s)
		}
		y := must[*Tensor](t)(c.Exp(x)) // the other one
		x.Release()
		if v := must[[]float32](t)(y.Float32s()); v[249] < 2.7 || v[249] > 2.72 {
			t.Errorf("exp(1) = %v", v[249])
		}
		y.Release()
		if n := p.ClearSize(600); n != 2 {
			t.Errorf("ClearSize removed %d buffers, want 2", n)
		}
		if n := p.ShrinkToFit(0); n != 1 {
			t.Errorf("ShrinkToFit removed %d buffers, want 1", n)
		}
		p.SetLimit(4096)
		z := must[*Tensor](t)(c.Full(1, 2000)) // larger than the limit, and never refused
		z.Release()
		if s := p.Stats(); s.PooledBuffers != 0 || s.InUseBuffers != 0 || s.PeakBytes < 8192 {
			t.Errorf("beyond the limit: %+v", s)
		}
	})
}

// TestWaitingWorkKeepsItsOperands: what an operation was given is what it reads,
// whatever happens to its operands before the device gets to it.
func TestWaitingWorkKeepsItsOperands(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		var sums []*Tensor
		for i := range 50 {
			x := must[*Tensor](t)(c.Full(float32(i), 64))
			sums = append(sums, keep(c.Sum(x)))
			// In place, released, and its memory asked for again by the next round,
			// whose numbers the host writes at once.
			if err := x.AddInPlace(x); err != nil {
				t.Fatal(err)
			}
			x.Release()
		}
		for i, s := range sums {
			if v := must[[]float32](t)(s.Float32s()); v[0] != float32(64*i) {
				t.Fatalf("sum %d is %v, want %d", i, v[0], 64*i)
			}
		}
	})
}

// TestBatchesReuseMemory: a loop that releases its results needs as many buffers in
// batches of 100 as one after the other.
func TestBatchesReuseMemory(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		x := must[*Tensor](t)(c.Full(2, 64, 64))
		defer x.Release()
		before := c.Pool().Stats()
		var last *Tensor
		for range 1000 {
			last.Release()
			last = must[*Tensor](t)(c.MatMul(x, x))
		}
		if v := must[[]float32](t)(last.Float32s()); v[64*64-1] != 256 {
			t.Errorf("2 * 2 * 64 = %v", v[64*64-1])
		}
		last.Release()
		s := c.Pool().Stats()
		if made := s.Allocations - before.Allocations; made > 10 || s.Evictions != before.Evictions || s.ReuseRate() < 0.98 {
			t.Errorf("1000 equal products: %+v, want at most 10 allocations", s)
		}
		if s.PeakBytes == 0 || s.OverheadBytes != 0 {
			t.Errorf("%+v: buffers of 16 KiB have nothing to spare", s)
		}
		if err := c.Cleanup(); err != nil {
			t.Fatal(err)
		}
		if s := c.Pool().Stats(); s.Allocations+s.Reuses+s.Evictions != 0 || s.PeakBytes != s.InUseBytes || s.PooledBytes != 0 {
			t.Errorf("after Cleanup: %+v", s)
		}
	})
}

// TestReuseInBatchIsInOrder: results that take over the memory of results before
// them, in one batch, have the values of a run with a wait after each operation.
func TestReuseInBatchIsInOrder(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		run := func(wait bool) []float32 {
			y := must[*Tensor](t)(c.Full(0.1, 16, 16))
			for i := range 250 {
				k := must[*Tensor](t)(c.Full(float32(i%7)-3, 16, 16)) // the host writes while results wait
				z := must[*Tensor](t)(c.Add(y, k))
				y.Release()
				k.Release()
				y = must[*Tensor](t)(c.Tanh(z))
				z.Release()
				if wait {
					if err := c.Sync(); err != nil {
						t.Fatal(err)
					}
				}
			}
			defer y.Release()
			return must[[]float32](t)(y.Float32s())
		}
		want, got := run(true), run(false)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("element %d: %v, want %v", i, got[i], want[i])
			}
		}
	})
}

// TestPoolSettings: the cap of the pool and the size of a batch go together.
func TestPoolSettings(t *testing.T) {
	for _, c := range []struct {
		given          Config
		batch, perSize int
		wrong          bool
	}{
		{Config{}, 100, 100, false},
		{Config{BatchSize: 10}, 10, 50, false},
		{Config{BatchSize: 300}, 300, 300, false},
		{Config{PoolPerSize: 8}, 8, 8, false},
		{Config{PoolPerSize: 500}, 100, 500, false},
		{Config{PoolPerSize: 20, BatchSize: 20}, 20, 20, false},
		{Config{PoolPerSize: 20, BatchSize: 21}, 0, 0, true},
		{Config{PoolPerSize: -1}, 0, 0, true},
	} {
		batch, perSize, err := c.given.batching()
		if batch != c.batch || perSize != c.perSize || (err != nil) != c.wrong {
			t.Errorf("%+v: batches of %d, pool of %d, %v", c.given, batch, perSize, err)
		}
	}
	c, err := Open(Config{Backend: "cpu", PoolPerSize: 4, PoolLimit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := c.Pool()
	if p.PerClass() != 4 || p.Limit() != 1<<20 {
		t.Errorf("the pool keeps %d of a size and %d bytes", p.PerClass(), p.Limit())
	}
	if err := p.Warmup(100, 100, 100, 100, 100, 100); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.PooledBuffers != 4 || s.Evictions != 2 {
		t.Errorf("six buffers given back: %+v", s)
	}
	p.SetPerClass(1)
	if s := p.Stats(); s.PooledBuffers != 1 || s.Evictions != 5 {
		t.Errorf("one of a size: %+v", s)
	}
	x := must[*Tensor](t)(c.Full(1, 25)) // 100 bytes of 128
	defer x.Release()
	if s := p.Stats(); s.OverheadBytes != 28 {
		t.Errorf("%d bytes of overhead, want 28", s.OverheadBytes)
	}
}
