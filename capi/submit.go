// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"context"
	"slices"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// maxSide bounds a picture's sides, so that sizes in bytes stay far from
// overflow. Pictures of this side are refused later for better reasons.
const maxSide = 1 << 20

// imageOf checks a C picture and returns it as the engine's, over the same memory.
func imageOf(call, what string, in *C.mast3r_image) (gomps.Image, error) {
	if in == nil {
		return gomps.Image{}, null(call, what)
	}
	if err := sized(call, what, in.size, unsafe.Sizeof(*in)); err != nil {
		return gomps.Image{}, err
	}
	height, width, stride := int(in.height), int(in.width), int(in.stride)
	if height < 1 || width < 1 || height > maxSide || width > maxSide {
		return gomps.Image{}, fail(C.MAST3R_E_IMAGE, "%s: %s is %d x %d (height x width), want 1 to %d", call, what, height, width, maxSide)
	}
	if in.pixels == nil {
		return gomps.Image{}, null(call, what+".pixels")
	}
	if stride == 0 {
		stride = 3 * width
	}
	if stride < 3*width {
		return gomps.Image{}, fail(C.MAST3R_E_IMAGE, "%s: %s has rows %d bytes apart, want 0 or at least %d", call, what, stride, 3*width)
	}
	size := stride*(height-1) + 3*width
	pix := unsafe.Slice((*byte)(unsafe.Pointer(in.pixels)), size)
	return gomps.Image{Pix: pix, Height: height, Width: width, Stride: stride}, nil
}

// imagesOf is imageOf for an array of at least so many.
func imagesOf(call string, images *C.mast3r_image, count C.size_t, least int) ([]gomps.Image, error) {
	if images == nil {
		return nil, null(call, "images")
	}
	if count < C.size_t(least) || count > maxSide {
		return nil, fail(C.MAST3R_E_SHAPE, "%s: %d images, want %d to %d", call, count, least, maxSide)
	}
	list := make([]gomps.Image, count)
	for i, in := range unsafe.Slice(images, int(count)) {
		var err error
		if list[i], err = imageOf(call, "an image", &in); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func inferOptions(call string, in *C.mast3r_infer_options) (gomps.InferOptions, error) {
	if in == nil {
		return gomps.InferOptions{}, nil
	}
	if err := sized(call, "options", in.size, unsafe.Sizeof(*in)); err != nil {
		return gomps.InferOptions{}, err
	}
	only, err := outputsOf(call, in.only)
	return gomps.InferOptions{
		Raw: in.raw != 0, Rectangle43: in.rectangle_43 != 0,
		Resolution: int(in.resolution), Only: only,
	}, err
}

// outputsOf checks the outputs that are asked for.
func outputsOf(call string, only C.int32_t) (gomps.Outputs, error) {
	if only < 0 || only > C.int32_t(gomps.AllOutputs) {
		return 0, fail(C.MAST3R_E_ARGUMENT, "%s: only is %d, want a sum of MAST3R_POINTS, CONF, DESC and DESC_CONF", call, only)
	}
	return gomps.Outputs(only), nil
}

//export m3r_submit_load
func m3r_submit_load(h C.mast3r_engine, path *C.char, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_load"
		if path == nil {
			return null(call, "path")
		}
		name := C.GoString(path)
		return submit(call, h, out, func(ctx context.Context, e *engine, _ *job) error {
			defer e.brief.forget()
			return e.Load(ctx, name)
		})
	})
}

//export m3r_submit_warmup
func m3r_submit_warmup(h C.mast3r_engine, iterations C.int32_t, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_warmup"
		if iterations < 0 {
			return fail(C.MAST3R_E_ARGUMENT, "%s: %d iterations, want 0 or more", call, iterations)
		}
		return submit(call, h, out, func(ctx context.Context, e *engine, _ *job) error {
			return e.Warmup(ctx, int(iterations))
		})
	})
}

// pairArguments checks what infer and symmetric have in common.
func pairArguments(call string, image1, image2 *C.mast3r_image, options *C.mast3r_infer_options) (a, b gomps.Image, opt gomps.InferOptions, err error) {
	if a, err = imageOf(call, "image1", image1); err != nil {
		return
	}
	if b, err = imageOf(call, "image2", image2); err != nil {
		return
	}
	opt, err = inferOptions(call, options)
	return
}

