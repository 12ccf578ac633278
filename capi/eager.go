// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"fmt"
	"log/slog"
	"unsafe"

	eager "github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// named is an error of gomps/tensor, which does not say what call it was.
func named(call string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", call, err)
}

// Element types of mast3r.h and of eager tensors.
var eagerTypes = map[C.int32_t]eager.DType{C.MAST3R_F32: eager.F32, C.MAST3R_F16: eager.F16, C.MAST3R_I32: eager.I32}

// eagerHandle gives out a handle of the kind that results have, so that one set of
// calls describes, copies and releases every tensor.
func eagerHandle(t *eager.Tensor) C.mast3r_tensor {
	return C.mast3r_tensor(handles.add(kindTensor, t))
}

// eagerKind is what somebody who has the handle asks for, if he does.
func eagerKind(t *eager.Tensor) (shape []int, dtype C.int32_t, size int) {
	for c, d := range eagerTypes {
		if d == t.DType() {
			dtype = c
		}
	}
	return t.Shape(), dtype, t.DType().Size()
}

// eagerContext looks a context up.
func eagerContext(call string, h C.mast3r_tensor_context) (*eager.Context, error) {
	return lookup[*eager.Context](call, h, kindContext)
}

//export m3r_tensor_open
func m3r_tensor_open(config *C.mast3r_tensor_config, out *C.mast3r_tensor_context) status {
	return done(func() error {
		const call = "mast3r_tensor_open"
		if config == nil || out == nil {
			return null(call, "config or out")
		}
		if err := sized(call, "config", config.size, unsafe.Sizeof(*config)); err != nil {
			return err
		}
		c, err := eager.Open(eager.Config{Backend: textOr(config.backend), Threads: int(config.threads),
			BatchSize: int(config.batch_size), CacheSize: int(config.cache_size),
			PoolPerSize: int(config.pool_per_size), PoolLimit: uint64(config.pool_limit_bytes), Manual: true, Logger: slog.New(records.handler())})
		if err != nil {
			return named(call, err)
		}
		*out = C.mast3r_tensor_context(handles.add(kindContext, c))
		return nil
	})
}

//export m3r_tensor_close
func m3r_tensor_close(h C.mast3r_tensor_context) status {
	return done(func() error {
		const call = "mast3r_tensor_close"
		v, err := handles.remove(call, uint64(h), kindContext)
		if err != nil {
			return err
		}
		return named(call, v.(*eager.Context).Close())
	})
}

// onContext runs a method of a context. A context is closed by its handle's end, so
// that a call that comes later meets no context at all.
func onContext(call string, h C.mast3r_tensor_context, f func(*eager.Context) error) status {
	return done(func() error {
		c, err := eagerContext(call, h)
		if err != nil {
			return err
		}
		return named(call, f(c))
	})
}

//export m3r_tensor_commit
func m3r_tensor_commit(h C.mast3r_tensor_context) status {
	return onContext("mast3r_tensor_commit", h, (*eager.Context).Commit)
}

//export m3r_tensor_sync
func m3r_tensor_sync(h C.mast3r_tensor_context) status {
	return onContext("mast3r_tensor_sync", h, (*eager.Context).Sync)
}

//export m3r_tensor_cleanup
func m3r_tensor_cleanup(h C.mast3r_tensor_context) status {
	return onContext("mast3r_tensor_cleanup", h, (*eager.Context).Cleanup)
}

//export m3r_tensor_info
func m3r_tensor_info(h C.mast3r_tensor_context, out *C.mast3r_tensor_stats) status {
	return done(func() error {
		const call = "mast3r_tensor_info"
		if out == nil {
			return null(call, "out")
		}
		if err := sized(call, "stats", out.size, unsafe.Sizeof(*out)); err != nil {
			return err
		}
		c, err := eagerContext(call, h)
		if err != nil {
			return err
		}
		s := c.Stats()
		*out = C.mast3r_tensor_stats{
			size: out.size, pending: C.int32_t(s.Pending),
			operations: C.uint64_t(s.Operations), cache_hits: C.uint64_t(s.CacheHits), cache_misses: C.uint64_t(s.CacheMisses),
			programs: C.uint64_t(s.Programs), commits: C.uint64_t(s.Commits), live_tensors: C.uint64_t(s.LiveTensors),
			pool_buffers: C.uint64_t(s.Device.PoolBuffers), pool_bytes: C.uint64_t(s.Device.PoolBytes),
		}
		putText(out.backend[:], s.Device.Backend)
		putText(out.device[:], s.Device.Name)
		putText(out.fallback_reason[:], s.Fallback)
		return nil
	})
}

//export m3r_tensor_operations
func m3r_tensor_operations(buffer *C.char, capacity C.size_t, needed *C.size_t) status {
	return done(func() error {
		if needed == nil || (buffer == nil && capacity != 0) {
			return null("mast3r_tensor_operations", "buffer or needed")
		}
		signatures := []string{}
		for _, o := range eager.Operations() {
			signatures = append(signatures, o.Signature)
		}
		return putJSON(buffer, capacity, needed, signatures)
	})
}

