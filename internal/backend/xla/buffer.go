// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"fmt"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/bufpool"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// buffer holds an array on the device, the host's copy, or both.
type buffer struct {
	b *Backend
	n int

	mu       sync.Mutex
	host     *bufpool.Buffer[[]byte]
	dev      *pjrt.Buffer
	fetched  bool // host is a copy of dev
	released bool
	held     int // while it is not 0, a release leaves dev
}

var _ backend.DeviceMemory = (*buffer)(nil)

// Alloc gives a place of n bytes; memory comes when it is needed.
func (b *Backend) Alloc(n int) (backend.Buffer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	if n < 0 {
		return nil, fmt.Errorf("xla: buffer of %d bytes", n)
	}
	b.live++
	return &buffer{b: b, n: n}, nil
}

func (x *buffer) Len() int { return x.n }

// Bytes is the host's copy, nil when it cannot be fetched; Fetch says why.
func (x *buffer) Bytes() []byte {
	if err := x.Fetch(); err != nil {
		x.b.log.Error("a result cannot be read from the device", "bytes", x.n, "error", err)
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.host == nil {
		return nil
	}
	return x.host.Memory()[:x.n:x.n]
}

// Fetch brings what the device holds to the host.
func (x *buffer) Fetch() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.released {
		return bufpool.ErrReleased
	}
	if x.host == nil {
		h, err := x.b.host.Get(x.n)
		if err != nil {
			return err
		}
		x.host = h
	}
	if x.dev == nil || x.fetched {
		return nil
	}
	if err := x.dev.Download(x.host.Memory()[:x.n]); err != nil {
		return err
	}
	x.fetched = true
	return nil
}

// types are the elements of the graph for the plugin.
var types = map[tensor.DType]pjrt.Type{
	tensor.F32: pjrt.F32, tensor.F16: pjrt.F16, tensor.BF16: pjrt.BF16, tensor.F64: pjrt.F64,
	tensor.I32: pjrt.S32, tensor.I64: pjrt.S64, tensor.U8: pjrt.U8,
}

// hold is input for somebody whose run a release may not disturb, until letGo.
func (x *buffer) hold() (*pjrt.Buffer, error) {
	dev, err := x.input(tensor.F32)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.released { // in between
		return nil, bufpool.ErrReleased
	}
	x.held++
	return dev, nil
}

func (x *buffer) letGo() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.held--; x.held == 0 && x.released {
		x.dev.Close()
	}
}

// input is the array on the device; the host's bytes are uploaded on first use.
func (x *buffer) input(d tensor.DType) (*pjrt.Buffer, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.released {
		return nil, bufpool.ErrReleased
	}
	if x.dev != nil {
		return x.dev, nil
	}
	if x.host == nil {
		return nil, fmt.Errorf("xla: an input of %d bytes that nobody has written", x.n)
	}
	dev, err := x.b.dev.Upload(x.host.Memory()[:x.n], types[d], []int64{int64(x.n / d.Size())})
	if err != nil {
		return nil, err
	}
	x.dev, x.fetched = dev, true
	return dev, nil
}

// forget frees what the device holds, which a run is about to replace: the same
// program then gets the same addresses again, and XLA need not rewrite its CUDA
// graph for others.
func (x *buffer) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dev.Close()
	x.dev, x.fetched = nil, false
}

// output takes the result of a run.
func (x *buffer) output(dev *pjrt.Buffer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.released {
		dev.Close()
		return
	}
	x.dev.Close()
	x.dev, x.fetched = dev, false
}

// Device is the address of the elements on the device, which holds until the
// buffer is released, and the device's number.
func (x *buffer) Device() (address uintptr, id int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.released {
		return 0, 0, bufpool.ErrReleased
	}
	if x.dev == nil || x.b.dev.Platform() != "cuda" {
		return 0, 0, fmt.Errorf("xla: the buffer holds nothing on a GPU")
	}
	address, err = x.dev.Pointer()
	return address, x.b.dev.HardwareID, err
}

// Release frees both. The plugin keeps the array until its runs are done.
func (x *buffer) Release() {
	if !x.drop() {
		return
	}
	x.b.count(func() { x.b.live-- })
	// Nothing can be done about a failure here.
	_ = x.b.release()
}

// drop frees both memories, once.
func (x *buffer) drop() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.released {
		return false
	}
	x.released = true
	if x.held == 0 {
		x.dev.Close()
	}
	if x.host != nil {
		x.host.Release()
	}
	return true
}
