// SPDX-License-Identifier: Apache-2.0

package device

import (
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

var mpsCommandBuffer = objc.DeclareClass("MPSCommandBuffer", objc.V(10, 15))

// MTLDevice.
var (
	deviceName            = objc.Instance[func(o objc.ID) objc.ID]("MTLDevice", "name", objc.V(10, 11))
	registryID            = objc.Instance[func(o objc.ID) uint64]("MTLDevice", "registryID", objc.V(10, 13))
	maxBufferLength       = objc.Instance[func(o objc.ID) uint64]("MTLDevice", "maxBufferLength", objc.V(10, 14))
	recommendedWorkingSet = objc.Instance[func(o objc.ID) uint64]("MTLDevice", "recommendedMaxWorkingSetSize", objc.V(10, 12))
	currentAllocatedSize  = objc.Instance[func(o objc.ID) uint64]("MTLDevice", "currentAllocatedSize", objc.V(10, 13))
	hasUnifiedMemory      = objc.Instance[func(o objc.ID) bool]("MTLDevice", "hasUnifiedMemory", objc.V(10, 15))
	supportsFamily        = objc.Instance[func(o objc.ID, family int64) bool]("MTLDevice", "supportsFamily:", objc.V(10, 15))
	newCommandQueue       = objc.Instance[func(o objc.ID) objc.ID]("MTLDevice", "newCommandQueue", objc.V(10, 11))
	newBufferWithLength   = objc.Instance[func(o objc.ID, length, options uint64) objc.ID]("MTLDevice", "newBufferWithLength:options:", objc.V(10, 11))
	newBufferNoCopy       = objc.Instance[func(o objc.ID, pointer unsafe.Pointer, length, options uint64, deallocator objc.Block) objc.ID]("MTLDevice", "newBufferWithBytesNoCopy:length:options:deallocator:", objc.V(10, 11))
	newSharedEvent        = objc.Instance[func(o objc.ID) objc.ID]("MTLDevice", "newSharedEvent", objc.V(10, 14))
)

// MTLBuffer.
var bufferContents = objc.Instance[func(o objc.ID) unsafe.Pointer]("MTLBuffer", "contents", objc.V(10, 11))

// MTLCommandBuffer, MPSCommandBuffer.
var (
	commandBufferFromQueue = objc.ClassMethod[func(c objc.Class, queue objc.ID) objc.ID]("MPSCommandBuffer", "commandBufferFromCommandQueue:", objc.V(10, 15))
	rootCommandBuffer      = objc.Instance[func(o objc.ID) objc.ID]("MPSCommandBuffer", "rootCommandBuffer", objc.V(10, 15))
	commit                 = objc.Instance[func(o objc.ID)]("MTLCommandBuffer", "commit", objc.V(10, 11))
	waitUntilCompleted     = objc.Instance[func(o objc.ID)]("MTLCommandBuffer", "waitUntilCompleted", objc.V(10, 11))
	commandStatus          = objc.Instance[func(o objc.ID) uint64]("MTLCommandBuffer", "status", objc.V(10, 11))
	commandError           = objc.Instance[func(o objc.ID) objc.ID]("MTLCommandBuffer", "error", objc.V(10, 11))
	gpuStartTime           = objc.Instance[func(o objc.ID) float64]("MTLCommandBuffer", "GPUStartTime", objc.V(10, 15))
	gpuEndTime             = objc.Instance[func(o objc.ID) float64]("MTLCommandBuffer", "GPUEndTime", objc.V(10, 15))
	setLabel               = objc.Instance[func(o, label objc.ID)]("MTLCommandBuffer", "setLabel:", objc.V(10, 11))
	encodeSignalEvent      = objc.Instance[func(o, event objc.ID, value uint64)]("MTLCommandBuffer", "encodeSignalEvent:value:", objc.V(10, 14))
	encodeWaitForEvent     = objc.Instance[func(o, event objc.ID, value uint64)]("MTLCommandBuffer", "encodeWaitForEvent:value:", objc.V(10, 14))
)

// MTLSharedEvent.
var (
	signaledValue     = objc.Instance[func(o objc.ID) uint64]("MTLSharedEvent", "signaledValue", objc.V(10, 14))
	setSignaledValue  = objc.Instance[func(o objc.ID, value uint64)]("MTLSharedEvent", "setSignaledValue:", objc.V(10, 14))
	waitUntilSignaled = objc.Instance[func(o objc.ID, value, milliseconds uint64) bool]("MTLSharedEvent", "waitUntilSignaledValue:timeoutMS:", objc.V(12, 0))
)
