// SPDX-License-Identifier: Apache-2.0

// Package newfile writes files that appear under their names when they are
// complete, or not at all.
//
// A file is written under a temporary name beside its target and renamed. The
// writer holds a lock on it: a temporary file that nobody has locked was left by a
// process that was killed, and the next writer in the folder removes it.
package newfile
