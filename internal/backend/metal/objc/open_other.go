// SPDX-License-Identifier: Apache-2.0

//go:build !((darwin || linux) && (amd64 || arm64))

package objc

// Without a runtime nothing below is ever reached: Load reports the error
// first, and nothing else runs before Load.

func openRuntime() (runtimeCalls, error) { return runtimeCalls{}, ErrUnavailable }

func registerFunc(any, uintptr) {}

// StartThread reports that there is no runtime.
func StartThread(int, func()) error { return ErrUnavailable }

// RemoveAtExit reports that there is no runtime.
func RemoveAtExit(string) error { return ErrUnavailable }

// StackSize is unknown.
func StackSize() int { return 0 }

// Bind returns the zero F: there is no runtime to send to.
func Bind[F any](SEL) F {
	var f F
	return f
}
