// SPDX-License-Identifier: Apache-2.0

// Package faulty is a plugin for package xla whose calls fail, or take long, when a test
// says so: what a GPU does that is out of memory, or gone.
package faulty
