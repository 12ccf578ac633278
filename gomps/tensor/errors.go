// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// The kinds of errors, for errors.Is. An *Error has the details.
var (
	ErrClosed   = errors.New("tensor: the context is closed")
	ErrReleased = errors.New("tensor: the tensor was released")
	ErrShape    = errors.New("tensor: shapes do not fit")
	ErrDType    = errors.New("tensor: element types do not fit")
	ErrOption   = errors.New("tensor: option out of range")
	// ErrDevice means that the device failed or is out of memory. The context stays
	// usable.
	ErrDevice = errors.New("tensor: the device failed")
	// ErrOutOfMemory is an ErrDevice too: the device has no memory for the work.
	ErrOutOfMemory = backend.ErrOutOfMemory
)

// Error is an error of this package.
type Error struct {
	// Kind is one of the errors above.
	Kind error
	// Detail names the operation, what it got and what it wanted, and wraps the cause, if
	// there is one.
	Detail error
}

func (e *Error) Error() string { return e.Kind.Error() + ": " + e.Detail.Error() }

// Unwrap makes errors.Is find the kind and the cause.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Detail} }

func refuse(kind error, format string, args ...any) error {
	return &Error{kind, fmt.Errorf(format, args...)}
}
