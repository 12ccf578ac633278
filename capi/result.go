// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

//export m3r_job_results
func m3r_job_results(h C.mast3r_job, count *C.size_t) status {
	return done(func() error {
		const call = "mast3r_job_results"
		if count == nil {
			return null(call, "count")
		}
		j, err := ended(call, h)
		if err != nil {
			return err
		}
		*count = C.size_t(max(len(j.results), len(j.encoded), len(j.retrievals), len(j.views())))
		return nil
	})
}

//export m3r_job_take_result
func m3r_job_take_result(h C.mast3r_job, index C.size_t, out *C.mast3r_result) status {
	const call = "mast3r_job_take_result"
	return takeFrom(call, h, "result", out, func(j *job) error {
		if uint64(index) >= uint64(len(j.results)) {
			return fail(C.MAST3R_E_ARGUMENT, "%s: result %d of %d", call, index, len(j.results))
		}
		r := &j.results[index]
		if r.views == nil {
			return fail(C.MAST3R_E_ARGUMENT, "%s: result %d was taken already", call, index)
		}
		*out = C.mast3r_result{size: out.size, views: C.int32_t(len(r.views)), timing: timingOf(r.timing)}
		for i := range r.views {
			out.view[i] = viewOf(&r.views[i])
		}
		r.views = nil
		return nil
	})
}

func viewOf(v *gomps.View) C.mast3r_view {
	return C.mast3r_view{
		points:    tensorHandle(v.Points),
		conf:      tensorHandle(v.Conf),
		desc:      tensorHandle(v.Desc),
		desc_conf: tensorHandle(v.DescConf),
		transform: transformOf(&v.Transform),
	}
}

func timingOf(t gomps.Timing) C.mast3r_timing {
	ms := func(d time.Duration) C.double { return C.double(d.Seconds() * 1e3) }
	return C.mast3r_timing{
		preprocess_ms: ms(t.Preprocess), encoder_ms: ms(t.Encoder), decoder_ms: ms(t.Decoder),
		heads_ms: ms(t.Heads), copy_ms: ms(t.Copy), inference_ms: ms(t.Inference), total_ms: ms(t.Total),
	}
}

//export m3r_job_take_matches
func m3r_job_take_matches(h C.mast3r_job, out *C.mast3r_matches) status {
	const call = "mast3r_job_take_matches"
	return takeFrom(call, h, "matches", out, func(j *job) error {
		m := j.matches
		if m == nil {
			return fail(C.MAST3R_E_ARGUMENT, "%s: the job has no matches, or they were taken already", call)
		}
		j.matches = nil
		n := m.Len()
		*out = C.mast3r_matches{
			size:       out.size,
			seeds:      C.int32_t(m.Seeds),
			count:      C.uint64_t(n),
			index1:     sliceHandle(m.Idx1, n),
			index2:     sliceHandle(m.Idx2, n),
			pixel1:     sliceHandle(m.XY1, n, 2),
			pixel2:     sliceHandle(m.XY2, n, 2),
			points1:    sliceHandle(m.Points1, n, 3),
			points2:    sliceHandle(m.Points2, n, 3),
			confidence: sliceHandle(m.Confidence, n),
			match_ms:   C.double(m.Time.Seconds() * 1e3),
		}
		if m.Refined != nil {
			out.covariance = sliceHandle(m.Covariance, n, 2, 2)
			out.refined = sliceHandle(flags(m.Refined), n)
		}
		if m.Overlap != nil {
			out.consistent = sliceHandle(flags(m.Consistent), n)
			putOverlap(&out.overlap, m.Overlap)
		}
		return nil
	})
}

func transformOf(t *gomps.Transform) C.mast3r_transform {
	return C.mast3r_transform{
		original_height: C.int32_t(t.OriginalH), original_width: C.int32_t(t.OriginalW),
		resized_height: C.int32_t(t.ResizedH), resized_width: C.int32_t(t.ResizedW),
		crop_y: C.int32_t(t.CropY), crop_x: C.int32_t(t.CropX),
		height: C.int32_t(t.Height), width: C.int32_t(t.Width),
	}
}

func transformIn(t *C.mast3r_transform) gomps.Transform {
	return gomps.Transform{
		OriginalH: int(t.original_height), OriginalW: int(t.original_width),
		ResizedH: int(t.resized_height), ResizedW: int(t.resized_width),
		CropY: int(t.crop_y), CropX: int(t.crop_x), Height: int(t.height), Width: int(t.width),
	}
}
