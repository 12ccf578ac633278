// SPDX-License-Identifier: Apache-2.0

// Package bindings makes from capi/mast3r.h what repeats it: the C shims in capi/exports.c, the
// structs, constants and signatures that Python's ctypes needs, the exceptions of mast3r.hpp and
// the version of the Python package. The header is the source; the rest is written by
//
//	go test ./tools/bindings -update
//
// which make generate runs too. Without -update the test compares, and names the file and the
// first line that differ.
//
// It is in Go, and a test, so that go test ./... notices a stale file on every machine; a generator
// in Python would need a virtual environment first. The header's grammar is small and regular:
// read it with Parse, which refuses whatever it does not know.
package bindings
