// SPDX-License-Identifier: Apache-2.0

//go:build unix

package device_test

import (
	"sync"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// TestOwnerStack: jobs run on a stack large enough for a compiler, whichever
// thread opened the device, and the thread ends with the device.
func TestOwnerStack(t *testing.T) {
	const enough = 8 << 20
	d, _ := open(t)
	if d.Info().Stack < enough {
		t.Errorf("the owner thread has %d bytes of stack, want %d", d.Info().Stack, enough)
	}
	size := 0
	if err := d.Do(func() error { size = objc.StackSize(); return nil }); err != nil || size != d.Info().Stack {
		t.Errorf("a job has %d bytes of stack, %v, want %d", size, err, d.Info().Stack)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			// From a thread with a small stack, as a thread pool's may be.
			done := make(chan error)
			err := objc.StartThread(256<<10, func() {
				d, err := device.Open()
				if err == nil && d.Info().Stack < enough {
					t.Errorf("opened from a small thread, the owner has %d bytes of stack", d.Info().Stack)
				}
				if err == nil {
					err = d.Close()
				}
				done <- err
			})
			if err == nil {
				err = <-done
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestPanicOnOwner: a panic of a job continues in its caller, and the thread lives.
func TestPanicOnOwner(t *testing.T) {
	metalsim.Open(t)
	d, _ := open(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		_ = d.Do(func() error { panic("a bug") })
	}()
	if err := d.Do(func() error { return nil }); err != nil {
		t.Error(err)
	}
}
