// SPDX-License-Identifier: Apache-2.0

// Package cuda opens an NVIDIA GPU for package xla: it asks the driver what is
// there, finds the XLA plugin and NVIDIA's libraries where pip puts them, and
// says in plain words what is missing. Nothing of NVIDIA's is part of this
// project: the extras cuda12 and cuda13 of the Python package install it.
package cuda
