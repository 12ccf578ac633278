// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"context"
	"math"
	"sync"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// index is a retrieval index. Its jobs take turns: mu is held by each while it
// works, so that a close waits for the one that runs.
type index struct {
	e    *engine
	ctx  context.Context
	stop context.CancelFunc

	mu sync.Mutex
	x  *gomps.RetrievalIndex // nil once closed
}

func (i *index) close() error {
	i.stop()
	i.mu.Lock()
	defer i.mu.Unlock()
	x := i.x
	if i.x = nil; x == nil {
		return nil
	}
	return x.Close()
}

// keep has the engine close the index before itself, because the codebook lies
// in its memory.
func (e *engine) keep(i *index) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.indexes == nil {
		e.indexes = map[*index]struct{}{}
	}
	e.indexes[i] = struct{}{}
}

func (e *engine) forget(i *index) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.indexes, i)
}

//export m3r_submit_index_open
func m3r_submit_index_open(h C.mast3r_engine, codebook *C.char, nfeat C.double, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_index_open"
		if codebook == nil {
			return null(call, "codebook")
		}
		if n := float64(nfeat); !(n >= -1) || n > maxSide || n == 0 {
			return fail(C.MAST3R_E_ARGUMENT, "%s: nfeat %g, want a count, or a share from -1 to 0", call, n)
		}
		path := C.GoString(codebook)
		return submit(call, h, out, func(ctx context.Context, e *engine, j *job) error {
			x, err := e.OpenIndex(ctx, path, float64(nfeat))
			if err != nil {
				return err
			}
			i := &index{e: e, x: x}
			i.ctx, i.stop = context.WithCancel(e.ctx)
			e.keep(i)
			j.index = i
			return nil
		})
	})
}

//export m3r_job_take_index
func m3r_job_take_index(h C.mast3r_job, out *C.mast3r_index) status {
	const call = "mast3r_job_take_index"
	return takeFrom(call, h, "", out, func(j *job) error {
		if j.index == nil {
			return fail(C.MAST3R_E_ARGUMENT, "%s: the job has no index, or it was taken already", call)
		}
		*out = C.mast3r_index(handles.add(kindIndex, j.index))
		j.index = nil
		return nil
	})
}

// localFeatures checks retrieval features and returns them over the same memory.
func localFeatures(call string, in *C.mast3r_local_features, count C.size_t) ([]*gomps.Retrieval, error) {
	if in == nil && count > 0 {
		return nil, null(call, "pictures")
	}
	if count > maxSide {
		return nil, fail(C.MAST3R_E_SHAPE, "%s: %d pictures, want at most %d", call, count, maxSide)
	}
	list := make([]*gomps.Retrieval, count)
	for i := range list {
		f := &unsafe.Slice(in, int(count))[i]
		if err := sized(call, "picture", f.size, unsafe.Sizeof(*f)); err != nil {
			return nil, err
		}
		n, dim := int(f.n), int(f.dim)
		if n < 0 || dim < 1 || n > maxSide || dim > maxSide {
			return nil, fail(C.MAST3R_E_SHAPE, "%s: picture %d has %d features of %d numbers, want 0 to %d of 1 to %d", call, i, n, dim, maxSide, maxSide)
		}
		if n > 0 && (f.features == nil || f.attention == nil) {
			return nil, null(call, "features or attention")
		}
		list[i] = &gomps.Retrieval{N: n, Dim: dim, Features: floats(f.features, n*dim), Attention: floats(f.attention, n)}
	}
	return list, nil
}

