// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"encoding/json"
	"slices"
	"sync"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor/executor"
)

// executorTurns is an executor whose calls take turns: it serves one goroutine at a time.
type executorTurns struct {
	mu sync.Mutex
	e  *executor.Executor
}

//export m3r_executor_open
func m3r_executor_open(threads C.int32_t, out *C.mast3r_executor) status {
	return done(func() error {
		const call = "mast3r_executor_open"
		if out == nil {
			return null(call, "out")
		}
		e, err := executor.New(int(threads))
		if err != nil {
			return named(call, err)
		}
		*out = C.mast3r_executor(handles.add(kindExecutor, &executorTurns{e: e}))
		return nil
	})
}

//export m3r_executor_close
func m3r_executor_close(h C.mast3r_executor) status {
	return done(func() error {
		const call = "mast3r_executor_close"
		v, err := handles.remove(call, uint64(h), kindExecutor)
		if err != nil {
			return err
		}
		t := v.(*executorTurns)
		t.mu.Lock()
		defer t.mu.Unlock()
		return named(call, t.e.Close())
	})
}

// onExecutor runs f with an executor.
func onExecutor(call string, h C.mast3r_executor, f func(*executor.Executor) error) status {
	return done(func() error {
		t, err := lookup[*executorTurns](call, h, kindExecutor)
		if err != nil {
			return err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		return named(call, f(t.e))
	})
}

//export m3r_executor_run
func m3r_executor_run(h C.mast3r_executor, text *C.char, inputs *C.mast3r_input, count C.size_t,
	results *C.mast3r_tensor, capacity C.size_t, produced *C.size_t) status {
	const call = "mast3r_executor_run"
	return onExecutor(call, h, func(e *executor.Executor) error {
		if text == nil || inputs == nil && count != 0 || results == nil && capacity != 0 || produced == nil {
			return null(call, "graph, inputs, results or produced")
		}
		if count > 1<<16 || capacity > 1<<16 {
			return fail(C.MAST3R_E_ARGUMENT, "%d inputs and room for %d results, want at most 2^16", count, capacity)
		}
		g, err := executor.ParseGraph([]byte(C.GoString(text)))
		if err != nil {
			return err
		}
		outputs := g.Outputs()
		*produced = C.size_t(len(outputs))
		if len(outputs) > int(capacity) {
			return fail(C.MAST3R_E_ARGUMENT, "room for %d results, want %d", capacity, len(outputs))
		}
		in := map[string]executor.Array{}
		for _, x := range unsafe.Slice(inputs, count) {
			if err := sized(call, "input", x.size, unsafe.Sizeof(x)); err != nil {
				return err
			}
			a, err := hostArray(x)
			if err != nil {
				return err
			}
			in[C.GoString(x.name)] = a
		}
		values, err := e.Execute(g, in)
		if err != nil {
			return err
		}
		for i, name := range outputs {
			unsafe.Slice(results, capacity)[i] = sliceHandle(values[name].Data, values[name].Shape...)
		}
		return nil
	})
}

// hostArray sees the caller's memory as an array; it is read until the call returns.
func hostArray(x C.mast3r_input) (executor.Array, error) {
	if x.name == nil || x.ndim < 0 || x.ndim > C.MAST3R_MAX_DIMS {
		return executor.Array{}, fail(C.MAST3R_E_ARGUMENT, "an input with %d dimensions or without a name, want a name and at most %d", x.ndim, C.MAST3R_MAX_DIMS)
	}
	a := executor.Array{Shape: make([]int, x.ndim)}
	const most = 1 << 44
	n := 1
	for i, d := range x.shape[:x.ndim] {
		a.Shape[i] = int(d)
		if d < 0 || d > 0 && n > most/int(d) {
			return executor.Array{}, fail(C.MAST3R_E_SHAPE, "input %q of shape %v, want fewer elements than an address space has", C.GoString(x.name), a.Shape[:i+1])
		}
		n *= int(d)
	}
	if n == 0 {
		return a, nil
	}
	if x.data == nil {
		return executor.Array{}, null("mast3r_executor_run", "data")
	}
	a.Data = slices.Clone(unsafe.Slice((*float32)(x.data), n))
	return a, nil
}

//export m3r_executor_info
func m3r_executor_info(h C.mast3r_executor, buffer *C.char, capacity C.size_t, needed *C.size_t) status {
	const call = "mast3r_executor_info"
	return onExecutor(call, h, func(e *executor.Executor) error {
		if needed == nil || buffer == nil && capacity != 0 {
			return null(call, "buffer or needed")
		}
		s := e.Stats()
		return putJSON(buffer, capacity, needed, map[string]any{"cpu": s.CPU, "gpu": s.GPU, "fallbacks": s.Fallbacks, "thresholds": e.Thresholds})
	})
}

//export m3r_executor_configure
func m3r_executor_configure(h C.mast3r_executor, thresholds *C.char) status {
	const call = "mast3r_executor_configure"
	return onExecutor(call, h, func(e *executor.Executor) error {
		if thresholds == nil {
			return null(call, "thresholds")
		}
		var t executor.Thresholds
		if err := json.Unmarshal([]byte(C.GoString(thresholds)), &t); err != nil {
			return fail(C.MAST3R_E_ARGUMENT, "thresholds %q: %v", C.GoString(thresholds), err)
		}
		if err := t.Check(); err != nil {
			return err
		}
		e.Thresholds = t
		return nil
	})
}

//export m3r_executor_calibrate
func m3r_executor_calibrate(h C.mast3r_executor) status {
	return onExecutor("mast3r_executor_calibrate", h, (*executor.Executor).Calibrate)
}
