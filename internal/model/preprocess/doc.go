// SPDX-License-Identifier: Apache-2.0

// Package preprocess brings a picture to the size the network takes, exactly
// as the reference's loader does, and remembers how, so that results can be
// given in the pixels of the original.
//
// [Plan] decides sizes and crop and is pure arithmetic; a [Resizer] moves the
// pixels. Both follow network.md 3 to the bit: the
// network was trained on pictures made by this resampler, and a golden test can
// only be exact when its input is.
package preprocess
