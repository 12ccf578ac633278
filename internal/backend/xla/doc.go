// SPDX-License-Identifier: Apache-2.0

// Package xla runs graphs through XLA: package stablehlo writes the graph as
// text, package pjrt has a plugin compile and run it. With the CUDA plugin the
// device is an NVIDIA GPU; with the CPU plugin the same path runs in tests.
//
// An array on a device never changes: a run makes new ones. A backend.Buffer is
// therefore a place that holds an array, the host's copy of it, or both. What
// the host writes counts until the buffer is first given to a run; then the
// device has the say, and the host's copy is fetched when somebody asks.
//
// Runs start when Run is called; the plugin keeps the order of runs that read
// each other's results. Weights are uploaded once for all programs of a backend.
package xla