// listArguments checks what the calls that take an array of images have in common.
func listArguments(call string, images *C.mast3r_image, count C.size_t, least int, options *C.mast3r_infer_options) (list []gomps.Image, opt gomps.InferOptions, err error) {
	if list, err = imagesOf(call, images, count, least); err != nil {
		return
	}
	opt, err = inferOptions(call, options)
	return
}

//export m3r_submit_infer
func m3r_submit_infer(h C.mast3r_engine, image1, image2 *C.mast3r_image, options *C.mast3r_infer_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_infer"
		a, b, opt, err := pairArguments(call, image1, image2, options)
		if err != nil {
			return err
		}
		like := likeness{h1: a.Height, w1: a.Width, h2: b.Height, w2: b.Width, options: opt}
		return submitLike(call, h, out, like, func(ctx context.Context, e *engine, j *job) error {
			r, err := e.Infer(ctx, a, b, opt)
			if err == nil {
				j.results = []pairResult{{r.View[:], r.Timing}}
			}
			return err
		})
	})
}

//export m3r_submit_symmetric
func m3r_submit_symmetric(h C.mast3r_engine, image1, image2 *C.mast3r_image, options *C.mast3r_infer_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_symmetric"
		a, b, opt, err := pairArguments(call, image1, image2, options)
		if err != nil {
			return err
		}
		like := likeness{h1: a.Height, w1: a.Width, h2: b.Height, w2: b.Width, options: opt}
		return submitLike(call, h, out, like, func(ctx context.Context, e *engine, j *job) error {
			r, err := e.InferSymmetric(ctx, a, b, opt)
			if err == nil {
				j.results = []pairResult{{r.View[:], r.Timing}}
			}
			return err
		})
	})
}

//export m3r_submit_sequence
func m3r_submit_sequence(h C.mast3r_engine, images *C.mast3r_image, count C.size_t, options *C.mast3r_infer_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_sequence"
		list, opt, err := listArguments(call, images, count, 2, options)
		if err != nil {
			return err
		}
		return submit(call, h, out, func(ctx context.Context, e *engine, j *job) error {
			results, err := e.InferSequence(ctx, list, opt)
			for _, r := range results {
				j.results = append(j.results, pairResult{r.View[:], r.Timing})
			}
			return err
		})
	})
}

//export m3r_submit_batch
func m3r_submit_batch(h C.mast3r_engine, images *C.mast3r_image, count C.size_t, options *C.mast3r_infer_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_batch"
		list, opt, err := listArguments(call, images, count, 2, options)
		if err != nil {
			return err
		}
		if len(list)%2 != 0 {
			return fail(C.MAST3R_E_SHAPE, "%s: %d images, want an even number", call, len(list))
		}
		pairs := make([][2]gomps.Image, len(list)/2)
		for i := range pairs {
			pairs[i] = [2]gomps.Image(list[2*i:])
		}
		return submit(call, h, out, func(ctx context.Context, e *engine, j *job) error {
			results, err := e.InferBatch(ctx, pairs, opt)
			for _, r := range results {
				j.results = append(j.results, pairResult{r.View[:], r.Timing})
			}
			return err
		})
	})
}

