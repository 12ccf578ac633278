// SPDX-License-Identifier: Apache-2.0

package capi

import (
	"sync"
	"time"
)

// Handing a job to a goroutine and its end back to a caller who sleeps wakes two
// threads, which takes 50 to 200 us: more than the smallest jobs themselves. A job
// that is known to be brief, and has the engine for itself, is therefore done by
// the thread that submits it; the caller finds it finished. It is known to be when
// the last one like it was. Nobody can cancel it meanwhile, which is why brief is
// far below the time in which a cancellation is expected to be seen.
const brief = 5 * time.Millisecond

// likeness is what jobs of equal length have in common. The zero likeness is like
// nothing.
type likeness struct {
	call           string
	h1, w1, h2, w2 int
	options        any // comparable
}

// durations are the times that jobs took last. The zero value is ready.
type durations struct {
	mu   sync.Mutex
	took map[likeness]time.Duration
}

// maxLikenesses bounds what is remembered, for callers whose sizes never repeat.
const maxLikenesses = 256

func (d *durations) note(like likeness, took time.Duration) {
	if like.h1 == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.took == nil || len(d.took) >= maxLikenesses {
		d.took = map[likeness]time.Duration{}
	}
	d.took[like] = took
}

// is says that the last job like this one was brief.
func (d *durations) is(like likeness) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	took, known := d.took[like]
	return known && took < brief
}

// forget is for what makes all times different, such as another model.
func (d *durations) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.took = nil
}
