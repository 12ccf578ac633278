// SPDX-License-Identifier: Apache-2.0

// Package weights reads model files and writes them in the safetensors format.
//
// A safetensors file is eight bytes of header length (little-endian), a JSON header that
// maps tensor names to element type, shape and byte range, and the tensors'
// bytes. Open maps the file into memory; a [Tensor] is a view into the mapping,
// so that opening a file of several gigabytes costs only its header and a
// backend may hand the pages to a device without a copy.
//
// An archive of torch.save (.pth) is read in the same way: its numbers lie in it
// as they are, and its pickle is read by package pickle without running it. The
// published retrieval codebook is a pickle by itself. Convert turns either into
// safetensors.
//
// Model files come from strangers. Every property that later code relies on is
// checked before the first tensor is handed out, and each kind of damage is a
// [FormatError] of its own [Kind], which names the tensor, what was found and
// what was wanted.
//
// A [Set] puts the files of one model together under the names that the model
// code uses, whatever prefixes a converter or a training wrapper has added, and
// keeps account of what was asked for, so that a missing, misshapen or
// superfluous tensor can be reported by name.
package weights
