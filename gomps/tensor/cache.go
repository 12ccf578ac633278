// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"container/list"
	"errors"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
)

// cache keeps the most recently used compiled operations. It is bounded because programs
// of a GPU hold memory that Go does not see: a job with new shapes in every step would
// fill the device long before the heap. The caller holds the lock.
type cache struct {
	size  int
	order *list.List // of *entry, most recent first
	byKey map[string]*list.Element
}

type entry struct {
	key string
	p   backend.Program
}

func newCache(size int) *cache {
	return &cache{size: size, order: list.New(), byKey: map[string]*list.Element{}}
}

func (c *cache) len() int { return c.order.Len() }

func (c *cache) get(key []byte) backend.Program {
	e, ok := c.byKey[string(key)]
	if !ok {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry).p
}

// put adds a program and returns the one that it evicts, or nil. It evicts the least
// recently used, since training steps use the same shapes again and again.
func (c *cache) put(key string, p backend.Program) (evicted backend.Program) {
	if c.order.Len() >= c.size {
		last := c.order.Back()
		e := c.order.Remove(last).(*entry)
		delete(c.byKey, e.key)
		evicted = e.p
	}
	c.byKey[key] = c.order.PushFront(&entry{key, p})
	return evicted
}

func (c *cache) clear() error {
	var errs []error
	for e := c.order.Front(); e != nil; e = e.Next() {
		errs = append(errs, e.Value.(*entry).p.Close())
	}
	c.order.Init()
	clear(c.byKey)
	return errors.Join(errs...)
}
