// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/dl"
)

// ErrNoDriver is in the chain of the error about a machine without a usable
// driver or GPU.
var ErrNoDriver = errors.New("cuda: no driver")

// Driver are facts about the machine's GPUs from NVIDIA's driver.
type Driver struct {
	// Version is the newest CUDA that the driver serves, 13000 for 13.0.
	Version int
	Devices []GPU
}

// GPU is one device.
type GPU struct {
	Name         string
	Major, Minor int // compute capability
}

// ask reads the facts, once in a process.
var ask = sync.OnceValues(func() (*Driver, error) {
	lib, err := dl.Open("libcuda.so.1", true)
	if err != nil {
		return nil, fmt.Errorf("%w: libcuda.so.1, which NVIDIA's driver installs, is not here: %w", ErrNoDriver, err)
	}
	d := &Driver{}
	var failed error
	call := func(name string, args ...uintptr) {
		f, err := dl.Symbol(lib, name)
		if err == nil {
			if r, _, _ := purego.SyscallN(f, args...); int32(r) != 0 {
				err = fmt.Errorf("%s: CUDA error %d", name, int32(r))
			}
		}
		if failed == nil && err != nil {
			failed = fmt.Errorf("%w: %w", ErrNoDriver, err)
		}
	}
	number := func(name string, args ...uintptr) int {
		n := new(int32)
		call(name, append([]uintptr{uintptr(unsafe.Pointer(n))}, args...)...)
		return int(*n)
	}
	call("cuInit", 0)
	d.Version = number("cuDriverGetVersion")
	count := number("cuDeviceGetCount")
	if failed != nil {
		return nil, failed
	}
	// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
	const major, minor = 75, 76
	for i := range count {
		dev := number("cuDeviceGet", uintptr(i))
		name := make([]byte, 100)
		call("cuDeviceGetName", uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), uintptr(dev))
		g := GPU{Major: number("cuDeviceGetAttribute", major, uintptr(dev)), Minor: number("cuDeviceGetAttribute", minor, uintptr(dev))}
		for _, c := range name {
			if c == 0 {
				break
			}
			g.Name += string(rune(c))
		}
		d.Devices = append(d.Devices, g)
	}
	if failed != nil {
		return nil, failed
	}
	return d, nil
})
