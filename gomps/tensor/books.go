// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// books track the memory of a context: what is in use, and what may be reused while a
// batch is collected. A device runs operations in the order in which it receives them, so
// the memory of a released result may be given to the next one at once, although the
// device has run neither. Only the host must not write such memory, because it does not
// wait for its turn.
type books struct {
	live atomic.Int64
	// deferred: operations run some time after they are given to the device.
	deferred bool

	mu         sync.Mutex
	collecting bool
	// idle memory by the number of its bytes.
	idle map[int][]backend.Buffer
	// reuses counts how often again found memory.
	reuses uint64
}

// collect marks the start of a batch.
func (k *books) collect() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.collecting = k.deferred
}

// handOver marks the end of a batch; its idle memory goes back to the pool, which
// waits for the device.
func (k *books) handOver() {
	for _, list := range k.end() {
		for _, b := range list {
			b.Release()
		}
	}
}

func (k *books) end() map[int][]backend.Buffer {
	k.mu.Lock()
	defer k.mu.Unlock()
	idle := k.idle
	k.idle, k.collecting = nil, false
	return idle
}

// giveBack takes back n bytes of memory that are not in use any more.
func (k *books) giveBack(n int, b backend.Buffer) {
	if !k.keep(n, b) {
		b.Release()
	}
}

func (k *books) keep(n int, b backend.Buffer) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.collecting {
		return false
	}
	if k.idle == nil {
		k.idle = map[int][]backend.Buffer{}
	}
	k.idle[n] = append(k.idle[n], b)
	return true
}

// again returns idle memory of n bytes for the result of an operation that reads others,
// nil if there is none. The memory of an operand that another goroutine has just released
// is not idle.
func (k *books) again(n int, reads []backend.Buffer) backend.Buffer {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.idle[n]
	for i, b := range slices.Backward(list) {
		if slices.Contains(reads, b) {
			continue
		}
		k.idle[n] = slices.Delete(list, i, i+1)
		k.reuses++
		return b
	}
	return nil
}

// count says how often again found memory.
func (k *books) count() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reuses
}

func (k *books) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reuses = 0
}
