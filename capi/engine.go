// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include <string.h>
#include "guard.h"
*/
import "C"

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// engine is a gomps engine and the jobs that run on it.
type engine struct {
	*gomps.Engine
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	closed  bool
	jobs    map[chan struct{}]struct{} // those that run: each closes its channel
	indexes map[*index]struct{}

	brief durations
}

// begin counts a job in, unless the engine is being closed, and says whether no
// other one runs; over counts it out.
func (e *engine) begin() (over func(), alone, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, false, false
	}
	alone = len(e.jobs) == 0
	ended := make(chan struct{})
	e.jobs[ended] = struct{}{}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.jobs, ended)
		close(ended)
	}, alone, true
}

// wait waits for the jobs that were submitted before.
func (e *engine) wait() {
	for _, ended := range e.running() {
		<-ended
	}
}

func (e *engine) running() []chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.jobs))
}

// shut cancels the jobs, waits for them, and closes the engine.
func (e *engine) shut() error {
	e.refuse()
	e.stop()
	e.wait()
	var errs []error
	for i := range e.takeIndexes() { // no job is left that could open another one
		errs = append(errs, i.close())
	}
	return errors.Join(append(errs, e.Close())...)
}

// refuse lets no more jobs in.
func (e *engine) refuse() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
}

func (e *engine) takeIndexes() map[*index]struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	indexes := e.indexes
	e.indexes = nil
	return indexes
}

// textOr is a C string, "" for NULL.
func textOr(s *C.char) string {
	if s == nil {
		return ""
	}
	return C.GoString(s)
}

//export m3r_engine_create
func m3r_engine_create(config *C.mast3r_config, out *C.mast3r_engine) status {
	return done(func() error {
		const call = "mast3r_engine_create"
		if config == nil || out == nil {
			return null(call, "config or out")
		}
		if err := sized(call, "config", config.size, unsafe.Sizeof(*config)); err != nil {
			return err
		}
		g, err := gomps.Open(gomps.Config{
			Variant:    textOr(config.variant),
			Resolution: int(config.resolution),
			Precision:  textOr(config.precision),
			Threads:    int(config.threads),
			Backend:    textOr(config.backend),
			Logger:     slog.New(records.handler()),
		})
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(context.Background())
		e := &engine{Engine: g, ctx: ctx, stop: stop, jobs: map[chan struct{}]struct{}{}}
		*out = C.mast3r_engine(handles.add(kindEngine, e))
		return nil
	})
}

//export m3r_engine_close
func m3r_engine_close(h C.mast3r_engine) status {
	return done(func() error {
		v, err := handles.remove("mast3r_engine_close", uint64(h), kindEngine)
		if err != nil {
			return err
		}
		return v.(*engine).shut()
	})
}

//export m3r_engine_trim
func m3r_engine_trim(h C.mast3r_engine) status {
	return done(func() error {
		e, err := lookup[*engine]("mast3r_engine_trim", h, kindEngine)
		if err != nil {
			return err
		}
		e.Trim()
		return nil
	})
}

//export m3r_engine_info
func m3r_engine_info(h C.mast3r_engine, out *C.mast3r_info) status {
	return done(func() error {
		const call = "mast3r_engine_info"
		if out == nil {
			return null(call, "out")
		}
		if err := sized(call, "info", out.size, unsafe.Sizeof(*out)); err != nil {
			return err
		}
		e, err := lookup[*engine](call, h, kindEngine)
		if err != nil {
			return err
		}
		in := e.Info()
		*out = C.mast3r_info{
			size:           out.size,
			ready:          flag(e.Ready()),
			threads:        C.int32_t(in.Threads),
			unified_memory: flag(in.UnifiedMemory),
			working_set:    C.uint64_t(in.WorkingSet),
			max_buffer:     C.uint64_t(in.MaxBuffer),
			pool_buffers:   C.uint64_t(in.PoolBuffers),
			pool_bytes:     C.uint64_t(in.PoolBytes),
			patch:          C.int32_t(in.Patch),
			enc_dim:        C.int32_t(in.EncDim),
			enc_depth:      C.int32_t(in.EncDepth),
			enc_heads:      C.int32_t(in.EncHeads),
			dec_dim:        C.int32_t(in.DecDim),
			dec_depth:      C.int32_t(in.DecDepth),
			dec_heads:      C.int32_t(in.DecHeads),
			desc_dim:       C.int32_t(in.DescDim),
			resolution:     C.int32_t(in.Resolution),
			parameters:     C.int64_t(in.Parameters),
		}
		putText(out.name[:], e.Name())
		putText(out.backend[:], in.Backend)
		putText(out.device[:], in.Device)
		putText(out.isa[:], in.ISA)
		putText(out.products[:], in.Products)
		putText(out.os[:], in.OS)
		putText(out.fallback_reason[:], in.FallbackReason)
		putText(out.variant[:], in.Variant)
		putText(out.precision[:], in.Precision)
		putText(out.outputs[:], strings.Join(in.Outputs, " "))
		return nil
	})
}

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

//export m3r_engine_metadata
func m3r_engine_metadata(h C.mast3r_engine, buffer *C.char, capacity C.size_t, needed *C.size_t) status {
	return done(func() error {
		const call = "mast3r_engine_metadata"
		if needed == nil || (buffer == nil && capacity != 0) {
			return null(call, "buffer or needed")
		}
		e, err := lookup[*engine](call, h, kindEngine)
		if err != nil {
			return err
		}
		meta := e.Info().Metadata
		if meta == nil {
			meta = map[string]string{}
		}
		return putJSON(buffer, capacity, needed, meta)
	})
}

//export m3r_live
func m3r_live(out *C.mast3r_stats) status {
	return done(func() error {
		const call = "mast3r_live"
		if out == nil {
			return null(call, "out")
		}
		if err := sized(call, "stats", out.size, unsafe.Sizeof(*out)); err != nil {
			return err
		}
		alive := handles.counts()
		out.engines, out.jobs = C.uint64_t(alive[kindEngine]), C.uint64_t(alive[kindJob])
		out.tensors, out.indexes = C.uint64_t(alive[kindTensor]), C.uint64_t(alive[kindIndex])
		out.buffers = C.uint64_t(alive[kindBuffer])
		return nil
	})
}
