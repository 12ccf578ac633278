// SPDX-License-Identifier: Apache-2.0

// Package pjrt calls a PJRT plugin: XLA's compiler and run time behind a C API
// (pjrt_c_api.h of the OpenXLA project, Apache-2.0), in a shared library that
// is opened at run time with purego, without cgo.
//
// The plugin's one symbol, GetPjrtApi, gives a table of functions. Every call
// takes one pointer to a struct of arguments whose first word is the struct's
// size: a plugin refuses a struct that is too short for it, and ignores what a
// newer caller has at its end. The structs are in layout.go; a test compares
// their offsets with a table made from the header.
//
// The package knows nothing of graphs: a program is a text, a buffer is bytes
// with an element type.
package pjrt
