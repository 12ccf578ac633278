// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unsafe"
)

const keptRecords = 1024

// logRing keeps the newest records until the caller reads them. A ring and not a
// callback: calling into an interpreter from a Go thread would need its lock,
// and could come while it shuts down.
type logRing struct {
	level slog.LevelVar
	mu    sync.Mutex
	queue []logRecord
}

type logRecord struct {
	level slog.Level
	when  time.Time
	text  string
}

var records logRing

func (r *logRing) push(rec logRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == keptRecords {
		r.queue = r.queue[1:]
	}
	r.queue = append(r.queue, rec)
}

func (r *logRing) pop() (logRecord, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.queue = nil
		return logRecord{}, false
	}
	rec := r.queue[0]
	r.queue = r.queue[1:]
	return rec, true
}

// handler returns a slog handler that writes into the ring.
func (r *logRing) handler() slog.Handler {
	h := &ringHandler{ring: r, line: &lineBuffer{}}
	h.text = slog.NewTextHandler(h.line, &slog.HandlerOptions{Level: &r.level, ReplaceAttr: withoutHead})
	return h
}

// ringHandler lets slog's own text handler write the message and attributes and
// keeps level and time apart.
type ringHandler struct {
	ring *logRing
	line *lineBuffer
	text slog.Handler
}

type lineBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (h *ringHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.ring.level.Level() }

func (h *ringHandler) Handle(ctx context.Context, rec slog.Record) error {
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.Reset()
	message := rec.Message
	rec.Message = ""
	if err := h.text.Handle(ctx, rec); err != nil {
		return err
	}
	attributes := strings.TrimSpace(h.line.String())
	h.ring.push(logRecord{rec.Level, rec.Time, strings.TrimSpace(message + " " + attributes)})
	return nil
}

func (h *ringHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return &ringHandler{h.ring, h.line, h.text.WithAttrs(a)}
}

func (h *ringHandler) WithGroup(name string) slog.Handler {
	return &ringHandler{h.ring, h.line, h.text.WithGroup(name)}
}

// withoutHead drops the fields that a record carries by itself.
func withoutHead(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

//export m3r_log_level
func m3r_log_level(level C.int32_t) status {
	return done(func() error {
		records.level.Set(slog.Level(level))
		return nil
	})
}

//export m3r_log_next
func m3r_log_next(out *C.mast3r_log_record) status {
	return guard(func() (status, error) {
		const call = "mast3r_log_next"
		if out == nil {
			return 0, null(call, "out")
		}
		if err := sized(call, "record", out.size, unsafe.Sizeof(*out)); err != nil {
			return 0, err
		}
		rec, ok := records.pop()
		if !ok {
			return C.MAST3R_PENDING, nil
		}
		out.level = C.int32_t(rec.level)
		out.unix_nanoseconds = C.int64_t(rec.when.UnixNano())
		putText(out.text[:], rec.text)
		return C.MAST3R_OK, nil
	})
}
