// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package dl

import (
	"errors"
	"fmt"
	"runtime"
)

// ErrSystem is in the chain of every error of this package on such a system.
var ErrSystem = errors.New("GPU libraries are loaded on Linux only")

// Open says that this system has no such libraries.
func Open(path string, global bool) (uintptr, error) {
	return 0, fmt.Errorf("%s: %w, and this is %s", path, ErrSystem, runtime.GOOS)
}

// Symbol is never reached: Open gives no library.
func Symbol(library uintptr, name string) (uintptr, error) {
	return 0, fmt.Errorf("%s: %w", name, ErrSystem)
}
