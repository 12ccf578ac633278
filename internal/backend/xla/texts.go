// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
)

// texts are compiled programs that are no graphs, by what their texts depend on, the one
// used last at the end. One that XLA cannot compile is not tried again. mu is held from
// get to the end of the run.
type texts[K comparable] struct {
	mu   sync.Mutex
	list []compiled[K]
}

type compiled[K comparable] struct {
	key K
	exe *pjrt.Executable // nil where there is an error
	err error
}

// maxTexts bounds how many of a kind are kept compiled.
const maxTexts = 8

// get gives the program for a key; write writes its text.
func (t *texts[K]) get(b *Backend, key K, write func() (string, error)) (*pjrt.Executable, error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(t.list, func(x compiled[K]) bool { return x.key == key }); i >= 0 {
		x := t.list[i]
		t.list = append(slices.Delete(t.list, i, i+1), x)
		return x.exe, x.err
	}
	text, err := write()
	if errors.Is(err, stablehlo.ErrUnsupported) {
		return nil, fmt.Errorf("%w: %w", backend.ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	exe, _, err := b.cache.compile(b.dev, text, b.cfg.Flags)
	switch {
	case errors.Is(err, backend.ErrOutOfMemory):
		return nil, b.account(err)
	case err != nil:
		err = fmt.Errorf("%w: %w", backend.ErrUnsupported, err)
		b.log.Warn("the host does what a program that does not compile was for", "program", key, "error", err)
	}
	if len(t.list) == maxTexts {
		t.list[0].exe.Close()
		t.list = t.list[1:]
	}
	t.list = append(t.list, compiled[K]{key, exe, err})
	return exe, err
}

func (t *texts[K]) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.list {
		x.exe.Close()
	}
	t.list = nil
}

// execute runs a program to its end.
func (b *Backend) execute(exe *pjrt.Executable, args []*pjrt.Buffer) ([]*pjrt.Buffer, error) {
	results, done, err := exe.Execute(args)
	if err != nil {
		return nil, b.account(err)
	}
	if err := done.Await(); err != nil {
		for _, x := range results {
			x.Close()
		}
		return nil, b.account(err)
	}
	b.count(func() { b.stats.Runs++ })
	return results, nil
}
