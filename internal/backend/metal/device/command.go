// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// MTLCommandBufferStatus.
const (
	statusCompleted = 4
	statusError     = 5
)

// Queue is an MTLCommandQueue: its command buffers run in the order of their
// commits, those of different queues may overlap. At most 64 may be unfinished;
// beginning another one then blocks.
type Queue struct {
	dev *Device
	id  objc.ID
}

// NewQueue makes a queue.
func (d *Device) NewQueue() (*Queue, error) {
	if d.id == 0 {
		return nil, ErrClosed
	}
	q := &Queue{dev: d}
	objc.WithPool(func() { q.id = newCommandQueue.Send(d.id) })
	if q.id == 0 {
		return nil, fmt.Errorf("%w: %s gives no command queue", ErrNoDevice, d.info.Name)
	}
	return q, nil
}

// Release drops the queue; committed work is finished anyway. It may be called
// again.
func (q *Queue) Release() {
	objc.WithPool(func() { objc.Release(q.id) })
	q.id = 0
}

// CommandBuffer collects GPU work. It wraps an MPSCommandBuffer, the kind that
// MPSGraph encodes into. MPSGraph can commit the underlying MTLCommandBuffer and
// continue in a fresh one; it is told not to (package mpsgraph), every root seen
// is kept, and each is asked how it ended.
//
// Encoding and Commit belong on the owner thread (inside Device.Do), Wait and
// what follows it may be called anywhere, once.
type CommandBuffer struct {
	label     string
	id        objc.ID   // MPSCommandBuffer, retained
	roots     []objc.ID // MTLCommandBuffers, retained, oldest first
	committed bool
}

// NewCommandBuffer starts a command buffer. Owner thread.
func (q *Queue) NewCommandBuffer(label string) (*CommandBuffer, error) {
	if q.id == 0 {
		return nil, ErrClosed
	}
	id := commandBufferFromQueue.Send(mpsCommandBuffer.ID, q.id)
	if id == 0 {
		return nil, errors.New("metal: the queue gives no command buffer")
	}
	c := &CommandBuffer{label: label, id: objc.Retain(id)}
	c.NoteRoot()
	if label != "" {
		setLabel.Send(id, objc.String(label))
	}
	return c, nil
}

// ID is the MPSCommandBuffer; it belongs to c.
func (c *CommandBuffer) ID() objc.ID { return c.id }

// NoteRoot records the current underlying command buffer and reports whether it
// is the one noted before. Call it after what may commit and continue: MPSGraph's
// encoding. Of roots that begin and end inside one encoding nobody can ask the
// status, and an error there leaves no trace in the following ones: public
// reports have later buffers of a queue succeed after a failed one.
func (c *CommandBuffer) NoteRoot() (same bool) {
	r := rootCommandBuffer.Send(c.id)
	if len(c.roots) > 0 && c.roots[len(c.roots)-1] == r {
		return true
	}
	c.roots = append(c.roots, objc.Retain(r))
	return false
}

func (c *CommandBuffer) encodable() error {
	if c.id == 0 || c.committed {
		return fmt.Errorf("metal: command buffer %q is committed already", c.label)
	}
	return nil
}

// Signal sets e to value once the GPU is done with what was encoded so far.
func (c *CommandBuffer) Signal(e *Event, value uint64) error {
	if err := c.encodable(); err != nil {
		return err
	}
	encodeSignalEvent.Send(c.id, e.id, value)
	return nil
}

// WaitFor makes what is encoded next wait, on the GPU, until e reaches value.
func (c *CommandBuffer) WaitFor(e *Event, value uint64) error {
	if err := c.encodable(); err != nil {
		return err
	}
	encodeWaitForEvent.Send(c.id, e.id, value)
	return nil
}

// Commit hands the work to the GPU.
func (c *CommandBuffer) Commit() error {
	if err := c.encodable(); err != nil {
		return err
	}
	c.NoteRoot()
	c.committed = true
	commit.Send(c.id)
	return nil
}

// Wait blocks until the GPU is done and reports the first command buffer that
// did not complete.
func (c *CommandBuffer) Wait() error {
	if !c.committed {
		return fmt.Errorf("metal: command buffer %q was not committed", c.label)
	}
	var err error
	objc.WithPool(func() {
		// One queue runs its buffers in order: when the last is done, all are.
		waitUntilCompleted.Send(c.roots[len(c.roots)-1])
		for _, r := range c.roots {
			if st := commandStatus.Send(r); st != statusCompleted {
				err = &CommandError{Label: c.label, Status: st, Cause: objc.GoError(commandError.Send(r))}
				return
			}
		}
	})
	return err
}

// Committed reports whether Commit has succeeded.
func (c *CommandBuffer) Committed() bool { return c.committed }

// Busy reports whether the GPU may be at work for c: all of it was committed, or
// a part underneath. Memory that c uses may not be given to others before it is
// committed whole and waited for: a queue runs its buffers in order, so the last
// root's end is that of parts that were never seen too.
func (c *CommandBuffer) Busy() bool { return c.committed || len(c.roots) > 1 }

// GPUTime is how long the GPU worked, from its own timestamps; meaningful after
// Wait.
func (c *CommandBuffer) GPUTime() time.Duration {
	if len(c.roots) == 0 {
		return 0
	}
	var s float64
	objc.WithPool(func() {
		s = gpuEndTime.Send(c.roots[len(c.roots)-1]) - gpuStartTime.Send(c.roots[0])
	})
	return time.Duration(s * float64(time.Second))
}

// Release drops the command buffer; the GPU finishes committed work anyway. It
// may be called again.
func (c *CommandBuffer) Release() {
	if c.id == 0 {
		return
	}
	objc.WithPool(func() {
		for _, r := range c.roots {
			objc.Release(r)
		}
		objc.Release(c.id)
	})
	c.id, c.roots = 0, nil
}

// Event is an MTLSharedEvent: a counter that the GPU and the host wait for.
type Event struct{ id objc.ID }

// NewEvent makes an event with value 0.
func (d *Device) NewEvent() (*Event, error) {
	if d.id == 0 {
		return nil, ErrClosed
	}
	var e *Event
	objc.WithPool(func() {
		if id := newSharedEvent.Send(d.id); id != 0 {
			e = &Event{id: id}
		}
	})
	if e == nil {
		return nil, errors.New("metal: the device gives no shared event")
	}
	return e, nil
}

// ID is the MTLSharedEvent; it belongs to e.
func (e *Event) ID() objc.ID { return e.id }

// Value is the current value.
func (e *Event) Value() uint64 { return signaledValue.Send(e.id) }

// Set raises the value from the host.
func (e *Event) Set(v uint64) { setSignaledValue.Send(e.id, v) }

// Wait blocks until the value is at least v and reports whether that happened
// within the time.
func (e *Event) Wait(v uint64, atMost time.Duration) bool {
	return waitUntilSignaled.Send(e.id, v, uint64(max(atMost.Milliseconds(), 0)))
}

// Release drops the event. It may be called again.
func (e *Event) Release() {
	objc.WithPool(func() { objc.Release(e.id) })
	e.id = 0
}
