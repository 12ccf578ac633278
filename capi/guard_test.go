// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package capi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

func TestStatusOfErrors(t *testing.T) {
	inner := errors.New("inner")
	for _, c := range []struct {
		err  error
		want status
	}{
		{fmt.Errorf("wrapped: %w", &gomps.DeviceError{Op: "x", Err: context.Canceled}), 7},
		{fmt.Errorf("wrapped: %w", gomps.ErrClosed), 5},
		{gomps.ErrNotLoaded, 6},
		{&gomps.WeightsError{Path: "p", Err: &fs.PathError{Op: "open", Path: "p", Err: fs.ErrNotExist}}, 12},
		{&gomps.WeightsError{Path: "p", Err: &gomps.ConfigError{Field: "Variant"}}, 2},
		{&gomps.WeightsError{Path: "p", Err: inner}, 8},
		{&gomps.ImageError{Index: 1, Err: inner}, 9},
		{&gomps.ShapeError{What: "w"}, 10},
		{&gomps.DeviceError{Op: "x", Err: inner}, 11},
		{&gomps.FileError{Err: &fs.PathError{Op: "write", Path: "p", Err: inner}}, 15},
		{fmt.Errorf("wrapped: %w", &gomps.MemoryError{What: "a pair", Limit: "the machine"}), 16},
		{inner, 14},
	} {
		if got := statusOf(c.err); got != c.want {
			t.Errorf("%v: status %d, want %d", c.err, got, c.want)
		}
	}
}

func TestGuardCatchesPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"text":  func() { panic("boom") },
		"nil":   func() { var p *int; *p = 1 },
		"index": func() { var s []int; _ = s[len(name(t))] },
	} {
		if got := done(func() error { f(); return nil }); got != 14 {
			t.Errorf("%s: status %d, want 14", name, got)
		}
	}
	for rec, ok := records.pop(); ok; rec, ok = records.pop() {
		if rec.level != slog.LevelError || !strings.Contains(rec.text, "stack=") {
			t.Errorf("record %v %q", rec.level, rec.text)
		}
	}
	if got := done(func() error { return nil }); got != 0 {
		t.Errorf("status %d after a good call", got)
	}
}

func name(t *testing.T) string { return t.Name() }

func TestLogRing(t *testing.T) {
	var ring logRing
	log := slog.New(ring.handler())
	log.Debug("not kept: the level is info")
	log.With("a", 1).WithGroup("g").Warn("two words", "b", "x y")
	rec, ok := ring.pop()
	if !ok || rec.level != slog.LevelWarn || rec.text != `two words a=1 g.b="x y"` || rec.when.IsZero() {
		t.Errorf("record %+v, %v", rec, ok)
	}
	for i := range keptRecords + 5 {
		log.Info("n", "i", i)
	}
	if rec, _ := ring.pop(); rec.text != "n i=5" {
		t.Errorf("oldest kept record %q, want the sixth", rec.text)
	}
	ring.level.Set(slog.LevelError)
	if log.Enabled(context.Background(), slog.LevelWarn) {
		t.Error("warnings are on at level error")
	}
}

// boom is the value of a panic. Its text, which the job's error is made of, says whether
// the job counts as finished already.
type boom struct{ j *job }

func (b boom) String() string {
	select {
	case <-b.j.finished:
		return "too late"
	default:
		return "boom"
	}
}

// A job whose work panics has its error before it counts as finished: nobody who waits
// for it sees a good end.
func TestPanickedJobsNeverEndWell(t *testing.T) {
	for _, here := range []bool{false, true} {
		ended := make(chan struct{})
		j := begin(t.Context(), here, func() { close(ended) }, func(_ context.Context, j *job) error { panic(boom{j}) })
		<-j.finished
		<-ended
		if err := j.err; err == nil || statusOf(err) != 14 || !strings.HasSuffix(err.Error(), "fault: boom") {
			t.Errorf("a job that panicked ended with %v", err)
		}
	}
	for _, ok := records.pop(); ok; _, ok = records.pop() {
	}
}

// A struct of another size is of another version of the header, be it smaller or larger.
func TestStructsOfOtherSizes(t *testing.T) {
	for i, err := range []error{
		sized("call", "options", 0, 16), sized("call", "options", 15, 16),
		sized("call", "options", 17, 16), sized("call", "options", 1<<31, 16),
	} {
		if err == nil {
			t.Errorf("struct %d is taken for one of 16 bytes", i)
		}
	}
	if err := sized("call", "options", 16, 16); err != nil {
		t.Error(err)
	}
}
