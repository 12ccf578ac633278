// SPDX-License-Identifier: Apache-2.0

package par

import (
	"context"
	"errors"
	"sync/atomic"
)

// errStopped is the panic by which Run leaves the functions below With.
var errStopped = errors.New("par: the region was stopped")

// never stops no region.
var never atomic.Bool

// With calls f with a view of the pool that heeds ctx: once ctx has ended, tiles
// that have not started are skipped, and Run does not return to the function that
// called it. With then returns the context's error.
//
// The functions between With and Run are left by a panic, so that none of them goes
// on with what a stopped region did not compute. They must hold no lock that is not
// released by a defer, which tests/go/lint checks.
func (p *Pool) With(ctx context.Context, f func(*Pool) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Done() == nil {
		return f(p)
	}
	q := &Pool{crew: p.crew, stop: new(atomic.Bool)}
	defer context.AfterFunc(ctx, func() { q.stop.Store(true) })()
	defer func() {
		switch v := recover(); v {
		case nil:
		case errStopped:
			err = ctx.Err()
		default:
			panic(v)
		}
	}()
	return f(q)
}

// Stopped reports whether the context of With has ended, for a tile that takes
// longer than a few milliseconds: it may return early, since its region's results
// are dropped.
func (p *Pool) Stopped() bool { return p.stop != nil && p.stop.Load() }
