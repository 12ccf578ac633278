// SPDX-License-Identifier: Apache-2.0

// Package dl loads the shared libraries of a GPU at run time: the plugin, the driver
// and what they need. On Windows, where XLA has no plugin for NVIDIA GPUs, Open
// says so.
package dl
