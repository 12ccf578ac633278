// SPDX-License-Identifier: Apache-2.0

// Package backend is the one door between the engine and a device.
//
// A Backend compiles a graph for fixed shapes into a Program and runs programs
// on Buffers of its own memory. Work is collected in a Work (on a GPU: one
// command buffer) and submitted; a Pending is its completion. On the CPU each
// Run has happened when it returns, so the same engine code serves both.
//
// The interfaces decouple the engine from the devices of this module; they are
// not meant to be implemented elsewhere.
package backend
