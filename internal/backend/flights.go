// SPDX-License-Identifier: Apache-2.0

package backend

import "sync"

// Flights counts the runs of a program that the device is not done with, so that
// Close frees nothing that one of them reads. The zero value is ready for use.
type Flights struct {
	mu     sync.Mutex
	idle   *sync.Cond // made by the Close that has to wait
	count  int
	closed bool
}

// Start counts one run more. It is false after Close.
func (f *Flights) Start() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.count++
	return true
}

// End counts one run less.
func (f *Flights) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count--; f.count == 0 && f.idle != nil {
		f.idle.Broadcast()
	}
}

// Close waits until no run is left. It says whether this call is the first, whose
// caller frees the program.
func (f *Flights) Close() (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.idle == nil {
		f.idle = sync.NewCond(&f.mu)
	}
	for f.count > 0 {
		f.idle.Wait()
	}
	first = !f.closed
	f.closed = true
	return first
}
