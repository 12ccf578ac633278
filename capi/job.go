// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// job is work in a goroutine of its own. err, results, matches and files are
// written before finished is closed and read after it.
type job struct {
	cancel   context.CancelFunc
	finished chan struct{}
	err      error
	files    []string
	report   any // becomes JSON

	done, total atomic.Int64 // progress

	mu         sync.Mutex // guards taking
	results    []pairResult
	scene      *gomps.Scene // views without depth: taken
	matches    *gomps.Matches
	refined    *gomps.Refined
	pose       *relative
	encoded    []*gomps.Features  // nil elements: taken
	retrievals []*gomps.Retrieval // likewise
	index      *index
	scores     []float32 // [scored, scoreLen]
	scored     int
	scoreLen   int
}

// release gives back what nobody took.
func (j *job) release() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.results {
		j.results[i].release()
	}
	for _, f := range j.encoded {
		if f != nil {
			f.Release()
		}
	}
	if j.scene != nil {
		j.scene.Release()
	}
	if j.index == nil {
		return nil
	}
	j.index.e.forget(j.index)
	return j.index.close()
}

// pairResult is one pair, or a symmetric pair with four views. views is nil once taken.
type pairResult struct {
	views  []gomps.View
	timing gomps.Timing
}

func (r *pairResult) release() {
	for i := range r.views {
		r.views[i].Release()
	}
	r.views = nil
}

// submit starts work on an engine and gives its handle to the caller. work fills
// the job's results.
func submit(call string, h C.mast3r_engine, out *C.mast3r_job, work func(context.Context, *engine, *job) error) error {
	return submitLike(call, h, out, likeness{}, work)
}

// submitLike is submit for work that may be brief: see likeness.
func submitLike(call string, h C.mast3r_engine, out *C.mast3r_job, like likeness, work func(context.Context, *engine, *job) error) error {
	if out == nil {
		return null(call, "out")
	}
	e, err := lookup[*engine](call, h, kindEngine)
	if err != nil {
		return err
	}
	over, alone, ok := e.begin()
	if !ok {
		return gomps.ErrClosed
	}
	like.call = call
	start(e.ctx, out, alone && e.brief.is(like), over, func(ctx context.Context, j *job) error {
		begin := time.Now()
		err := work(ctx, e, j)
		if err == nil {
			e.brief.note(like, time.Since(begin))
		}
		return err
	})
	return nil
}

// submit starts work under ctx, which ends with the engine.
func (e *engine) submit(ctx context.Context, call string, out *C.mast3r_job, work func(context.Context, *job) error) error {
	if out == nil {
		return null(call, "out")
	}
	over, _, ok := e.begin()
	if !ok {
		return gomps.ErrClosed
	}
	start(ctx, out, false, over, work)
	return nil
}

// start runs work and gives the handle of its job to the caller.
func start(parent context.Context, out *C.mast3r_job, here bool, ended func(), work func(context.Context, *job) error) {
	*out = C.mast3r_job(handles.add(kindJob, begin(parent, here, ended, work)))
}

// begin runs work, here or in a goroutine; ended is called when it is over, whatever
// happened.
func begin(parent context.Context, here bool, ended func(), work func(context.Context, *job) error) *job {
	ctx, cancel := context.WithCancel(parent)
	j := &job{cancel: cancel, finished: make(chan struct{})}
	run := func() {
		// A page of a mapped model file that is gone (the file was cut short
		// meanwhile) faults: that becomes a panic too, on this goroutine.
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer ended()
		defer close(j.finished)
		defer func() {
			if r := recover(); r != nil {
				j.err = panicError(r)
			}
		}()
		j.err = work(ctx, j)
	}
	if here {
		run()
	} else {
		par.Go(run, func(p *par.Panic) { _ = panicError(p) }) // after the job's end: to the log
	}
	return j
}

//export m3r_job_wait
func m3r_job_wait(h C.mast3r_job, milliseconds C.int32_t) status {
	return guard(func() (status, error) {
		j, err := lookup[*job]("mast3r_job_wait", h, kindJob)
		if err != nil {
			return 0, err
		}
		if milliseconds < 0 {
			<-j.finished
			return C.MAST3R_OK, j.err
		}
		select { // a finished job answers even with no time left
		case <-j.finished:
			return C.MAST3R_OK, j.err
		default:
		}
		timer := time.NewTimer(time.Duration(milliseconds) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-j.finished:
			return C.MAST3R_OK, j.err
		case <-timer.C:
			return C.MAST3R_PENDING, nil
		}
	})
}

//export m3r_job_cancel
func m3r_job_cancel(h C.mast3r_job) status {
	return done(func() error {
		j, err := lookup[*job]("mast3r_job_cancel", h, kindJob)
		if err != nil {
			return err
		}
		j.cancel()
		return nil
	})
}

//export m3r_job_free
func m3r_job_free(h C.mast3r_job) status {
	return done(func() error {
		v, err := handles.remove("mast3r_job_free", uint64(h), kindJob)
		if err != nil {
			return err
		}
		j := v.(*job)
		j.cancel()
		<-j.finished // after this nothing reads the caller's memory
		return j.release()
	})
}

// ended returns a job that ended well, for those who take its results.
func ended(call string, h C.mast3r_job) (*job, error) {
	j, err := lookup[*job](call, h, kindJob)
	if err != nil {
		return nil, err
	}
	select {
	case <-j.finished:
		return j, j.err
	default:
		return nil, fail(C.MAST3R_E_ARGUMENT, "%s: the job still runs, wait for it first", call)
	}
}

// takeFrom is the body of the mast3r_job_take calls: fill writes what a finished
// job holds to out, under the job's lock. A struct begins with its size, and what
// names it; a bare handle has no name.
func takeFrom[T any](call string, h C.mast3r_job, what string, out *T, fill func(*job) error) status {
	return done(func() error {
		if out == nil {
			return null(call, "out")
		}
		if what != "" {
			if err := sized(call, what, *(*C.uint32_t)(unsafe.Pointer(out)), unsafe.Sizeof(*out)); err != nil {
				return err
			}
		}
		j, err := ended(call, h)
		if err != nil {
			return err
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		return fill(j)
	})
}
