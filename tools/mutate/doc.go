// SPDX-License-Identifier: Apache-2.0

// The list of mutants, mutants.txt, has for each
//
//	=== ID | FILE | TEST | TEXT
//	the old lines, which are in the file once
//	--- to
//	the new lines
//
// TEST is a shell command that fails when it notices, or "py" and files of tests/py. A mutant that a change of the
// code has moved is an error: the list grows with the code.
//
// What a mistake does, it does with the rights of who runs it: a test in the list must
// not point the code at anything outside its own folder, a device for example.
package main
