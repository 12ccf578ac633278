// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// patience is how long detached waits for a function that heeds ctx, so that what it
// leaves behind is cleaned up when the call returns.
const patience = 100 * time.Millisecond

// detached runs f, which reads or writes files: that may take as long as a file
// server likes, and no context ends it. When ctx ends, detached returns soon; what f
// returns after that goes to drop. f must not touch memory of the caller, nor what
// the engine's turn guards.
func detached[T any](ctx context.Context, f func() (T, error), drop func(T)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("gomps: %w", err)
	}
	ended := make(chan outcome, 1)
	par.Go(func() {
		v, err := f()
		ended <- outcome{v, err}
	}, func(p *par.Panic) { ended <- outcome{err: fault.Recovered(p)} })
	select {
	case o := <-ended:
		return o.v, o.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case o := <-ended:
		if o.err == nil {
			drop(o.v)
		}
	case <-timer.C:
		par.Go(func() {
			if o := <-ended; o.err == nil {
				drop(o.v)
			}
		}, func(*par.Panic) {}) // nobody is left to hear of it
	}
	return none, fmt.Errorf("gomps: %w", ctx.Err())
}

// loadError sorts what kept a model file from being used: the system, or the file.
func loadError(path string, err error) error {
	if refused := systemError(err); refused != nil {
		return refused
	}
	return &WeightsError{path, err}
}

// deviceError is a failure of an operation on the device, unless the operating
// system is behind it.
func deviceError(op string, err error) error {
	if refused := systemError(err); refused != nil {
		return refused
	}
	return &DeviceError{op, err}
}

// systemError is a FileError where err is the system's refusal to read or write a
// file, nil otherwise. A file that is not there stays what its caller makes of it.
func systemError(err error) error {
	var (
		gone *fault.Error
		path *fs.PathError
		link *os.LinkError
		call *os.SyscallError
	)
	switch {
	case errors.As(err, &gone):
		return &FileError{gone}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.As(err, &path), errors.As(err, &link), errors.As(err, &call):
		return &FileError{err}
	}
	return nil
}
