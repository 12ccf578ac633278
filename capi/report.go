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

// Reports are JSON: they are for people and scripts, and grow.

//export m3r_submit_selfcheck
func m3r_submit_selfcheck(out *C.mast3r_job) status {
	return done(func() error {
		if out == nil {
			return null("mast3r_submit_selfcheck", "out")
		}
		start(context.Background(), out, false, func() {}, func(ctx context.Context, j *job) error {
			r, err := gomps.SelfCheck(ctx)
			if err == nil {
				j.report = r
			}
			return err
		})
		return nil
	})
}

//export m3r_submit_profile
func m3r_submit_profile(h C.mast3r_engine, image1, image2 *C.mast3r_image, options *C.mast3r_infer_options, iterations, wait C.int32_t, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_profile"
		a, b, opt, err := pairArguments(call, image1, image2, options)
		if err != nil {
			return err
		}
		if iterations < 1 {
			return fail(C.MAST3R_E_ARGUMENT, "%s: %d iterations, want 1 or more", call, iterations)
		}
		return submit(call, h, out, func(ctx context.Context, e *engine, j *job) error {
			p, err := e.Profile(ctx, a, b, gomps.ProfileOptions{InferOptions: opt, Iterations: int(iterations), Wait: wait != 0})
			if err == nil {
				j.report = p
			}
			return err
		})
	})
}

//export m3r_submit_cost
func m3r_submit_cost(options *C.mast3r_cost_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_cost"
		if options == nil || out == nil {
			return null(call, "options or out")
		}
		if err := sized(call, "options", options.size, unsafe.Sizeof(*options)); err != nil {
			return err
		}
		opt := gomps.CostOptions{
			Model: textOr(options.model), Variant: textOr(options.variant), Precision: textOr(options.precision),
			Height1: int(options.height1), Width1: int(options.width1), Height2: int(options.height2), Width2: int(options.width2),
			TFLOPS: float64(options.tflops), GBps: float64(options.gb_per_s),
		}
		start(context.Background(), out, false, func() {}, func(ctx context.Context, j *job) error {
			c, err := gomps.EstimateCost(ctx, opt)
			if err == nil {
				j.report = c
			}
			return err
		})
		return nil
	})
}

//export m3r_submit_memory
func m3r_submit_memory(options *C.mast3r_memory_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_memory"
		if options == nil || out == nil {
			return null(call, "options or out")
		}
		if err := sized(call, "options", options.size, unsafe.Sizeof(*options)); err != nil {
			return err
		}
		only, err := outputsOf(call, options.only)
		if err != nil {
			return err
		}
		opt := gomps.MemoryOptions{
			Model: textOr(options.model), Variant: textOr(options.variant), Backend: textOr(options.backend), Precision: textOr(options.precision),
			Height1: int(options.height1), Width1: int(options.width1), Height2: int(options.height2), Width2: int(options.width2),
			Pictures: int(options.pictures), Symmetric: options.symmetric != 0, Batch: int(options.batch), Only: only, Threads: int(options.threads),
		}
		start(context.Background(), out, false, func() {}, func(ctx context.Context, j *job) error {
			m, err := gomps.EstimateMemory(ctx, opt)
			if err == nil {
				j.report = m
			}
			return err
		})
		return nil
	})
}

//export m3r_job_memory
func m3r_job_memory(h C.mast3r_job, out *C.mast3r_memory) status {
	return done(func() error {
		const call = "mast3r_job_memory"
		if out == nil {
			return null(call, "out")
		}
		if err := sized(call, "memory", out.size, unsafe.Sizeof(*out)); err != nil {
			return err
		}
		j, err := ended(call, h)
		if err != nil {
			return err
		}
		m, ok := j.report.(*gomps.Memory)
		if !ok {
			return fail(C.MAST3R_E_ARGUMENT, "%s: this job estimated no memory", call)
		}
		out.weights, out.activations, out.buffers = C.int64_t(m.Weights), C.int64_t(m.Activations), C.int64_t(m.Buffers)
		out.results, out.runtime, out.total, out.free = C.int64_t(m.Results), C.int64_t(m.Runtime), C.int64_t(m.Total), C.int64_t(m.Free)
		putText(out.limit[:], m.Limit)
		return nil
	})
}

//export m3r_job_report
func m3r_job_report(h C.mast3r_job, buffer *C.char, capacity C.size_t, needed *C.size_t) status {
	return done(func() error {
		const call = "mast3r_job_report"
		if needed == nil || (buffer == nil && capacity != 0) {
			return null(call, "buffer or needed")
		}
		j, err := ended(call, h)
		if err != nil {
			return err
		}
		if j.report == nil {
			return fail(C.MAST3R_E_ARGUMENT, "%s: this job has no report", call)
		}
		return putJSON(buffer, capacity, needed, j.report)
	})
}
