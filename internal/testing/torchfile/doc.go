// SPDX-License-Identifier: Apache-2.0

// Package torchfile writes checkpoints as torch.save lays them out, for tests and
// benchmarks: where PyTorch is not at hand, and where a file is to be of a size
// that nobody wants to keep.
package torchfile
