// SPDX-License-Identifier: Apache-2.0

package objc

import (
	"errors"
	"fmt"
	"sync"
)

// ErrOldSystem means a macOS before [MinimumMacOS].
var ErrOldSystem = errors.New("objc: this macOS is too old for Metal here")

// ErrUnavailable means that this machine has no Objective-C runtime to load.
var ErrUnavailable = errors.New("objc: Metal is only available on macOS")

// simulator is a library that stands in for Apple's on Linux.
var simulator string

// UseSimulator makes Load open the library at path in place of Apple's, on Linux. It is
// for tests: package internal/testing/metalsim/hook alone calls it.
func UseSimulator(path string) {
	loading.Lock()
	defer loading.Unlock()
	simulator = path
}

// runtimeCalls are the C entry points of the Objective-C runtime, typed.
type runtimeCalls struct {
	msgSend, msgSendStret uintptr

	getClass         func(name string) Class
	getProtocol      func(name string) uintptr // 0 in a runtime without protocols
	selRegister      func(name string) SEL
	poolPush         func() uintptr
	poolPop          func(pool uintptr)
	retain           func(ID) ID
	release          func(ID)
	objectClass      func(ID) Class
	instanceMethod   func(Class, SEL) uintptr
	classMethod      func(Class, SEL) uintptr
	methodEncoding   func(method uintptr) string
	protocolEncoding func(proto uintptr, s SEL, required, instance bool) string

	lookup func(symbol string) (uintptr, error)
}

var rt runtimeCalls

var loading struct {
	sync.Mutex
	done bool
	err  error
}

// Load opens the runtime and the frameworks, resolves the declared classes and
// binds the declared selectors. It does so once; later calls return the first
// result. A class that the running system should have and has not is an error.
func Load() error {
	loading.Lock()
	defer loading.Unlock()
	if loading.done {
		return loading.err
	}
	loading.done = true
	loading.err = load()
	return loading.err
}

func load() error {
	r, err := openRuntime()
	if err != nil {
		return err
	}
	rt = r
	registry.Lock()
	defer registry.Unlock()
	for _, d := range registry.decls {
		d.bind(rt.selRegister(d.Selector))
	}
	var missing *ClassRef
	for _, c := range registry.classes {
		if c.ID = rt.getClass(c.Name); c.ID == 0 {
			missing = c
		}
	}
	if missing == nil {
		return nil
	}
	// An older system than is supported lacks classes; that it is old is what to say.
	var system OSVersion
	WithPool(func() { system = SystemVersion() })
	if v := V(int(system.Major), int(system.Minor)); !v.AtLeast(MinimumMacOS) {
		return fmt.Errorf("%w: it is %v, %v or newer is needed", ErrOldSystem, v, MinimumMacOS)
	}
	return fmt.Errorf("objc: class %s is missing; it exists since macOS %v", missing.Name, missing.Since)
}

// CFunction binds a C function of the loaded frameworks to *fptr, a pointer to
// a func variable. Call it after [Load].
func CFunction(fptr any, name string) error {
	if rt.lookup == nil {
		return ErrUnavailable
	}
	addr, err := rt.lookup(name)
	if err != nil {
		return fmt.Errorf("objc: C function %s: %w", name, err)
	}
	registerFunc(fptr, addr)
	return nil
}
