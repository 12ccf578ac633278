// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gomps_test

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// heapBytes is what the calls allocated on the Go heap, each.
func heapBytes(t *testing.T, calls int, f func()) uint64 {
	t.Helper()
	f()
	f() // programs are compiled, buffers of the usual sizes are in the pool
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / uint64(calls)
}

// After the first calls nothing of the size of a tensor is allocated: what is left
// are descriptions of results. The smallest tensor of these calls, a map of
// confidences, has 4 bytes for each of 96x128 pixels.
func TestSteadyCallsAllocateNoTensors(t *testing.T) {
	const h, w = 96, 128
	const most = h * w * 4
	e := open(t, gomps.Config{Resolution: w, Threads: 2}, "mast3r_micro")
	ctx := context.Background()
	a, b := picture(h, w, 0), picture(h, w, 4)
	views := []gomps.Image{a, b, a, b}
	for name, f := range map[string]func() error{
		"Infer": func() error {
			r, err := e.Infer(ctx, a, b, gomps.InferOptions{})
			if err == nil {
				r.Release()
			}
			return err
		},
		"Infer raw": func() error {
			r, err := e.Infer(ctx, a, b, gomps.InferOptions{Raw: true})
			if err == nil {
				r.Release()
			}
			return err
		},
		"Infer points": func() error {
			r, err := e.Infer(ctx, a, b, gomps.InferOptions{Only: gomps.OutputPoints})
			if err == nil {
				r.Release()
			}
			return err
		},
		"InferSymmetric": func() error {
			r, err := e.InferSymmetric(ctx, a, b, gomps.InferOptions{})
			if err == nil {
				r.Release()
			}
			return err
		},
		"InferSequence": func() error {
			list, err := e.InferSequence(ctx, views, gomps.InferOptions{})
			for _, r := range list {
				r.Release()
			}
			return err
		},
	} {
		got := heapBytes(t, 5, func() {
			if err := f(); err != nil {
				t.Fatal(name, err)
			}
		})
		t.Logf("%s: %d bytes a call", name, got)
		if got >= most {
			t.Errorf("%s: %d bytes of heap a call, want less than the smallest tensor, %d", name, got, most)
		}
	}
}

func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// An engine that has worked and waits for work uses no processor time: its threads
// sleep. This compares processor time with the clock and is no measurement of
// speed; one spinning thread would use all of the half second.
func TestIdleEngineSleeps(t *testing.T) {
	e := open(t, gomps.Config{Resolution: 64, Threads: 2}, "mast3r_micro")
	infer(t, e, picture(48, 64, 0), picture(48, 64, 4)).Release()
	runtime.GC()
	time.Sleep(50 * time.Millisecond) // until the collector's workers are done
	before := processorTime(t)
	const idle = 500 * time.Millisecond
	time.Sleep(idle)
	if used := processorTime(t) - before; used > idle/5 {
		t.Errorf("%v of processor time in %v of idleness", used, idle)
	}
}
