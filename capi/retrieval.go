// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"context"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

//export m3r_submit_load_retrieval
func m3r_submit_load_retrieval(h C.mast3r_engine, model, retrieval *C.char, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_load_retrieval"
		if retrieval == nil {
			return null(call, "retrieval")
		}
		own, head := "", C.GoString(retrieval)
		if model != nil {
			if own = C.GoString(model); own == "" {
				return fail(C.MAST3R_E_ARGUMENT, "%s: model is empty, want a path, or NULL for the loaded model", call)
			}
		}
		return submit(call, h, out, func(ctx context.Context, e *engine, _ *job) error {
			if own == "" {
				return e.LoadRetrieval(ctx, head)
			}
			return e.LoadRetrievalStandalone(ctx, own, head)
		})
	})
}

//export m3r_engine_retrieval
func m3r_engine_retrieval(h C.mast3r_engine, ready, standalone *C.int32_t) status {
	return done(func() error {
		e, err := lookup[*engine]("mast3r_engine_retrieval", h, kindEngine)
		if err != nil {
			return err
		}
		r, s := e.RetrievalReady()
		if ready != nil {
			*ready = flag(r)
		}
		if standalone != nil {
			*standalone = flag(s)
		}
		return nil
	})
}

//export m3r_submit_retrieval
func m3r_submit_retrieval(h C.mast3r_engine, images *C.mast3r_image, count C.size_t, options *C.mast3r_infer_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_retrieval"
		list, opt, err := listArguments(call, images, count, 1, options)
		if err != nil {
			return err
		}
		return submit(call, h, out, func(ctx context.Context, e *engine, j *job) (err error) {
			j.retrievals, err = e.EncodeRetrievalBatch(ctx, list, opt)
			return err
		})
	})
}

//export m3r_job_take_retrieval
func m3r_job_take_retrieval(h C.mast3r_job, index C.size_t, out *C.mast3r_retrieval) status {
	const call = "mast3r_job_take_retrieval"
	return takeFrom(call, h, "retrieval", out, func(j *job) error {
		r, err := take(call, j.retrievals, index)
		if err != nil {
			return err
		}
		*out = C.mast3r_retrieval{
			size:      out.size,
			features:  sliceHandle(r.Features, r.N, r.Dim),
			attention: sliceHandle(r.Attention, r.N),
			global:    sliceHandle(r.Global(), r.Dim),
			total_ms:  C.double(r.Time.Seconds() * 1e3),
		}
		return nil
	})
}

// take takes one of a finished job's results out of its list. The job's lock is held.
func take[T any](call string, list []*T, index C.size_t) (*T, error) {
	if uint64(index) >= uint64(len(list)) {
		return nil, fail(C.MAST3R_E_ARGUMENT, "%s: result %d of %d", call, index, len(list))
	}
	v := list[index]
	if v == nil {
		return nil, fail(C.MAST3R_E_ARGUMENT, "%s: result %d was taken already", call, index)
	}
	list[index] = nil
	return v, nil
}

//export m3r_scene_pairs
func m3r_scene_pairs(n C.int32_t, name *C.char, options *C.mast3r_scene_options, out *C.mast3r_tensor) status {
	return done(func() error {
		const call = "mast3r_scene_pairs"
		if name == nil || out == nil {
			return null(call, "graph or out")
		}
		// The largest list is that of complete: n squared over two.
		if n < 0 || n > maxScene {
			return fail(C.MAST3R_E_ARGUMENT, "%s: %d pictures, want 0 to %d", call, n, maxScene)
		}
		opt := gomps.SceneOptions{}
		if options != nil {
			if err := sized(call, "options", options.size, unsafe.Sizeof(*options)); err != nil {
				return err
			}
			opt.Symmetrize, opt.Anchor, opt.Prefilter = options.symmetrize != 0, int(options.anchor), textOr(options.prefilter)
			if options.similarity != nil {
				opt.Similarity = unsafe.Slice((*float64)(unsafe.Pointer(options.similarity)), int(n)*int(n))
			}
		}
		pairs, err := gomps.ScenePairs(int(n), C.GoString(name), opt)
		if err != nil {
			return err
		}
		flat := make([]int64, 0, 2*len(pairs))
		for _, p := range pairs {
			flat = append(flat, int64(p.First), int64(p.Second))
		}
		*out = sliceHandle(flat, len(pairs), 2)
		return nil
	})
}

const maxScene = 1 << 14
