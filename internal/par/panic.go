// SPDX-License-Identifier: Apache-2.0

package par

import (
	"fmt"
	"runtime/debug"
)

// Panic carries a panic from one goroutine to the place that answers for it: Run
// panics with a *Panic, Go passes one to its callback.
type Panic struct {
	Tile  int    // the tile that panicked; -1 for Go
	Value any    // the argument of the original panic
	Stack []byte // the stack where it happened, for a log
}

// Error has no stack: the text may reach a user.
func (e *Panic) Error() string {
	if e.Tile < 0 {
		return fmt.Sprintf("par: goroutine panicked: %v", e.Value)
	}
	return fmt.Sprintf("par: tile %d panicked: %v", e.Tile, e.Value)
}

// Unwrap returns the panic's value when it was an error, so that errors.As finds
// a runtime.Error or a typed error through it.
func (e *Panic) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Go runs fn on a new goroutine. A panic in fn goes to onPanic, on that
// goroutine, instead of ending the process.
func Go(fn func(), onPanic func(*Panic)) {
	go func() {
		defer func() {
			if v := recover(); v != nil {
				onPanic(&Panic{Tile: -1, Value: v, Stack: debug.Stack()})
			}
		}()
		debug.SetPanicOnFault(true) // package fault
		fn()
	}()
}

// protect calls fn(w, t) and turns a panic into a value. A nested *Panic (a tile
// that used another pool) passes through unchanged.
func protect(fn func(worker, tile int), w, t int) (e *Panic) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *Panic:
			e = v
		default:
			e = &Panic{Tile: t, Value: v, Stack: debug.Stack()}
		}
	}()
	fn(w, t)
	return nil
}
