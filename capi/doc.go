// SPDX-License-Identifier: Apache-2.0

// Package capi is the C interface of the engine, as mast3r.h describes it.
//
// It holds every export and nothing else worth having: handles instead of
// pointers, status codes instead of errors, and a recover in every call and
// goroutine, because a Go panic that crosses into C ends the process. The visible
// mast3r_* calls are C (exports.c) and guard the m3r_* ones in Go. It is not
// package main, so that any main package that imports it, the shared library in
// cmd/libmast3r or a CPython extension, carries the same exports.
//
// It is the only package of the module that uses cgo.
package capi
