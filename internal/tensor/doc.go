// SPDX-License-Identifier: Apache-2.0

// Package tensor holds the words every other package uses for numbers in
// memory: element types, shapes, and the two 16-bit float formats.
//
// It knows nothing of graphs, devices or files, and imports nothing of this
// module, so that each of them can.
package tensor
