// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// Close waits for the last of the runs, one of two calls frees, and nothing starts
// afterwards.
func TestFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f backend.Flights
		for range 2 {
			if !f.Start() {
				t.Fatal("an open program takes no run")
			}
		}
		var closed, first atomic.Int32
		for range 2 {
			go func() {
				if f.Close() {
					first.Add(1)
				}
				closed.Add(1)
			}()
		}
		f.End()
		synctest.Wait()
		if n := closed.Load(); n != 0 {
			t.Fatalf("%d calls of Close did not wait for a run in flight", n)
		}
		f.End()
		synctest.Wait()
		if closed.Load() != 2 || first.Load() != 1 {
			t.Fatalf("%d calls of Close ended, %d were the first; want 2 and 1", closed.Load(), first.Load())
		}
		if f.Start() {
			t.Fatal("a closed program takes a run")
		}
	})
}