// mapOf checks a C map and returns it as the engine's over the same memory.
func mapOf(call, what string, in *C.mast3r_map) (gomps.Map, error) {
	if in == nil {
		return gomps.Map{}, null(call, what)
	}
	if err := sized(call, what, in.size, unsafe.Sizeof(*in)); err != nil {
		return gomps.Map{}, err
	}
	m := gomps.Map{Height: int(in.height), Width: int(in.width), Dim: int(in.dim)}
	const maxDim = 1 << 16
	if m.Height < 0 || m.Width < 0 || m.Dim < 1 || m.Height > maxSide || m.Width > maxSide || m.Dim > maxDim {
		return m, fail(C.MAST3R_E_SHAPE, "%s: %s is %d x %d x %d (height x width x dim), want sides up to %d and dim 1 to %d", call, what, m.Height, m.Width, m.Dim, maxSide, maxDim)
	}
	pixels := m.Height * m.Width
	switch {
	case in.tensor != 0 && in.descriptors != nil:
		return m, fail(C.MAST3R_E_ARGUMENT, "%s: %s has descriptors and a tensor, want one of them", call, what)
	case in.tensor != 0:
		t, err := lookupTensor(call, in.tensor)
		if err != nil {
			return m, err
		}
		if shape, _, _ := t.kind(); t.mem == nil || !slices.Equal(shape, []int{m.Height, m.Width, m.Dim}) {
			return m, fail(C.MAST3R_E_SHAPE, "%s: %s has a tensor of shape %v, want a result's of %d x %d x %d", call, what, shape, m.Height, m.Width, m.Dim)
		}
		of := gomps.MapOfDescriptors(t.mem)
		m.Desc, m.Source = of.Desc, of.Source
		if m.Desc == nil && m.Source == nil {
			return m, fail(C.MAST3R_E_ARGUMENT, "%s: the tensor of %s was released", call, what)
		}
	case in.descriptors == nil && pixels > 0:
		return m, null(call, what+".descriptors")
	default:
		m.Desc = floats(in.descriptors, pixels*m.Dim)
	}
	m.Points = floats(in.points, pixels*3)
	m.Weight = floats(in.weight, pixels)
	if in.mask != nil {
		m.Mask = unsafe.Slice((*byte)(unsafe.Pointer(in.mask)), pixels)
	}
	return m, nil
}

// floats is a C array as a slice, nil for NULL.
func floats(p *C.float, n int) []float32 {
	if p == nil {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(p)), n)
}

func matchOptions(call string, in *C.mast3r_match_options) (gomps.MatchOptions, error) {
	if in == nil {
		return gomps.MatchOptions{Reciprocal: true}, nil
	}
	if err := sized(call, "options", in.size, unsafe.Sizeof(*in)); err != nil {
		return gomps.MatchOptions{}, err
	}
	if in.top_k < 0 || in.subsample < 0 || in.border < 0 {
		return gomps.MatchOptions{}, fail(C.MAST3R_E_ARGUMENT, "%s: top_k %d, subsample %d, border %d, want 0 or more", call, in.top_k, in.subsample, in.border)
	}
	full, err := fullPictures(call, in)
	if err != nil {
		return gomps.MatchOptions{}, err
	}
	return gomps.MatchOptions{
		Refine:        full,
		TopK:          int(in.top_k),
		Reciprocal:    in.reciprocal != 0,
		Subsample:     int(in.subsample),
		Border:        int(in.border),
		Weighted:      in.weighted != 0,
		MinConfidence: float32(in.min_confidence),
		MinWeight:     float32(in.min_weight),
		BothWays:      in.both_ways != 0,
		Spread:        in.spread != 0,
		Subpixel:      in.subpixel != 0,
		Judge:         in.judge != 0,
	}, nil
}

// fullPictures are those of the options, or nil.
func fullPictures(call string, in *C.mast3r_match_options) (*gomps.FullPictures, error) {
	if in.image1 == nil && in.image2 == nil {
		return nil, nil
	}
	one, err := imageOf(call, "options.image1", in.image1)
	if err != nil {
		return nil, err
	}
	two, err := imageOf(call, "options.image2", in.image2)
	if err != nil {
		return nil, err
	}
	return &gomps.FullPictures{Picture1: one, Picture2: two,
		Transform1: transformIn(&in.transform1), Transform2: transformIn(&in.transform2)}, nil
}

//export m3r_submit_match
func m3r_submit_match(h C.mast3r_engine, map1, map2 *C.mast3r_map, options *C.mast3r_match_options, out *C.mast3r_job) status {
	return done(func() error {
		const call = "mast3r_submit_match"
		opt, err := matchOptions(call, options)
		if err != nil {
			return err
		}
		var m1, m2 gomps.Map
		if m1, err = mapOf(call, "map1", map1); err != nil {
			return err
		}
		if m2, err = mapOf(call, "map2", map2); err != nil {
			return err
		}
		like := likeness{h1: m1.Height, w1: m1.Width, h2: m2.Height, w2: m2.Width,
			options: [6]any{m1.Dim, opt.Subsample, opt.Reciprocal, opt.BothWays, opt.Refine != nil, opt.Judge}}
		return submitLike(call, h, out, like, func(ctx context.Context, e *engine, j *job) (err error) {
			j.matches, err = e.Match(ctx, m1, m2, opt)
			return err
		})
	})
}
