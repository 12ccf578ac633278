// SPDX-License-Identifier: Apache-2.0

// Package objc sends Objective-C messages from Go through purego, without cgo.
//
// # Declared selectors
//
// Every message this module sends is declared once, as a typed [Method]:
//
//	var newBuffer = objc.Instance[func(dev objc.ID, length, options uint64) objc.ID](
//		"MTLDevice", "newBufferWithLength:options:", objc.V(10, 11))
//
//	buf := newBuffer.Send(dev, 4096, 0)
//
// The declaration is the whole truth about a message: the Go type fixes the
// registers in which each argument travels, so a wrong width is not a wrong
// number but a wrong program. Three checks read the same table ([Declared]):
// a lint test compares it with the encodings that clang computes from Apple's
// headers, another one applies the calling-convention rules of [CheckABI], and
// [SelfCheck] compares it with the running Objective-C runtime.
//
// # Loading
//
// Nothing is loaded in init: importing the package is free on every system.
// [Load] opens Apple's frameworks on macOS; on Linux it opens the simulator
// named by UseSimulator, which exists for tests;
// elsewhere it reports [ErrUnavailable].
//
// # Memory
//
// Objects from alloc, new and copy are owned (+1) and need [Release]; all
// others are autoreleased or interior (+0) and live until the pool of
// [WithPool] is drained, unless retained. Pools belong to an OS thread and are
// last-in first-out, hence WithPool pins the goroutine.
//
// An Objective-C exception unwinding into Go ends the process, and nothing can
// catch it from here: callers validate shapes, types and sizes before sending.
package objc
