// SPDX-License-Identifier: Apache-2.0

//go:build unix

package par

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/emulated"
)

// A cancelled region skips the tiles that have not started, and Run does not return
// to the function that called it.
func TestWithStops(t *testing.T) {
	for _, threads := range []int{1, 2, 8} {
		p := New(threads)
		ctx, cancel := context.WithCancel(context.Background())
		var ran atomic.Int32
		reached := false
		err := p.With(ctx, func(q *Pool) error {
			q.Run(1000, func(_, i int) {
				if ran.Add(1) == 1 {
					cancel()
				}
				for !q.Stopped() { // until the context's goroutine has said so
					time.Sleep(time.Millisecond)
				}
			})
			reached = true
			return nil
		})
		if !errors.Is(err, context.Canceled) || reached {
			t.Errorf("%d threads: %v, Run returned: %v", threads, err, reached)
		}
		if n := int(ran.Load()); n > threads {
			t.Errorf("%d threads: %d tiles ran after the end", threads, n)
		}
		// The pool and other views of it are as before.
		n := 0
		p.Run(10, func(w, _ int) {
			if w == 0 {
				n++
			}
		})
		if err := p.With(context.Background(), func(q *Pool) error { q.Run(3, func(_, _ int) {}); return nil }); err != nil {
			t.Error(err)
		}
		if p.Stopped() {
			t.Error("the pool itself is stopped")
		}
		if err := p.With(ctx, func(*Pool) error { t.Error("called with a context that has ended"); return nil }); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		p.Close()
	}
}

func TestWithPassesPanics(t *testing.T) {
	p := New(2)
	defer p.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer func() {
		var e *Panic
		if err, ok := recover().(error); !ok || !errors.As(err, &e) || e.Value != "mine" {
			t.Errorf("recovered %v", err)
		}
	}()
	_ = p.With(ctx, func(q *Pool) error {
		q.Run(4, func(_, _ int) { panic("mine") })
		return nil
	})
}

// After a tile has panicked, tiles that have not started are skipped.
func TestTilesAfterAPanicAreSkipped(t *testing.T) {
	const threads, tiles = 4, 10000
	p := New(threads)
	defer p.Close()
	var after atomic.Int32
	var failed atomic.Bool
	func() {
		defer func() { _ = recover() }()
		p.Run(tiles, func(_, i int) {
			if failed.Load() {
				after.Add(1)
				time.Sleep(100 * time.Microsecond) // longer than a panic takes to be noted
			}
			if i == 0 {
				failed.Store(true)
				panic("first")
			}
		})
	}()
	// Some run between the panic and its note; not nearly all of them.
	if n := after.Load(); n > tiles/2 {
		t.Errorf("%d of %d tiles ran after the first had panicked", n, tiles)
	}
}

// A memory fault on any worker is the caller's panic and not the end of the process.
func TestAFaultOnAWorkerIsAPanic(t *testing.T) {
	emulated.SkipFaults(t)
	page := os.Getpagesize()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 2*page), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 2*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	if err := os.Truncate(path, int64(page)); err != nil {
		t.Fatal(err)
	}
	p := New(4)
	defer p.Close()
	for range 20 {
		var sum atomic.Int64
		var e *Panic
		func() {
			defer func() { e, _ = recover().(*Panic) }()
			p.Run(64, func(w, _ int) {
				if w > 0 {
					sum.Add(int64(mem[page+17]))
				} else {
					time.Sleep(time.Millisecond) // the others get tiles
				}
			})
		}()
		if e == nil {
			t.Fatal("no panic")
		}
	}
	// The goroutines of Go as well.
	got := make(chan *Panic)
	Go(func() {
		if mem[page] == 0 {
			got <- nil
		}
	}, func(p *Panic) { got <- p })
	if e := <-got; e == nil {
		t.Error("no panic on a goroutine")
	}
}
