// SPDX-License-Identifier: Apache-2.0

// Package emulated tells tests that they run under qemu-user (make qemu-test), which cannot do all
// that a processor and its kernel do.
package emulated