// submitIndex starts work on an index, for one picture after the other.
func submitIndex(call string, h C.mast3r_index, in *C.mast3r_local_features, count C.size_t, out *C.mast3r_job, each func(*gomps.RetrievalIndex, *job, *gomps.Retrieval) error) error {
	i, err := lookup[*index](call, h, kindIndex)
	if err != nil {
		return err
	}
	list, err := localFeatures(call, in, count)
	if err != nil {
		return err
	}
	return i.submit(call, out, func(ctx context.Context, j *job) error {
		j.scoreLen = i.x.Len()
		for _, r := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := each(i.x, j, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// submit starts work on an open index, when those before it are done.
func (i *index) submit(call string, out *C.mast3r_job, work func(context.Context, *job) error) error {
	return i.e.submit(i.ctx, call, out, func(ctx context.Context, j *job) error {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.x == nil {
			return gomps.ErrClosed
		}
		return work(ctx, j)
	})
}

// submitPart starts the reading or writing of pictures of an index.
func submitPart(call string, h C.mast3r_index, path *C.char, out *C.mast3r_job, work func(context.Context, *gomps.RetrievalIndex, string) error) error {
	i, err := lookup[*index](call, h, kindIndex)
	if err != nil {
		return err
	}
	if path == nil {
		return null(call, "path")
	}
	name := C.GoString(path)
	return i.submit(call, out, func(ctx context.Context, _ *job) error { return work(ctx, i.x, name) })
}

//export m3r_submit_index_write
func m3r_submit_index_write(h C.mast3r_index, first C.uint64_t, path *C.char, out *C.mast3r_job) status {
	return done(func() error {
		return submitPart("mast3r_submit_index_write", h, path, out, func(_ context.Context, x *gomps.RetrievalIndex, path string) error {
			return x.Write(path, int(min(uint64(first), math.MaxInt)))
		})
	})
}

//export m3r_submit_index_merge
func m3r_submit_index_merge(h C.mast3r_index, path *C.char, out *C.mast3r_job) status {
	return done(func() error {
		return submitPart("mast3r_submit_index_merge", h, path, out, func(ctx context.Context, x *gomps.RetrievalIndex, path string) error {
			return x.Merge(ctx, path)
		})
	})
}

//export m3r_submit_index_add
func m3r_submit_index_add(h C.mast3r_index, pictures *C.mast3r_local_features, count C.size_t, out *C.mast3r_job) status {
	return done(func() error {
		return submitIndex("mast3r_submit_index_add", h, pictures, count, out, func(x *gomps.RetrievalIndex, _ *job, r *gomps.Retrieval) error {
			_, err := x.Add(r)
			return err
		})
	})
}

//export m3r_submit_index_score
func m3r_submit_index_score(h C.mast3r_index, pictures *C.mast3r_local_features, count C.size_t, out *C.mast3r_job) status {
	return done(func() error {
		return submitIndex("mast3r_submit_index_score", h, pictures, count, out, func(x *gomps.RetrievalIndex, j *job, r *gomps.Retrieval) error {
			row, err := x.Score(r)
			for _, v := range row {
				j.scores = append(j.scores, float32(v))
			}
			j.scored++
			return err
		})
	})
}

//export m3r_job_take_scores
func m3r_job_take_scores(h C.mast3r_job, out *C.mast3r_tensor) status {
	const call = "mast3r_job_take_scores"
	return takeFrom(call, h, "", out, func(j *job) error {
		if j.scored == 0 {
			return fail(C.MAST3R_E_ARGUMENT, "%s: the job has no scores, or they were taken already", call)
		}
		*out = sliceHandle(j.scores, j.scored, j.scoreLen)
		j.scores, j.scored = nil, 0
		return nil
	})
}

//export m3r_index_length
func m3r_index_length(h C.mast3r_index, out *C.uint64_t) status {
	return done(func() error {
		const call = "mast3r_index_length"
		if out == nil {
			return null(call, "out")
		}
		i, err := lookup[*index](call, h, kindIndex)
		if err != nil {
			return err
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.x == nil {
			return gomps.ErrClosed
		}
		*out = C.uint64_t(i.x.Len())
		return nil
	})
}

//export m3r_index_close
func m3r_index_close(h C.mast3r_index) status {
	return done(func() error {
		v, err := handles.remove("mast3r_index_close", uint64(h), kindIndex)
		if err != nil {
			return err
		}
		i := v.(*index)
		i.e.forget(i)
		return i.close()
	})
}
