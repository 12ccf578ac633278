// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Tensor is a named array. Data is little-endian and row-major; it is a view
// into the file it came from, valid until that is closed, and never written to.
// Tensors of a .pth may share bytes.
type Tensor struct {
	Name  string
	DType tensor.DType
	Shape tensor.Shape
	Data  []byte

	file   *File // nil for tensors made in memory
	offset int   // of Data in the file's image
}

// Offset is the position of Data in File.Bytes, for a device that takes the
// whole mapping as one buffer; ok is false for a tensor made in memory.
func (t Tensor) Offset() (file *File, offset int, ok bool) {
	if t.file == nil {
		return nil, 0, false
	}
	return t.file, t.offset, true
}

// Release tells the system that the tensor's pages are no longer needed, for a
// backend that has packed the weights in its own layout. The data stays
// readable: the next access reads it from the file again. It does nothing
// where the file is not mapped.
func (t Tensor) Release() error { return t.ReleasePart(0, len(t.Data)) }

// ReleasePart is Release of the bytes from <= i < to of Data.
func (t Tensor) ReleasePart(from, to int) error {
	if from < 0 || to > len(t.Data) || from > to {
		return fmt.Errorf("weights: tensor %q: release of bytes %d to %d, want a part of %d", t.Name, from, to, len(t.Data))
	}
	f := t.file
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unmap == nil {
		return nil
	}
	return f.release(t.offset+from, t.offset+to)
}

// File is an open model file. Its methods may be called at the same time from
// several goroutines, Close excepted.
type File struct {
	path    string
	image   []byte
	names   []string // in data order
	entries map[string]Tensor
	meta    map[string]string

	mu    sync.Mutex
	unmap func() error // nil when closed or not mapped

	changed           int64 // time of the last change, in nanoseconds
	identity          sync.Once
	absolute, version string // see Identity
}

// Open maps a model file and checks its header: safetensors, an archive of
// torch.save (.pth), or the pickle of a retrieval codebook (.pkl).
//
// The mapping follows the file: somebody who truncates it in place while it is
// open takes the bytes away under the reader, which no check at this point can
// prevent. Writers should do as Write does and rename a finished file.
//
// It does not wait for a writer of a pipe: what is no regular file is refused.
func Open(path string) (*File, error) {
	// Opening a FIFO blocks until somebody writes to it, and asking what it is first
	// would be too early.
	fh, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	defer fh.Close() // the mapping outlives the handle
	st, err := fh.Stat()
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("weights: %s: %v, want a regular file", path, st.Mode().Type())
	}
	// Only a 32-bit machine gets here: a slice cannot be longer than an int.
	if int64(int(st.Size())) != st.Size() {
		return nil, fmt.Errorf("weights: %s: %d bytes do not fit the address space", path, st.Size())
	}
	image, unmap, err := mapFile(fh, int(st.Size()))
	if err != nil {
		return nil, fmt.Errorf("weights: %s: %w", path, err)
	}
	forget := fault.Watch(image, Quoted(path))
	unmapAll := func() error {
		forget()
		return unmap()
	}
	f, err := newFile(path, image)
	if err != nil {
		return nil, errors.Join(err, unmapAll())
	}
	f.unmap, f.changed = unmapAll, st.ModTime().UnixNano()
	return f, nil
}

// OpenBytes reads a file image that is in memory already; the image must not
// change while the File is used.
func OpenBytes(image []byte) (*File, error) { return newFile("", image) }

func newFile(path string, image []byte) (_ *File, err error) {
	defer fault.Guard(&err)()
	c, err := read(image)
	if err != nil {
		var fe *FormatError
		if errors.As(err, &fe) {
			fe.Path = path
		}
		return nil, err
	}
	f := &File{path: path, image: image, meta: c.meta, entries: make(map[string]Tensor, len(c.tensors))}
	for _, t := range c.tensors {
		if strings.HasPrefix(t.Name, paddingPrefix) {
			continue
		}
		if t.offset >= 0 {
			t.file = f
		}
		f.names = append(f.names, t.Name)
		f.entries[t.Name] = t
	}
	return f, nil
}

// Path is the name the file was opened by, "" for bytes in memory.
func (f *File) Path() string { return f.path }

// Bytes is the whole file image. When it is mapped, it starts on a page.
func (f *File) Bytes() []byte { return f.image }

// Names lists the tensors in data order, without alignment padding.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Tensor looks a tensor up by the name in the file.
func (f *File) Tensor(name string) (Tensor, bool) {
	t, ok := f.entries[name]
	return t, ok
}

// Metadata is a copy of the file's free-form strings.
func (f *File) Metadata() map[string]string { return maps.Clone(f.meta) }

// Close unmaps the file. Every Data of its tensors is invalid from then on:
// the caller must have stopped using them. Closing twice is harmless.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unmap == nil {
		return nil
	}
	unmap := f.unmap
	f.unmap = nil
	if err := unmap(); err != nil {
		return fmt.Errorf("weights: %s: unmapping: %w", f.path, err)
	}
	return nil
}

// release drops the pages that lie wholly inside image[from:to]; the caller
// holds the lock.
func (f *File) release(from, to int) error {
	page := os.Getpagesize()
	// Inward to whole pages: those at the ends are shared with the neighbours.
	from = (from + page - 1) / page * page
	to = to / page * page
	if from >= to {
		return nil
	}
	if err := dropPages(f.image[from:to]); err != nil {
		return fmt.Errorf("weights: %s: releasing pages: %w", f.path, err)
	}
	return nil
}