// onShape looks up a context and reads an element type and a shape for f.
func onShape(call string, h C.mast3r_tensor_context, dtype, ndim C.int32_t, shape *C.int64_t, out *C.mast3r_tensor,
	f func(c *eager.Context, d eager.DType, dims []int) (*eager.Tensor, error)) status {
	return done(func() error {
		if out == nil || shape == nil && ndim != 0 {
			return null(call, "shape or out")
		}
		c, err := eagerContext(call, h)
		if err != nil {
			return err
		}
		d, ok := eagerTypes[dtype]
		if !ok || ndim < 0 || ndim > C.MAST3R_MAX_DIMS {
			return fail(C.MAST3R_E_ARGUMENT, "%s: element type %d with %d dimensions, want f32, f16 or i32 with at most %d", call, dtype, ndim, C.MAST3R_MAX_DIMS)
		}
		dims := make([]int, ndim)
		for i, v := range unsafe.Slice(shape, ndim) {
			dims[i] = int(v)
		}
		t, err := f(c, d, dims)
		if err != nil {
			return named(call, err)
		}
		*out = eagerHandle(t)
		return nil
	})
}

//export m3r_tensor_from_host
func m3r_tensor_from_host(h C.mast3r_tensor_context, dtype, ndim C.int32_t, shape *C.int64_t, data unsafe.Pointer, nbytes C.size_t, out *C.mast3r_tensor) status {
	return onShape("mast3r_tensor_from_host", h, dtype, ndim, shape, out, func(c *eager.Context, d eager.DType, dims []int) (*eager.Tensor, error) {
		switch {
		case data == nil:
			return c.Zeros(d, dims...)
		case uint64(nbytes) > 1<<48: // more than an address space: Go would panic
			return nil, fail(C.MAST3R_E_ARGUMENT, "%d bytes, want fewer than an address space has", nbytes)
		}
		return c.FromBytes(d, unsafe.Slice((*byte)(data), nbytes), dims...)
	})
}

//export m3r_tensor_empty
func m3r_tensor_empty(h C.mast3r_tensor_context, dtype, ndim C.int32_t, shape *C.int64_t, out *C.mast3r_tensor) status {
	return onShape("mast3r_tensor_empty", h, dtype, ndim, shape, out, func(c *eager.Context, d eager.DType, dims []int) (*eager.Tensor, error) {
		return c.Empty(d, dims...)
	})
}

//export m3r_tensor_apply
func m3r_tensor_apply(c *C.mast3r_tensor_call) status {
	return done(func() error {
		const call = "mast3r_tensor_apply"
		if c == nil {
			return null(call, "call")
		}
		if err := sized(call, "call", c.size, unsafe.Sizeof(*c)); err != nil {
			return err
		}
		if c.operation == nil || c.operands == nil && c.count != 0 || c.results == nil && c.capacity != 0 {
			return null(call, "operation, operands or results")
		}
		if c.count > 1024 || c.capacity > 1<<20 {
			return fail(C.MAST3R_E_ARGUMENT, "%s: %d operands and room for %d results, want at most 1024 and 2^20", call, c.count, c.capacity)
		}
		context, err := eagerContext(call, c.context)
		if err != nil {
			return err
		}
		in := make([]*eager.Tensor, c.count)
		for i, o := range unsafe.Slice(c.operands, c.count) {
			if in[i], err = eagerOperand(call, o); err != nil {
				return err
			}
		}
		if c.numbers != nil {
			numbers, err := eagerNumbers(context, in, unsafe.Slice((*float64)(c.numbers), c.count))
			defer releaseAll(numbers)
			if err != nil {
				return named(call, err)
			}
		}
		// Names, counts and attributes are checked by Do against the operation's
		// signature: one door, and nothing to keep in step with eighty.
		out, err := context.DoText(C.GoString(c.operation), textOr(c.attributes), in...)
		if err != nil {
			return named(call, err)
		}
		c.produced = C.size_t(len(out))
		// Only operations that change nothing have more results than one can foresee,
		// so that a caller may ask again with more room.
		if len(out) > int(c.capacity) {
			releaseAll(out)
			return fail(C.MAST3R_E_ARGUMENT, "%s: room for %d results, want %d", call, c.capacity, len(out))
		}
		for i, t := range out {
			unsafe.Slice(c.results, c.capacity)[i] = eagerHandle(t)
		}
		return nil
	})
}

// eagerNumbers makes tensors of the numbers where operands are left out, and returns those
// that it made.
func eagerNumbers(c *eager.Context, in []*eager.Tensor, numbers []float64) (made []*eager.Tensor, err error) {
	var beside *eager.Tensor
	for _, t := range in {
		if beside = t; t != nil {
			break
		}
	}
	for i, t := range in {
		if t != nil {
			continue
		}
		if in[i], err = c.Number(numbers[i], beside); err != nil {
			return made, err
		}
		made = append(made, in[i])
	}
	return made, nil
}

func releaseAll(tensors []*eager.Tensor) {
	for _, t := range tensors {
		t.Release()
	}
}

// eagerOperand is the tensor of a handle; 0 is an operand that is left out.
func eagerOperand(call string, h C.mast3r_tensor) (*eager.Tensor, error) {
	if h == 0 {
		return nil, nil
	}
	v, err := handles.get(call, uint64(h), kindTensor)
	if err != nil {
		return nil, err
	}
	t, ok := v.(*eager.Tensor)
	if !ok {
		return nil, fail(C.MAST3R_E_ARGUMENT, "%s: tensor %#x belongs to a result of the engine; copy it to the host and give it to mast3r_tensor_from_host", call, uint64(h))
	}
	return t, nil
}
