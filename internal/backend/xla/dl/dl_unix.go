// SPDX-License-Identifier: Apache-2.0

//go:build unix

package dl

import "github.com/ebitengine/purego"

// Open loads the library at path. Global makes its symbols visible to libraries that
// are loaded later.
func Open(path string, global bool) (uintptr, error) {
	mode := purego.RTLD_NOW | purego.RTLD_LOCAL
	if global {
		mode = purego.RTLD_NOW | purego.RTLD_GLOBAL
	}
	return purego.Dlopen(path, mode)
}

// Symbol returns the address of a symbol of a library that Open returned.
func Symbol(library uintptr, name string) (uintptr, error) { return purego.Dlsym(library, name) }
