// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include <stdlib.h>
#include "guard.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
	eager "github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

type status = C.mast3r_status

// statusError is an error with its status code.
type statusError struct {
	code status
	text string
}

func (e *statusError) Error() string { return e.text }

func fail(code status, format string, args ...any) error {
	return &statusError{code, fmt.Sprintf(format, args...)}
}

func null(call, what string) error {
	return fail(C.MAST3R_E_ARGUMENT, "%s: %s is NULL", call, what)
}

// guard runs the body of an export. An error or a panic becomes a status and the
// thread's error text.
func guard(f func() (status, error)) (code status) {
	defer func() {
		if r := recover(); r != nil {
			err := panicError(r)
			setError(err.Error())
			code = statusOf(err)
		}
	}()
	code, err := f()
	if err != nil {
		setError(err.Error())
		return statusOf(err)
	}
	return code
}

// done is guard for bodies that never say MAST3R_PENDING.
func done(f func() error) status {
	return guard(func() (status, error) { return C.MAST3R_OK, f() })
}

// panicError logs the stack and returns an error without it: the text goes to
// the caller's user. A page of a mapped file that is gone is no fault of ours.
func panicError(r any) error {
	if err := fault.Of(r); err != nil {
		return fail(C.MAST3R_E_FILE, "mast3r: %v", err)
	}
	stack := debug.Stack()
	if p, ok := r.(*par.Panic); ok {
		stack = p.Stack // where it happened
	}
	slog.New(records.handler()).Error("mast3r: internal fault", "panic", fmt.Sprint(r), "stack", string(stack))
	return fail(C.MAST3R_E_INTERNAL, "mast3r: internal fault: %v", r)
}

func setError(text string) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	C.m3r_set_error(c)
}

// statuses are the codes of errors, in the order in which they are asked for. A
// cancelled context comes first: whatever failed then failed because of it.
var statuses = []struct {
	is   error
	code status
}{
	{context.Canceled, C.MAST3R_E_CANCELLED},
	{gomps.ErrClosed, C.MAST3R_E_CLOSED},
	{eager.ErrClosed, C.MAST3R_E_CLOSED},
	{gomps.ErrNotLoaded, C.MAST3R_E_NOT_LOADED},
	{gomps.ErrNoRetrieval, C.MAST3R_E_NOT_LOADED},
	{fs.ErrNotExist, C.MAST3R_E_NOT_FOUND},
	{eager.ErrReleased, C.MAST3R_E_HANDLE},
	{gomps.ErrConfig, C.MAST3R_E_ARGUMENT},
	{gomps.ErrImage, C.MAST3R_E_IMAGE},
	{gomps.ErrShape, C.MAST3R_E_SHAPE},
	{eager.ErrShape, C.MAST3R_E_SHAPE},
	{eager.ErrDType, C.MAST3R_E_ARGUMENT},
	{eager.ErrOption, C.MAST3R_E_ARGUMENT},
	{gomps.ErrWeights, C.MAST3R_E_WEIGHTS},
	{gomps.ErrMemory, C.MAST3R_E_MEMORY}, // before the device's failures, of which some are this
	{eager.ErrOutOfMemory, C.MAST3R_E_MEMORY},
	{gomps.ErrDevice, C.MAST3R_E_DEVICE},
	{eager.ErrDevice, C.MAST3R_E_DEVICE},
	{gomps.ErrFile, C.MAST3R_E_FILE},
	{gomps.ErrUnsupported, C.MAST3R_E_UNSUPPORTED},
}

// statusOf sorts an error into a status.
func statusOf(err error) status {
	var own *statusError
	if errors.As(err, &own) {
		return own.code
	}
	for _, s := range statuses {
		if errors.Is(err, s.is) {
			return s.code
		}
	}
	return C.MAST3R_E_INTERNAL
}

// sized checks the size field of a caller's struct.
func sized(call, what string, got C.uint32_t, want uintptr) error {
	if uintptr(got) != want {
		return fail(C.MAST3R_E_ABI, "%s: %s.size is %d, want %d; set it to sizeof, and use the mast3r.h of this library", call, what, got, want)
	}
	return nil
}

// putText writes s into a fixed array of C characters, cut to fit.
func putText(dst []C.char, s string) {
	n := min(len(s), len(dst)-1)
	for i := range n {
		dst[i] = C.char(s[i])
	}
	dst[n] = 0
}

// putJSON writes v as JSON into a buffer that may be too small: then only the
// size it needs is told.
func putJSON(buffer *C.char, capacity C.size_t, needed *C.size_t, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	*needed = C.size_t(len(text) + 1)
	if capacity >= *needed {
		putText(unsafe.Slice(buffer, len(text)+1), string(text))
	}
	return nil
}
