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

// viewsOptions checks the options of submit_views and reads the cameras, so that their
// memory is free when the call returns.
func viewsOptions(call string, in *C.mast3r_views_options, count int) (gomps.ViewsOptions, error) {
	if in == nil {
		return gomps.ViewsOptions{}, nil
	}
	if err := sized(call, "options", in.size, unsafe.Sizeof(*in)); err != nil {
		return gomps.ViewsOptions{}, err
	}
	opt := gomps.ViewsOptions{Raw: in.raw != 0, Resolution: int(in.resolution), Rays: in.rays != 0, Window: int(in.window), Overlap: int(in.overlap)}
	if in.reference != nil {
		opt.Reference = C.GoString(in.reference)
	}
	if (in.poses == nil) != (in.intrinsics == nil) {
		return opt, fail(C.MAST3R_E_ARGUMENT, "%s: poses without intrinsics or the other way round, want both or neither", call)
	}
	if in.poses == nil {
		return opt, nil
	}
	poses := unsafe.Slice((*float64)(unsafe.Pointer(in.poses)), 16*count)
	k := unsafe.Slice((*float64)(unsafe.Pointer(in.intrinsics)), 9*count)
	opt.Cameras = make([]gomps.KnownCamera, count)
	for i := range opt.Cameras {
		c := &opt.Cameras[i]
		for row := range 3 {
			copy(c.Pose[row][:], poses[16*i+4*row:])
			copy(c.Intrinsics[row][:], k[9*i+3*row:])
		}
		if last := [4]float64(poses[16*i+12:]); last != [4]float64{0, 0, 0, 1} {
			return opt, fail(C.MAST3R_E_ARGUMENT, "%s: pose %d has the last row %v, want 0, 0, 0, 1", call, i, last)
		}
	}
	return opt, nil
}

//export m3r_submit_views
func m3r_submit_views(h C.mast3r_engine, images *C.mast3r_image, count C.size_t, options *C.mast3r_views_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_views"
		list, err := imagesOf(call, images, count, 1)
		if err != nil {
			return err
		}
		opt, err := viewsOptions(call, options, len(list))
		if err != nil {
			return err
		}
		return submit(call, h, out, func(ctx context.Context, e *engine, j *job) (err error) {
			j.scene, err = e.InferViews(ctx, list, opt)
			return err
		})
	})
}

//export m3r_job_take_view
func m3r_job_take_view(h C.mast3r_job, index C.size_t, out *C.mast3r_scene_view) status {
	const call = "mast3r_job_take_view"
	return takeFrom(call, h, "view", out, func(j *job) error {
		views := j.views()
		if uint64(index) >= uint64(len(views)) {
			return fail(C.MAST3R_E_ARGUMENT, "%s: view %d of %d", call, index, len(views))
		}
		v := &views[index]
		if v.Depth == nil {
			return fail(C.MAST3R_E_ARGUMENT, "%s: view %d was taken already", call, index)
		}
		*out = C.mast3r_scene_view{
			size: out.size, depth: tensorHandle(v.Depth), conf: tensorHandle(v.Conf), points: tensorHandle(v.Points),
			rays: tensorHandle(v.Rays), ray_conf: tensorHandle(v.RayConf), sky: tensorHandle(v.Sky), transform: transformOf(&v.Transform),
		}
		out.pose[15] = 1
		for row := range 3 {
			for col := range 4 {
				out.pose[4*row+col] = C.double(v.Pose[row][col])
			}
			for col := range 3 {
				out.intrinsics[3*row+col] = C.double(v.Intrinsics[row][col])
			}
		}
		*v = gomps.SceneView{}
		return nil
	})
}

// views are those of the job's scene, if it has one.
func (j *job) views() []gomps.SceneView {
	if j.scene == nil {
		return nil
	}
	return j.scene.View
}

//export m3r_job_windows
func m3r_job_windows(h C.mast3r_job, out *C.mast3r_window, capacity C.size_t, count *C.size_t, timing *C.mast3r_timing) status {
	return done(func() error {
		const call = "mast3r_job_windows"
		if count == nil {
			return null(call, "count")
		}
		if out == nil && capacity > 0 {
			return null(call, "out")
		}
		j, err := ended(call, h)
		if err != nil {
			return err
		}
		if j.scene == nil {
			return fail(C.MAST3R_E_ARGUMENT, "%s: the job has no scene", call)
		}
		list := j.scene.Windows
		for i := range min(uint64(capacity), uint64(len(list))) {
			to := (*C.mast3r_window)(unsafe.Add(unsafe.Pointer(out), uintptr(i)*unsafe.Sizeof(*out)))
			if err := sized(call, "window", to.size, unsafe.Sizeof(*to)); err != nil {
				return err
			}
			w := list[i]
			*to = C.mast3r_window{size: to.size, first: C.int32_t(w.First), count: C.int32_t(w.Count), reference: C.int32_t(w.Reference),
				overlap: C.int32_t(w.Overlap), points: C.int32_t(w.Points), scale: C.double(w.Scale), residual: C.double(w.Residual)}
		}
		*count = C.size_t(len(list))
		if timing != nil {
			*timing = timingOf(j.scene.Timing)
		}
		return nil
	})
}
