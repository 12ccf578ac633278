// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// Commands are the operations between Begin and Commit: a command buffer. The device
// gets them in one piece, or in several where there are more than a batch, and they can
// be waited for without those that come later. Its methods may be called from any goroutine.
type Commands struct {
	c         *Context
	committed bool
	handed    []backend.Pending
	err       error
}

// Begin starts a command buffer: operations of the context belong to it until Commit.
// What was collected before is handed over first. A context has one at a time.
func (c *Context) Begin() (*Commands, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if c.commands != nil {
		return nil, refuse(ErrOption, "a command buffer is open, commit it before the next")
	}
	if err := c.commit(); err != nil {
		return nil, err
	}
	c.commands = &Commands{c: c}
	return c.commands, nil
}

// Commit ends the command buffer and hands it to the device, without waiting.
func (b *Commands) Commit() error {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.committed {
		return refuse(ErrOption, "the command buffer was committed before")
	}
	if b.c.closed {
		return ErrClosed
	}
	return b.commit()
}

// Wait blocks until the device is done with the operations of the buffer, and returns
// their errors. Waiting again gives the same answer. Before Commit it is an error.
func (b *Commands) Wait() error {
	handed, err := b.waitFor()
	if err != nil {
		return err
	}
	// The lock is free here: others go on while the device works.
	for _, p := range handed {
		err = errors.Join(err, wait(p))
	}
	return b.done(err)
}

func (b *Commands) waitFor() ([]backend.Pending, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if !b.committed && !b.c.closed {
		return nil, refuse(ErrOption, "the command buffer was not committed")
	}
	return b.handed, nil
}

// done keeps the errors and lets go of what was waited for.
func (b *Commands) done(err error) error {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.handed != nil {
		b.handed, b.err = nil, errors.Join(b.err, err)
	}
	return b.err
}

// Close commits what is not committed yet, so that the context can begin another command
// buffer. It does not wait. Closing again does nothing.
func (b *Commands) Close() error {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.committed || b.c.closed {
		return nil
	}
	return b.commit()
}

// commit hands over. The caller holds the context's lock.
func (b *Commands) commit() error {
	err := b.c.commit()
	b.c.commands, b.committed = nil, true
	return err
}

// handOver adds work that the device got. The caller holds the context's lock.
func (b *Commands) handOver(p backend.Pending, err error) {
	if b == nil {
		return
	}
	if err != nil {
		b.err = errors.Join(b.err, err)
		return
	}
	b.handed = append(b.handed, p)
}
