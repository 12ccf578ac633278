// SPDX-License-Identifier: Apache-2.0

// Package fault turns memory faults into errors.
//
// A mapped page that cannot be read is a SIGBUS: somebody cut the file short, the
// disk fails, the file was replaced on a network server. No check beforehand can
// prevent it, and the system's answer is the end of the process. Go makes a panic of
// it on goroutines that ask (debug.SetPanicOnFault), and every goroutine of this
// module does: the caller's own by Guard, the others by par.
//
// Who maps a file, or works on memory that a caller may have mapped, says so with
// Watch; an Error then names it.
package fault
