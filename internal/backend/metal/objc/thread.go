// SPDX-License-Identifier: Apache-2.0

//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/ebitengine/purego"
)

// pthreads are the C library's calls that make a thread.
var pthreads struct {
	sync.Once
	err error

	attrInit     func(attr *threadAttr) int32
	attrDestroy  func(attr *threadAttr) int32
	setStackSize func(attr *threadAttr, size uintptr) int32
	setDetached  func(attr *threadAttr, state int32) int32
	create       func(thread *uintptr, attr *threadAttr, start, arg uintptr) int32
	self         func() uintptr
	// One of the two, by system.
	getStackSize func(thread uintptr) uintptr                 // macOS
	getAttr      func(thread uintptr, attr *threadAttr) int32 // Linux
	attrGetStack func(attr *threadAttr, size *uintptr) int32  // Linux
	entry        uintptr                                      // the one callback
}

// threadAttr has room for a pthread_attr_t: 64 bytes on macOS, 56 on Linux.
type threadAttr [32]uint64

// starting are the functions of threads that have not begun. purego never frees a
// callback, so there is one for all threads, and the argument says which is meant.
var starting struct {
	sync.Mutex
	next uintptr
	runs map[uintptr]func()
}

func enter(key uintptr) uintptr {
	taken(key)()
	return 0
}

// expect keeps what a thread is to run and returns its key, taken takes it.
func expect(f func()) uintptr {
	starting.Lock()
	defer starting.Unlock()
	if starting.runs == nil {
		starting.runs = map[uintptr]func(){}
	}
	starting.next++
	starting.runs[starting.next] = f
	return starting.next
}

func taken(key uintptr) func() {
	starting.Lock()
	defer starting.Unlock()
	f := starting.runs[key]
	delete(starting.runs, key)
	return f
}

func bindThreads() {
	names := map[string]any{
		"pthread_attr_init": &pthreads.attrInit, "pthread_attr_destroy": &pthreads.attrDestroy,
		"pthread_attr_setstacksize": &pthreads.setStackSize, "pthread_attr_setdetachstate": &pthreads.setDetached,
		"pthread_create": &pthreads.create, "pthread_self": &pthreads.self,
	}
	if runtime.GOOS == "darwin" {
		names["pthread_get_stacksize_np"] = &pthreads.getStackSize
	} else {
		names["pthread_getattr_np"], names["pthread_attr_getstacksize"] = &pthreads.getAttr, &pthreads.attrGetStack
	}
	for name, fptr := range names {
		addr, err := purego.Dlsym(purego.RTLD_DEFAULT, name)
		if err != nil {
			pthreads.err = fmt.Errorf("objc: %s: %w", name, err)
			return
		}
		purego.RegisterFunc(fptr, addr)
	}
	pthreads.entry = purego.NewCallback(enter)
}

// StartThread runs f on a new thread with a stack of so many bytes, which ends
// when f returns. Go's own threads have the size of the thread that made them, on
// macOS 512 KiB, 8 MiB or 16 MiB as it happens; C code that f calls uses this
// thread's stack.
func StartThread(stack int, f func()) error {
	pthreads.Do(bindThreads)
	if pthreads.err != nil {
		return pthreads.err
	}
	attr := new(threadAttr)
	if rc := pthreads.attrInit(attr); rc != 0 {
		return fmt.Errorf("objc: pthread_attr_init: error %d", rc)
	}
	defer pthreads.attrDestroy(attr)
	if rc := pthreads.setStackSize(attr, uintptr(stack)); rc != 0 {
		return fmt.Errorf("objc: a stack of %d bytes: error %d", stack, rc)
	}
	if rc := pthreads.setDetached(attr, createDetached); rc != 0 {
		return fmt.Errorf("objc: a detached thread: error %d", rc)
	}
	key := expect(f)
	if rc := pthreads.create(new(uintptr), attr, pthreads.entry, key); rc != 0 {
		taken(key)
		return fmt.Errorf("objc: pthread_create: error %d", rc)
	}
	return nil
}

// StackSize is that of the calling thread, 0 when nobody says. Lock the goroutine
// to its thread, or the answer is about some other one.
func StackSize() int {
	pthreads.Do(bindThreads)
	if pthreads.err != nil {
		return 0
	}
	if pthreads.getStackSize != nil {
		return int(pthreads.getStackSize(pthreads.self()))
	}
	attr, size := new(threadAttr), new(uintptr)
	if pthreads.getAttr(pthreads.self(), attr) != 0 {
		return 0
	}
	defer pthreads.attrDestroy(attr)
	if pthreads.attrGetStack(attr, size) != 0 {
		return 0
	}
	return int(*size)
}
