// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"unsafe"
)

// Error is a page that could not be read.
type Error struct {
	// What was being read, as it was given to Watch.
	What string
}

func (e *Error) Error() string {
	return e.What + " could not be read any more: the file was cut short or replaced while it was in use, or its disk failed"
}

// span is memory that is watched.
type span struct {
	from, to uintptr
	what     string
}

var watched struct {
	sync.Mutex
	spans map[*span]struct{}
}

// Watch gives memory a name until forget is called.
func Watch(mem []byte, what string) (forget func()) {
	if len(mem) == 0 {
		return func() {}
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	// A fault is reported at a page's start or at the address itself.
	s := &span{at, at + uintptr(len(mem)), what}
	watched.Lock()
	defer watched.Unlock()
	if watched.spans == nil {
		watched.spans = map[*span]struct{}{}
	}
	watched.spans[s] = struct{}{}
	return func() {
		watched.Lock()
		defer watched.Unlock()
		delete(watched.spans, s)
	}
}

// Of returns the Error in a recovered value, nil when it is another panic.
func Of(v any) error {
	err, ok := v.(error)
	if !ok {
		return nil
	}
	// What a runtime.Error of a memory fault has beside its methods.
	var at interface{ Addr() uintptr }
	if !errors.As(err, &at) {
		return nil
	}
	addr := at.Addr()
	watched.Lock()
	defer watched.Unlock()
	for s := range watched.spans {
		if addr >= s.from && addr < s.to {
			return &Error{s.what}
		}
	}
	return nil
}

// Guard makes a memory fault of this goroutine an error of the function that
// defers what Guard returns:
//
//	defer fault.Guard(&err)()
//
// Other panics pass. What is watched must still be when the deferred call comes: a
// function that closes the file by a defer of its own puts the reading into another.
func Guard(err *error) (end func()) {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		v := recover()
		if v == nil {
			return
		}
		e := Of(v)
		if e == nil {
			panic(v)
		}
		*err = e
	}
}

// Recovered is the error for a recovered value: an Error, or one that says that it
// is a fault of this module.
func Recovered(v any) error {
	if e := Of(v); e != nil {
		return e
	}
	return fmt.Errorf("internal error: %v", v)
}
