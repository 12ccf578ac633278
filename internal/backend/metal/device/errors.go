// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/bufpool"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// Sentinels for errors.Is.
var (
	// ErrOldSystem means macOS before 15.
	ErrOldSystem = objc.ErrOldSystem
	// ErrNoDevice means that Metal reports no usable GPU.
	ErrNoDevice = errors.New("metal: no usable GPU")
	// ErrOutOfMemory is in the chain of a refused allocation and of a command
	// buffer that the GPU could not make room for.
	ErrOutOfMemory = bufpool.ErrOutOfMemory
	// ErrTimeout is in the chain of work that the system's watchdog stopped.
	ErrTimeout = errors.New("metal: the GPU timed out")
	// ErrHiddenCommits means that MPSGraph handed parts of a run to the GPU on its
	// own, although it was told not to: whether they fail cannot be seen.
	ErrHiddenCommits = errors.New("metal: MPSGraph commits parts of a run by itself, whose errors cannot be seen; " +
		"set MPSGRAPH_DISABLE_CC=1 or use the CPU")
	// ErrClosed means use of a Device after Close.
	ErrClosed = errors.New("metal: the device is closed")
)

// MTLCommandBufferError codes.
const (
	codeTimeout     = 2
	codeOutOfMemory = 8
)

const commandErrorDomain = "MTLCommandBufferErrorDomain"

// CommandError is a command buffer that did not complete. Its results are
// garbage.
type CommandError struct {
	Label  string
	Status uint64      // MTLCommandBufferStatus
	Cause  *objc.Error // nil when the system gave none
}

func (e *CommandError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("metal: command buffer %q ended with status %d", e.Label, e.Status)
	}
	return fmt.Sprintf("metal: command buffer %q: %v", e.Label, e.Cause)
}

// Is recognises running out of memory and the watchdog, by code where Metal
// sets one and by the kernel's own words where it wraps them in another code.
func (e *CommandError) Is(target error) bool {
	if e.Cause == nil {
		return false
	}
	known := e.Cause.Domain == commandErrorDomain
	says := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(e.Cause.Text, w) {
				return true
			}
		}
		return false
	}
	switch target {
	case ErrOutOfMemory:
		return known && e.Cause.Code == codeOutOfMemory || says("CallbackErrorOutOfMemory")
	case ErrTimeout:
		return known && e.Cause.Code == codeTimeout ||
			says("CallbackErrorTimeout", "CallbackErrorHang", "CallbackErrorImpactingInteractivity")
	}
	return false
}

// AllocError is an allocation that the device refused.
type AllocError struct {
	Size, Limit uint64 // Limit is the largest buffer, 0 when it was not the reason
}

func (e *AllocError) Error() string {
	if e.Limit != 0 {
		return fmt.Sprintf("metal: buffer of %d bytes, the device's largest is %d", e.Size, e.Limit)
	}
	return fmt.Sprintf("metal: no memory for a buffer of %d bytes", e.Size)
}

// Is makes every refused allocation an ErrOutOfMemory.
func (e *AllocError) Is(target error) bool { return target == ErrOutOfMemory }
