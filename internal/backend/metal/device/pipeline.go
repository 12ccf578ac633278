// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// Library is compiled kernel source.
type Library struct {
	dev *Device
	id  objc.ID
}

// Pipeline is a kernel ready to be dispatched.
type Pipeline struct {
	id         objc.ID
	name       string
	maxThreads uint64
	width      uint64
}

// NewLibrary compiles Metal Shading Language with IEEE arithmetic: the kernels
// compare scores, and a compiler that may reorder sums or assume that there is
// no NaN would change which one wins. Owner thread.
func (d *Device) NewLibrary(source string) (*Library, error) {
	if d.id == 0 {
		return nil, ErrClosed
	}
	opts := objc.New(compileOptions)
	defer objc.Release(opts)
	setMathMode.Send(opts, mathModeSafe)
	var nsErr objc.ID
	id := newLibraryWithSource.Send(d.id, objc.String(source), opts, &nsErr)
	// Warnings set the error and still give a library.
	if id == 0 {
		return nil, &CompileError{What: "library", Cause: objc.GoError(nsErr)}
	}
	return &Library{dev: d, id: id}, nil
}

// Pipeline prepares the kernel of that name. Owner thread.
func (l *Library) Pipeline(name string) (*Pipeline, error) {
	f := newFunctionWithName.Send(l.id, objc.String(name))
	if f == 0 {
		return nil, &CompileError{What: fmt.Sprintf("kernel %q: no such function", name)}
	}
	defer objc.Release(f)
	var nsErr objc.ID
	id := newComputePipelineState.Send(l.dev.id, f, &nsErr)
	if id == 0 {
		return nil, &CompileError{What: fmt.Sprintf("kernel %q", name), Cause: objc.GoError(nsErr)}
	}
	return &Pipeline{id: id, name: name, maxThreads: maxThreadsPerGroup.Send(id), width: threadExecutionWidth.Send(id)}, nil
}

// Release drops the library; its pipelines stay usable.
func (l *Library) Release() {
	objc.WithPool(func() { objc.Release(l.id) })
	l.id = 0
}

// Threads is a good one-dimensional threadgroup: whole SIMD groups, at most
// want.
func (p *Pipeline) Threads(want int) int {
	w := max(p.width, 1)
	n := min(uint64(max(want, 1)), p.maxThreads) / w * w
	return int(max(n, min(w, p.maxThreads)))
}

// check refuses what Metal would answer with an exception.
func (p *Pipeline) check(groups, threads Size, args []Arg) error {
	if p.id == 0 {
		return fmt.Errorf("metal: kernel %q was released", p.name)
	}
	n := threads.Width * threads.Height * threads.Depth
	if n == 0 || n > p.maxThreads {
		return fmt.Errorf("metal: kernel %q: %d threads a group, want 1 to %d", p.name, n, p.maxThreads)
	}
	if groups.Width == 0 || groups.Height == 0 || groups.Depth == 0 {
		return fmt.Errorf("metal: kernel %q: empty grid %v", p.name, groups)
	}
	for i, a := range args {
		switch {
		case a.Buffer != nil && (a.Buffer.freed.Load() || a.Offset < 0 || a.Offset >= a.Buffer.Len()):
			return fmt.Errorf("metal: kernel %q: argument %d: offset %d of a buffer of %d bytes", p.name, i, a.Offset, a.Buffer.Len())
		case a.Buffer == nil && (len(a.Bytes) == 0 || len(a.Bytes) > maxInlineBytes):
			return fmt.Errorf("metal: kernel %q: argument %d: %d inline bytes, want 1 to %d", p.name, i, len(a.Bytes), maxInlineBytes)
		}
	}
	return nil
}

// Release drops the pipeline.
func (p *Pipeline) Release() {
	objc.WithPool(func() { objc.Release(p.id) })
	p.id = 0
}
