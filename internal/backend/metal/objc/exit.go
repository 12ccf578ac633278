// SPDX-License-Identifier: Apache-2.0

//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// forGood keeps memory that C code reads when the process ends.
var forGood [][]byte

// RemoveAtExit has the C library remove a file when the process ends in its own
// time: by exit or a return from main, not by an abort or a signal. Go code
// cannot run so late in a library; unlink can, registered itself.
func RemoveAtExit(path string) error {
	var atExit func(f uintptr, arg unsafe.Pointer, dso uintptr) int32
	register, err1 := purego.Dlsym(purego.RTLD_DEFAULT, "__cxa_atexit")
	unlink, err2 := purego.Dlsym(purego.RTLD_DEFAULT, "unlink")
	if err1 != nil || err2 != nil {
		return fmt.Errorf("objc: no __cxa_atexit or unlink: %v, %v", err1, err2)
	}
	purego.RegisterFunc(&atExit, register)
	name := append([]byte(path), 0)
	forGood = append(forGood, name)
	if rc := atExit(unlink, unsafe.Pointer(&name[0]), 0); rc != 0 {
		return fmt.Errorf("objc: __cxa_atexit: error %d", rc)
	}
	return nil
}
