// SPDX-License-Identifier: Apache-2.0

package isa

import (
	"sync"
	"syscall"
	"unsafe"
)

// Linux gives the state of tiles, 8 KiB a thread, to a process that has asked
// (Documentation/arch/x86/xstate.rst; since 5.16). Asking changes something for the
// process: signal stacks that a signal frame with tiles does not fit into are refused
// from then on, and the permission is refused while there is one. So tiles are asked
// for when a product first wants them, and not when the package is loaded.
const (
	archGetXCompSupp = 0x1021
	archReqXCompPerm = 0x1023
	xfeatureTileData = 18
)

func archPrctl(code, arg uintptr) syscall.Errno {
	_, _, e := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, code, arg, 0)
	return e
}

// tilesKnown reports whether the system can give the state of tiles.
func tilesKnown() bool {
	var mask uint64
	e := archPrctl(archGetXCompSupp, uintptr(unsafe.Pointer(&mask)))
	return e == 0 && mask>>xfeatureTileData&1 == 1
}

// askForTiles does so once.
var askForTiles = sync.OnceValue(func() bool {
	return archPrctl(archReqXCompPerm, xfeatureTileData) == 0
})
