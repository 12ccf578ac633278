// SPDX-License-Identifier: Apache-2.0

package capi

/*
#include "guard.h"
*/
import "C"

import "sync"

// kind says what a handle stands for.
type kind uint8

const (
	kindEngine kind = iota + 1
	kindJob
	kindTensor
	kindIndex
	kindBuffer
	kindContext
	kindCommands
	kindExecutor
)

var kindNames = [...]string{"nothing", "an engine", "a job", "a tensor", "an index", "a buffer", "a context of tensors", "a command buffer", "an executor"}

// table gives out numbers for Go values. A handle is the slot's index plus one
// in the low half and the slot's generation in the high half, so that a handle
// used after its release meets another generation and is refused, instead of
// reaching whatever lives in the slot now.
type table struct {
	mu    sync.Mutex
	slots []slot
	free  []uint32
	alive [len(kindNames)]uint64
}

type slot struct {
	generation uint32
	kind       kind
	value      any
}

var handles table

func (t *table) add(k kind, value any) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var i uint32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		i = uint32(len(t.slots))
		t.slots = append(t.slots, slot{generation: 1})
	}
	s := &t.slots[i]
	s.kind, s.value = k, value
	t.alive[k]++
	return uint64(s.generation)<<32 | uint64(i+1)
}

// find returns the slot of a live handle of kind k. t.mu is held.
func (t *table) find(call string, h uint64, k kind) (*slot, error) {
	i := h & 0xffffffff
	if i == 0 || i > uint64(len(t.slots)) {
		return nil, fail(C.MAST3R_E_HANDLE, "%s: no such handle: %#x", call, h)
	}
	s := &t.slots[i-1]
	if s.value == nil || s.generation != uint32(h>>32) {
		return nil, fail(C.MAST3R_E_HANDLE, "%s: handle %#x was released", call, h)
	}
	if s.kind != k {
		return nil, fail(C.MAST3R_E_HANDLE, "%s: handle %#x is %s, want %s", call, h, kindNames[s.kind], kindNames[k])
	}
	return s, nil
}

func (t *table) get(call string, h uint64, k kind) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.find(call, h, k)
	if err != nil {
		return nil, err
	}
	return s.value, nil
}

// remove ends a handle and returns its value: of several callers, one gets it.
func (t *table) remove(call string, h uint64, k kind) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.find(call, h, k)
	if err != nil {
		return nil, err
	}
	value := s.value
	s.value = nil
	s.generation++
	t.alive[k]--
	if s.generation != 0 { // a slot whose generations are used up is given up
		t.free = append(t.free, uint32(h&0xffffffff)-1)
	}
	return value, nil
}

// counts are the live handles by kind.
func (t *table) counts() [len(kindNames)]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.alive
}

// lookup is get with the value's type.
func lookup[T any](call string, h C.uint64_t, k kind) (T, error) {
	v, err := handles.get(call, uint64(h), k)
	if err != nil {
		var zero T
		return zero, err
	}
	return v.(T), nil
}
