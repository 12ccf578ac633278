// SPDX-License-Identifier: Apache-2.0

// Package isa says which instruction sets this machine has. It is the one place
// that asks the processor; the packages with kernels say which sets they have
// kernels for and take what Pick chooses.
package isa
