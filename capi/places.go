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

// places are a caller's pairs of pixels, over the same memory.
type places struct {
	xy1, xy2   []float64
	covariance []float32 // nil: none
}

const maxPlaces = 1 << 28

func placesOf(call string, in *C.mast3r_places) (p places, err error) {
	if in == nil {
		return p, null(call, "places")
	}
	if err := sized(call, "places", in.size, unsafe.Sizeof(*in)); err != nil {
		return p, err
	}
	if in.count > maxPlaces {
		return p, fail(C.MAST3R_E_SHAPE, "%s: %d places, want at most %d", call, uint64(in.count), maxPlaces)
	}
	n := int(in.count)
	if n == 0 {
		return p, nil
	}
	if in.pixel1 == nil || in.pixel2 == nil {
		return p, null(call, "places.pixel1 or pixel2")
	}
	p.xy1 = unsafe.Slice((*float64)(unsafe.Pointer(in.pixel1)), 2*n)
	p.xy2 = unsafe.Slice((*float64)(unsafe.Pointer(in.pixel2)), 2*n)
	p.covariance = floats(in.covariance, 4*n)
	return p, nil
}

//export m3r_submit_refine
func m3r_submit_refine(h C.mast3r_engine, image1, image2 *C.mast3r_image, in *C.mast3r_places, options *C.mast3r_refine_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_refine"
		a, err := imageOf(call, "image1", image1)
		if err != nil {
			return err
		}
		b, err := imageOf(call, "image2", image2)
		if err != nil {
			return err
		}
		p, err := placesOf(call, in)
		if err != nil {
			return err
		}
		if options == nil {
			return null(call, "options")
		}
		if err := sized(call, "options", options.size, unsafe.Sizeof(*options)); err != nil {
			return err
		}
		opt := gomps.RefineOptions{Reach: float64(options.reach), Sigma: float64(options.sigma)}
		return submit(call, h, out, func(ctx context.Context, e *engine, j *job) (err error) {
			j.refined, err = e.Refine(ctx, a, b, p.xy1, p.xy2, opt)
			return err
		})
	})
}

//export m3r_job_take_refined
func m3r_job_take_refined(h C.mast3r_job, out *C.mast3r_refined) status {
	const call = "mast3r_job_take_refined"
	return takeFrom(call, h, "refined", out, func(j *job) error {
		r := j.refined
		if r == nil {
			return fail(C.MAST3R_E_ARGUMENT, "%s: the job refined nothing, or it was taken already", call)
		}
		j.refined = nil
		n := len(r.Refined)
		*out = C.mast3r_refined{
			size:        out.size,
			count:       C.uint64_t(n),
			pixel2:      sliceHandle(r.XY2, n, 2),
			covariance:  sliceHandle(r.Covariance, n, 2, 2),
			correlation: sliceHandle(r.Correlation, n),
			refined:     sliceHandle(flags(r.Refined), n),
			refine_ms:   C.double(r.Time.Seconds() * 1e3),
		}
		return nil
	})
}

// flags are truth values as numbers.
func flags(list []bool) []int32 {
	out := make([]int32, len(list))
	for i, ok := range list {
		if ok {
			out[i] = 1
		}
	}
	return out
}
