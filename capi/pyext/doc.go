// SPDX-License-Identifier: Apache-2.0

// Package pyext is what gopy binds: the same library as a Python extension module.
//
// Importing capi puts the whole C interface into the module, so that the ctypes
// bindings work on the extension's file as they do on libmast3r_runtime, and only
// one Go runtime is in the process. Tensors go through that interface, by pointer:
// gopy would copy them element by element. What is bound here, on top of it, are
// the calls that carry texts and numbers only.
//
// An unrecovered panic in a bound method ends the Python process, so each method
// recovers by itself. This is a module of its own: gopy's dependencies stay out of
// the runtime's. `make gopy` builds it.
package pyext
