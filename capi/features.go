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

//export m3r_submit_encode
func m3r_submit_encode(h C.mast3r_engine, images *C.mast3r_image, count C.size_t, options *C.mast3r_infer_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_encode"
		list, opt, err := listArguments(call, images, count, 1, options)
		if err != nil {
			return err
		}
		return submit(call, h, out, func(ctx context.Context, e *engine, j *job) error {
			for _, img := range list {
				f, err := e.Encode(ctx, img, opt)
				if err != nil {
					return err // what is in j.encoded goes with the job
				}
				j.encoded = append(j.encoded, f)
			}
			return nil
		})
	})
}

//export m3r_job_take_encoded
func m3r_job_take_encoded(h C.mast3r_job, index C.size_t, out *C.mast3r_encoded) status {
	const call = "mast3r_job_take_encoded"
	return takeFrom(call, h, "encoded", out, func(j *job) error {
		f, err := take(call, j.encoded, index)
		if err != nil {
			return err
		}
		*out = C.mast3r_encoded{size: out.size, tokens: tensorHandle(f.Tokens), transform: transformOf(&f.Transform)}
		return nil
	})
}

// featuresOf checks encoded features and returns them over the same memory.
func featuresOf(call, what string, in *C.mast3r_features) ([]float32, gomps.Transform, error) {
	if in == nil {
		return nil, gomps.Transform{}, null(call, what)
	}
	if err := sized(call, what, in.size, unsafe.Sizeof(*in)); err != nil {
		return nil, gomps.Transform{}, err
	}
	if in.tokens == nil {
		return nil, gomps.Transform{}, null(call, what+".tokens")
	}
	if in.count > 1<<34 {
		return nil, gomps.Transform{}, fail(C.MAST3R_E_SHAPE, "%s: %s has %d numbers, want at most %d", call, what, in.count, 1<<34)
	}
	t := in.transform
	return floats(in.tokens, int(in.count)), gomps.Transform{
		OriginalH: int(t.original_height), OriginalW: int(t.original_width),
		ResizedH: int(t.resized_height), ResizedW: int(t.resized_width),
		CropY: int(t.crop_y), CropX: int(t.crop_x),
		Height: int(t.height), Width: int(t.width),
	}, nil
}

//export m3r_submit_decode
func m3r_submit_decode(h C.mast3r_engine, picture1, picture2 *C.mast3r_features, options *C.mast3r_infer_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_decode"
		opt, err := inferOptions(call, options)
		if err != nil {
			return err
		}
		var tokens [2][]float32
		var transforms [2]gomps.Transform
		for i, in := range []*C.mast3r_features{picture1, picture2} {
			if tokens[i], transforms[i], err = featuresOf(call, []string{"picture1", "picture2"}[i], in); err != nil {
				return err
			}
		}
		return submit(call, h, out, func(ctx context.Context, e *engine, j *job) error {
			var f [2]*gomps.Features
			for i := range f {
				var err error
				if f[i], err = e.NewFeatures(tokens[i], transforms[i]); err != nil {
					return err
				}
				defer f[i].Release()
			}
			r, err := e.Decode(ctx, f[0], f[1], opt)
			if err == nil {
				j.results = []pairResult{{r.View[:], r.Timing}}
			}
			return err
		})
	})
}
