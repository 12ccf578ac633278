// SPDX-License-Identifier: Apache-2.0

package par

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Every tile runs exactly once, with a worker number in range that no other
// running tile holds.
func TestRunCoversEveryTileOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		p := New(threads)
		if p.Threads() != threads {
			t.Fatalf("Threads() = %d, want %d", p.Threads(), threads)
		}
		busy := make([]atomic.Int32, threads)
		for _, tiles := range []int{0, 1, 2, 7, 1000} {
			seen := make([]int32, tiles)
			p.Run(tiles, func(w, i int) {
				if w < 0 || w >= threads {
					t.Errorf("worker %d of %d", w, threads)
					return
				}
				if busy[w].Add(1) != 1 {
					t.Errorf("worker number %d held twice at once", w)
				}
				atomic.AddInt32(&seen[i], 1)
				if i%16 == 0 {
					runtime.Gosched()
				}
				busy[w].Add(-1)
			})
			for i, n := range seen {
				if n != 1 {
					t.Fatalf("threads %d, tiles %d: tile %d ran %d times", threads, tiles, i, n)
				}
			}
		}
		p.Close()
	}
}

// Two tiles that wait for each other finish only if two workers run them.
func TestRunUsesOtherWorkers(t *testing.T) {
	p := New(2)
	defer p.Close()
	var met sync.WaitGroup
	met.Add(2)
	done := make(chan struct{})
	Go(func() {
		p.Run(2, func(_, _ int) { met.Done(); met.Wait() })
		close(done)
	}, func(e *Panic) { t.Error(e) })
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("two tiles never ran at the same time")
	}
}

func TestRunFromManyGoroutines(t *testing.T) {
	p := New(3)
	defer p.Close()
	var sum atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		Go(func() {
			defer wg.Done()
			for range 200 {
				p.Run(5, func(_, i int) { sum.Add(int64(i)) })
			}
		}, func(e *Panic) { t.Error(e) })
	}
	wg.Wait()
	if got, want := sum.Load(), int64(8*200*10); got != want {
		t.Fatalf("sum %d, want %d", got, want)
	}
}

func TestPanicReachesCaller(t *testing.T) {
	boom := errors.New("boom")
	p := New(2)
	defer p.Close()
	for round := range 20 { // the pool must stay usable
		var e *Panic
		func() {
			defer func() { e, _ = recover().(*Panic) }()
			p.Run(64, func(_, i int) {
				if i == 13 {
					panic(boom)
				}
			})
		}()
		if e == nil || e.Tile != 13 || !errors.Is(e, boom) {
			t.Fatalf("round %d: recovered %+v, want *Panic of tile 13 with %v", round, e, boom)
		}
		if !strings.Contains(string(e.Stack), "pool_test.go") {
			t.Fatalf("the stack does not name the place of the panic:\n%s", e.Stack)
		}
		var n atomic.Int64
		p.Run(10, func(_, _ int) { n.Add(1) })
		if n.Load() != 10 {
			t.Fatalf("after a panic %d of 10 tiles ran", n.Load())
		}
	}
}

func TestGoReportsPanic(t *testing.T) {
	got := make(chan *Panic, 1)
	Go(func() { panic("gone") }, func(e *Panic) { got <- e })
	if e := <-got; e.Tile != -1 || e.Value != "gone" || e.Unwrap() != nil {
		t.Fatalf("got %+v", e)
	}
}

func TestCloseEndsWorkers(t *testing.T) {
	before := runtime.NumGoroutine()
	p := New(9)
	p.Run(100, func(_, _ int) {})
	p.Close()
	p.Close()
	// Done is called just before a goroutine leaves; give the scheduler a moment.
	for i := 0; runtime.NumGoroutine() > before && i < 1000; i++ {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Fatalf("%d goroutines after Close, %d before New", n, before)
	}
	n := 0
	p.Run(4, func(w, _ int) {
		if w != 0 {
			t.Errorf("worker %d ran a tile after Close", w)
		}
		n++
	})
	if n != 4 {
		t.Fatalf("Run after Close ran %d of 4 tiles", n)
	}
}

func TestRunDoesNotAllocate(t *testing.T) {
	p := New(2)
	defer p.Close()
	var n atomic.Int64
	fn := func(_, _ int) { n.Add(1) }
	if a := testing.AllocsPerRun(200, func() { p.Run(16, fn) }); a != 0 {
		t.Fatalf("%v allocations per Run", a)
	}
}

// Workers look for another region for a moment and then sleep, however many
// regions there were and however many workers.
func TestWorkersStopLingering(t *testing.T) {
	for _, threads := range []int{2, 5} {
		p := New(threads)
		for range 100 {
			p.Run(3*threads, func(_, _ int) {})
		}
		for i := 0; p.awake.Load() > 0; i++ {
			if i == 10000 {
				t.Fatalf("%d of %d threads are still awake", p.awake.Load(), threads)
			}
			time.Sleep(time.Millisecond)
		}
		if n := p.seats.Load(); int(n) > runtime.GOMAXPROCS(0)-1 {
			t.Errorf("%d workers may linger beside the caller on %d processors", n, runtime.GOMAXPROCS(0))
		}
		p.Close()
	}
}

// Regions of all lengths, one right after the other and with gaps, meet workers
// that linger, fall asleep and wake up.
func TestRunAfterPauses(t *testing.T) {
	p := New(3)
	defer p.Close()
	var n, want int64
	var sum atomic.Int64
	for i := range int64(3000) {
		p.Run(int(i%7), func(_, tile int) {
			if tile == 0 && i%5 == 0 {
				time.Sleep(time.Duration(i%3) * 15 * time.Microsecond)
			}
			sum.Add(1)
		})
		want += i % 7
		if n = sum.Load(); n != want {
			t.Fatalf("after region %d %d tiles ran, want %d", i, n, want)
		}
		if i%4 == 0 {
			time.Sleep(time.Duration(i%11) * 4 * time.Microsecond)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	p := New(0)
	defer p.Close()
	fn := func(_, _ int) {}
	b.ReportAllocs()
	for b.Loop() {
		p.Run(2*p.Threads(), fn)
	}
}
