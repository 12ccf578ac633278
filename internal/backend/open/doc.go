// SPDX-License-Identifier: Apache-2.0

// Package open opens a device for whoever computes on one: the engine and the
// eager tensors. It is the one place with the rules on which device is taken, the
// environment variables that have a say in it, and the comparison of a GPU with
// the CPU before its first use.
package open
