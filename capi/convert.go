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

//export m3r_submit_convert
func m3r_submit_convert(in, out, precision *C.char, handle *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_convert"
		if in == nil || out == nil || handle == nil {
			return null(call, "in, out or job")
		}
		from, to, opt := C.GoString(in), C.GoString(out), gomps.ConvertOptions{Precision: textOr(precision)}
		start(context.Background(), handle, false, func() {}, func(ctx context.Context, j *job) (err error) {
			opt.Progress = func(done, total int64) {
				j.done.Store(done)
				j.total.Store(total)
			}
			j.files, err = gomps.Convert(ctx, from, to, opt)
			return err
		})
		return nil
	})
}

//export m3r_job_progress
func m3r_job_progress(h C.mast3r_job, out *C.mast3r_progress) status {
	return done(func() error {
		const call = "mast3r_job_progress"
		if out == nil {
			return null(call, "out")
		}
		if err := sized(call, "progress", out.size, unsafe.Sizeof(*out)); err != nil {
			return err
		}
		j, err := lookup[*job](call, h, kindJob)
		if err != nil {
			return err
		}
		out.done, out.total = C.uint64_t(j.done.Load()), C.uint64_t(j.total.Load())
		return nil
	})
}

//export m3r_job_files
func m3r_job_files(h C.mast3r_job, buffer *C.char, capacity C.size_t, needed *C.size_t) status {
	return done(func() error {
		const call = "mast3r_job_files"
		if needed == nil || (buffer == nil && capacity != 0) {
			return null(call, "buffer or needed")
		}
		j, err := ended(call, h)
		if err != nil {
			return err
		}
		files := j.files
		if files == nil {
			files = []string{}
		}
		return putJSON(buffer, capacity, needed, files)
	})
}
