// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// Info are facts about a device.
type Info struct {
	Name       string
	RegistryID uint64
	// MaxBuffer is the largest buffer, WorkingSet the memory beyond which the
	// device is likely to be overcommitted; both in bytes.
	MaxBuffer, WorkingSet uint64
	System                objc.OSVersion
	// Family is the newest of Apple's GPU families that the device belongs to: 7 is
	// the M1, 10 the M5; 0 is none.
	Family int
	// Virtual is the paravirtual GPU of a virtual machine, on which Apple does not
	// support MPS and reports of wrong results, refusals and aborts abound.
	Virtual bool
	// SDK is the one that the program was linked with, zero when dyld does not say.
	// MPSGraph's compiler and much else in the system behave by it.
	SDK objc.Version
	// Stack is the owner thread's, in bytes.
	Stack int
}

// Device is the system's GPU and the OS thread that encodes for it. Its methods
// may be called from any goroutine.
type Device struct {
	id   objc.ID
	info Info
	live atomic.Int64 // buffers not yet released

	mu     sync.RWMutex // held for reading while a job is handed over
	closed bool
	jobs   chan *job
	ended  chan struct{}
}

type job struct {
	run  func() error
	err  error
	pan  *par.Panic
	done chan struct{}
}

// ownerStack is the owner thread's. MPSGraph compiles on the thread that asks, with
// LLVM inside, a few thousand nodes deep; a thread of Go's has 512 KiB below
// Python on a Mac, or 8 MiB, as the scheduler likes.
const ownerStack = 16 << 20

// Open loads Metal and takes the system's default device. It fails with
// objc.ErrUnavailable off macOS, with ErrOldSystem before macOS 15, and with
// ErrNoDevice without a GPU that shares its memory with the host.
func Open() (*Device, error) {
	if err := objc.Load(); err != nil {
		return nil, err
	}
	d := &Device{jobs: make(chan *job), ended: make(chan struct{})}
	if err := objc.StartThread(ownerStack, d.loop); err != nil {
		return nil, err
	}
	if err := d.Do(d.open); err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

func (d *Device) open() error {
	v := objc.SystemVersion()
	if !(objc.Version{Major: int(v.Major), Minor: int(v.Minor)}).AtLeast(objc.MinimumMacOS) {
		return fmt.Errorf("%w: it is %d.%d.%d, %v or newer is needed", ErrOldSystem, v.Major, v.Minor, v.Patch, objc.MinimumMacOS)
	}
	var create func() objc.ID // +1
	if err := objc.CFunction(&create, "MTLCreateSystemDefaultDevice"); err != nil {
		return err
	}
	if d.id = create(); d.id == 0 {
		return fmt.Errorf("%w: MTLCreateSystemDefaultDevice returned nil", ErrNoDevice)
	}
	d.info = Info{
		Name:       objc.GoString(deviceName.Send(d.id)),
		RegistryID: registryID.Send(d.id),
		MaxBuffer:  maxBufferLength.Send(d.id),
		WorkingSet: recommendedWorkingSet.Send(d.id),
		System:     v,
		Family:     family(d.id),
		SDK:        programSDK(),
		Stack:      objc.StackSize(),
	}
	d.info.Virtual = strings.Contains(d.info.Name, "Paravirtual")
	if !hasUnifiedMemory.Send(d.id) {
		d.release()
		return fmt.Errorf("%w: %s has memory of its own, unified memory is needed", ErrNoDevice, d.info.Name)
	}
	return nil
}

// Trusted reports, as an error, why a GPU should not be used unless somebody asks
// for it: MPSGraph is developed for the M1 and its successors.
func (i Info) Trusted() error {
	switch {
	case i.Virtual:
		return fmt.Errorf("%w: %s is a virtual machine's, on which Apple does not support MPS", ErrNoDevice, i.Name)
	case i.Family < leastFamily:
		return fmt.Errorf("%w: %s is of Apple's family %d, %d (M1) or newer is needed", ErrNoDevice, i.Name, i.Family, leastFamily)
	}
	return nil
}

// Families of Apple GPUs: MTLGPUFamilyApple1 is 1001.
const firstFamily, newestFamily, leastFamily = 1000, 20, 7

func family(dev objc.ID) int {
	for f := newestFamily; f > 0; f-- {
		if supportsFamily.Send(dev, int64(firstFamily+f)) {
			return f
		}
	}
	return 0
}

// programSDK asks dyld: 15.4 is 0x000f0400. The main program counts, not this
// library: python.org's, Homebrew's and the command line tool differ.
func programSDK() objc.Version {
	var sdk func() uint32
	if objc.CFunction(&sdk, "dyld_get_program_sdk_version") != nil {
		return objc.Version{}
	}
	v := sdk()
	return objc.V(int(v>>16), int(v>>8&0xff))
}

func (d *Device) release() {
	objc.Release(d.id)
	d.id = 0
}

// loop is the owner thread: a thread of its own, which C called. It stays locked
// to it until it ends.
func (d *Device) loop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(d.ended)
	debug.SetPanicOnFault(true) // package fault: jobs read mapped files
	for j := range d.jobs {
		d.serve(j)
	}
}

func (d *Device) serve(j *job) {
	defer close(j.done)
	defer func() {
		if v := recover(); v != nil {
			j.pan = &par.Panic{Tile: -1, Value: v, Stack: debug.Stack()}
		}
	}()
	objc.WithPool(func() { j.err = j.run() })
}

// Do runs f on the owner thread inside an autorelease pool and returns its
// error; a panic of f continues in the caller. f must not call Do.
func (d *Device) Do(f func() error) error {
	j := &job{run: f, done: make(chan struct{})}
	if !d.hand(j) {
		return ErrClosed
	}
	<-j.done
	if j.pan != nil {
		panic(j.pan)
	}
	return j.err
}

// hand gives a job to the owner thread, unless the device is closed.
func (d *Device) hand(j *job) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return false
	}
	d.jobs <- j
	return true
}

// Close releases the device and ends the owner thread. Queues and buffers stay
// valid until they are released. Close may be called again.
func (d *Device) Close() error {
	err := d.Do(func() error { d.release(); return nil })
	if err == ErrClosed {
		return nil
	}
	d.stop()
	return err
}

func (d *Device) stop() {
	d.end()
	<-d.ended
}

func (d *Device) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		close(d.jobs)
	}
}

// ID is the MTLDevice; it belongs to d.
func (d *Device) ID() objc.ID { return d.id }

// Info describes the device.
func (d *Device) Info() Info { return d.info }

// Allocated is the memory that Metal has allocated on this device for this
// process.
func (d *Device) Allocated() uint64 {
	if d.id == 0 {
		return 0
	}
	return currentAllocatedSize.Send(d.id)
}

// LiveBuffers counts the buffers made and not released yet.
func (d *Device) LiveBuffers() int { return int(d.live.Load()) }
