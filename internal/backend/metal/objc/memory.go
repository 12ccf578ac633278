// SPDX-License-Identifier: Apache-2.0

package objc

import "runtime"

// WithPool runs f inside an autorelease pool on a locked OS thread. Pools are
// per thread and last-in first-out; were the goroutine to move between push
// and pop, the runtime would abort the process or leak everything.
func WithPool(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := rt.poolPush()
	defer rt.poolPop(p)
	f()
}

// Retain takes ownership of o and returns it; nil stays nil.
func Retain(o ID) ID {
	if o == 0 {
		return 0
	}
	return rt.retain(o)
}

// Release gives up ownership of o; nil is ignored.
func Release(o ID) {
	if o != 0 {
		rt.release(o)
	}
}

// Owner collects owned objects that end together. The zero value is ready.
type Owner struct{ ids []ID }

// Own records an owned (+1) object and returns it.
func (w *Owner) Own(o ID) ID {
	if o != 0 {
		w.ids = append(w.ids, o)
	}
	return o
}

// Keep retains a +0 object, records it and returns it.
func (w *Owner) Keep(o ID) ID { return w.Own(Retain(o)) }

// Release releases everything recorded, newest first. It may be called again.
func (w *Owner) Release() {
	for i := len(w.ids) - 1; i >= 0; i-- {
		Release(w.ids[i])
	}
	w.ids = nil
}
