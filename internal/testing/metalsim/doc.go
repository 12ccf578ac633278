// SPDX-License-Identifier: Apache-2.0

// Package metalsim is test support: it builds the simulator of tests/metalsim,
// points package objc at it, and at the end of a test demands that nothing was
// misused and nothing leaked.
//
// The simulator is one per process and its settings are global, so tests that
// use it do not run in parallel. On macOS [Open] leaves the real frameworks in
// place, and what only a simulator can answer skips.
package metalsim
