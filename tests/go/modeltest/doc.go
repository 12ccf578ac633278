// SPDX-License-Identifier: Apache-2.0

// Package modeltest holds whole networks against the golden data, through any
// backend: every intermediate of the small models, the outputs of the others.
package modeltest
