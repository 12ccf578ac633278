// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"context"

	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/geometry"
)

// relative is a pose with the length of its baseline.
type relative struct {
	geometry.Relative
	length, spread float64
}

func putOverlap(out *C.mast3r_overlap, o *geometry.Overlap) {
	*out = C.mast3r_overlap{
		verdict: C.int32_t(o.Verdict), score: C.double(o.Score),
		matched: C.double(o.Matched), consistent: C.double(o.Consistent),
	}
	if o.Fundamental != nil {
		putMat3(&out.fundamental, *o.Fundamental)
	}
	putText(out.reason[:], o.Reason)
}

func putMat3(out *[9]C.double, m geometry.Mat3) {
	for i := range out {
		out[i] = C.double(m[i/3][i%3])
	}
}

func mat3(in *[9]C.double) (m geometry.Mat3) {
	for i, v := range in {
		m[i/3][i%3] = float64(v)
	}
	return m
}

// vectors are a caller's pairs of numbers as points.
func vectors(xy []float64) []geometry.Vec2 {
	out := make([]geometry.Vec2, len(xy)/2)
	for i := range out {
		out[i] = geometry.Vec2{xy[2*i], xy[2*i+1]}
	}
	return out
}

//export m3r_submit_pose
func m3r_submit_pose(in *C.mast3r_places, options *C.mast3r_pose_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_pose"
		if out == nil {
			return null(call, "out")
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
		o := *options
		opt := geometry.RelativeOptions{
			Tolerance: float64(o.tolerance), Sigma: float64(o.sigma), Covariance: p.covariance,
			FocalSigma: [2]float64{float64(o.focal_sigma1), float64(o.focal_sigma2)}, SharedFocal: o.shared_focal != 0,
			Dependence: float64(o.dependence),
		}
		if o.start != nil {
			opt.Start = poseOf(unsafe.Slice((*float64)(unsafe.Pointer(o.start)), 16))
		}
		var depth []float64
		if o.depth != nil {
			depth = unsafe.Slice((*float64)(unsafe.Pointer(o.depth)), len(p.xy1)/2)
		}
		start(context.Background(), out, false, func() {}, func(ctx context.Context, j *job) error {
			r, err := geometry.RelativePose(ctx, vectors(p.xy1), vectors(p.xy2), mat3(&o.intrinsics1), mat3(&o.intrinsics2), opt)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				return fail(C.MAST3R_E_SHAPE, "%s: %v", call, err)
			}
			j.pose = &relative{Relative: r}
			if depth != nil && len(r.Points) > 0 {
				seen := make([]float64, len(r.Inliers))
				for k, i := range r.Inliers {
					seen[k] = depth[i]
				}
				j.pose.length, j.pose.spread, _ = geometry.MetricScale(r.Points, seen)
			}
			return ctx.Err()
		})
		return nil
	})
}

// poseOf is a row-major 4x4 matrix as a pose.
func poseOf(m []float64) *geometry.Pose {
	var p geometry.Pose
	for i := range 3 {
		copy(p.R[i][:], m[4*i:])
		p.T[i] = m[4*i+3]
	}
	return &p
}

//export m3r_job_take_pose
func m3r_job_take_pose(h C.mast3r_job, out *C.mast3r_pose) status {
	const call = "mast3r_job_take_pose"
	return takeFrom(call, h, "pose", out, func(j *job) error {
		r := j.pose
		if r == nil {
			return fail(C.MAST3R_E_ARGUMENT, "%s: the job has no pose, or it was taken already", call)
		}
		j.pose = nil
		n := len(r.Inliers)
		index := make([]int64, n)
		for k, i := range r.Inliers {
			index[k] = int64(i)
		}
		points := make([]float64, 0, 3*n)
		for _, x := range r.Points {
			points = append(points, x[:]...)
		}
		*out = C.mast3r_pose{
			size: out.size, rms: C.double(r.RMS), angle: C.double(r.Angle),
			focal_sigma1: C.double(r.FocalSigma[0]), focal_sigma2: C.double(r.FocalSigma[1]),
			length: C.double(r.length), length_spread: C.double(r.spread),
			count:   C.uint64_t(n),
			inliers: sliceHandle(index, n),
			points:  sliceHandle(points, len(r.Points), 3),
		}
		putMat3(&out.intrinsics1, r.K1)
		putMat3(&out.intrinsics2, r.K2)
		putText(out.reason[:], r.Reason)
		if r.Pose != nil {
			out.found = 1
			for i, v := range r.Pose.Matrix() {
				out.pose[i] = C.double(v)
			}
			for i := range 36 {
				out.covariance[i] = C.double(r.Covariance[i/6][i%6])
			}
		}
		if r.TurnOnly {
			out.turn_only = 1
		}
		return nil
	})
}

//export m3r_focal
func m3r_focal(points *C.float, height, width C.int32_t, cx, cy C.double, out *C.double) status {
	return done(func() error {
		const call = "mast3r_focal"
		if points == nil || out == nil {
			return null(call, "points or focal")
		}
		if height < 1 || width < 1 || height > maxSide || width > maxSide {
			return fail(C.MAST3R_E_SHAPE, "%s: points of %d x %d (height x width), want 1 to %d", call, height, width, maxSide)
		}
		h, w := int(height), int(width)
		f, err := geometry.Focal(floats(points, 3*h*w), w, h, float64(cx), float64(cy))
		if err != nil {
			return fail(C.MAST3R_E_SHAPE, "%s: %v", call, err)
		}
		*out = C.double(f)
		return nil
	})
}
