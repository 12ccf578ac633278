// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"fmt"
	"math"
	"os"
	"sync"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// weightStore holds the weights in use, shared by the programs of a backend: the
// graphs of each size of picture are compiled anew and read the same file.
type weightStore struct {
	dev *device.Device

	mu      sync.Mutex
	weights map[weightKey]*weight
	regions map[regionKey]*region
	bytes   [3]int // by origin
}

// origin says where the elements of a weight are.
type origin uint8

const (
	inPlace  origin = iota // in the mapped file
	copied                 // in a buffer of their own
	computed               // there too, but not from a file
)

// weightKey identifies elements in memory as one value. Its pointer also keeps
// memory of the Go heap alive.
type weightKey struct {
	data  *byte
	form  form
	shape string
}

// form is how elements are stored on the device.
type form struct {
	dtype tensor.DType
	// rounded ones have gone through bfloat16.
	rounded bool
}

type weight struct {
	key    weightKey
	data   *mpsgraph.Data
	refs   int
	origin origin
	region *region        // of a weight in place
	owned  *device.Buffer // of the others
	bytes  int
}

// region is a mapped file, or the part of it around one weight, as a buffer. One
// buffer for a whole file: every command buffer keeps a list of those it uses.
type region struct {
	key  regionKey
	buf  *device.Buffer
	refs int
}

type regionKey struct {
	start *byte
	bytes int
}

func newWeightStore(dev *device.Device) *weightStore {
	return &weightStore{dev: dev, weights: map[weightKey]*weight{}, regions: map[regionKey]*region{}}
}

// inUse is the number of bytes of an origin.
func (s *weightStore) inUse(o origin) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes[o]
}

// take returns the elements of p in a form; every take needs a drop. Programs of
// several sizes share what they take. whole says that most of the file will be used
// where it is. Owner thread.
func (s *weightStore) take(p graph.Param, f form, whole bool) (*weight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := weightKey{unsafe.SliceData(p.Data), f, p.Shape.String()}
	if w, ok := s.weights[key]; ok {
		w.refs++
		return w, nil
	}
	w, err := s.place(p, f, whole)
	if err != nil {
		return nil, fmt.Errorf("weight %q: %w", p.Name, err)
	}
	w.key, w.refs = key, 1
	s.weights[key] = w
	return w, nil
}

// place uses the mapping where it can and copies where it must: for another
// element type, for memory that is not a mapping, and for elements that the
// file does not align.
func (s *weightStore) place(p graph.Param, f form, whole bool) (*weight, error) {
	if f.dtype == p.DType && !f.rounded {
		if r, offset, err := s.regionOf(p, whole); err != nil {
			return nil, err
		} else if r != nil {
			d, err := mpsgraph.NewData(r.buf, offset, shapeOf(p.Shape), f.dtype)
			if err != nil {
				s.dropRegion(r)
				return nil, err
			}
			s.bytes[inPlace] += len(p.Data)
			return &weight{data: d, origin: inPlace, region: r, bytes: len(p.Data)}, nil
		}
	}
	w, err := s.fill(p.Shape.Numel()*f.dtype.Size(), shapeOf(p.Shape), f.dtype, copied, func(dst []byte) error { return convert(dst, p, f) })
	if err == nil && p.Source.Release != nil {
		p.Source.Release(0, len(p.Data))
	}
	return w, err
}

// fill makes a buffer and has its elements written there, not elsewhere first: a
// model's largest matrix is a thirtieth of it.
func (s *weightStore) fill(size int, shape tensor.Shape, dtype tensor.DType, o origin, write func(dst []byte) error) (w *weight, err error) {
	buf, err := s.dev.NewBuffer(size)
	if err != nil {
		return nil, err
	}
	defer func() {
		if w == nil { // an error, or a panic: the file's pages are gone
			buf.Release()
		}
	}()
	if err := write(buf.Bytes()[:size]); err != nil {
		return nil, err
	}
	d, err := mpsgraph.NewData(buf, 0, shape, dtype)
	if err != nil {
		return nil, err
	}
	s.bytes[o] += size
	return &weight{data: d, origin: o, owned: buf, bytes: size}, nil
}

// table stores computed elements, for one program: cosines and sines depend on
// the size of the picture, and are small.
func (s *weightStore) table(data []byte, shape tensor.Shape, dtype tensor.DType) (*weight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, err := s.fill(len(data), shape, dtype, computed, func(dst []byte) error { copy(dst, data); return nil })
	if err != nil {
		return nil, err
	}
	w.key.data, w.refs = unsafe.SliceData(data), 1
	return w, nil
}

// regionOf finds the buffer over p's mapping and p's offset in it; no region
// and no error when p must be copied. A file larger than the largest buffer is
// taken in parts, one around each weight, and so is one of which little stays in
// place: the device counts the whole of a buffer as allocated.
func (s *weightStore) regionOf(p graph.Param, whole bool) (*region, int, error) {
	page := os.Getpagesize()
	mem, offset := p.Source.Mapping, p.Source.Offset
	if len(mem) == 0 || len(p.Data) == 0 {
		return nil, 0, nil
	}
	if offset < 0 || offset > len(mem)-len(p.Data) || &mem[offset] != &p.Data[0] {
		return nil, 0, fmt.Errorf("its data is not where its source says")
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	// newBufferWithBytesNoCopy wants whole pages, kernels want whole elements; a
	// safetensors header of odd length leaves every tensor of its file unaligned.
	if base%uintptr(page) != 0 || offset%p.DType.Size() != 0 {
		return nil, 0, nil
	}
	// Beyond an offset MPS counts elements with 32 bits.
	if !whole || uint64(len(mem)+page) > s.dev.Info().MaxBuffer || (len(mem)-offset)/p.DType.Size() > math.MaxInt32 {
		start := offset / page * page
		mem, offset = mem[start:offset+len(p.Data)], offset-start
	}
	key := regionKey{unsafe.SliceData(mem), len(mem)}
	if r, ok := s.regions[key]; ok {
		r.refs++
		return r, offset, nil
	}
	buf, err := s.dev.NewBufferNoCopy(mem)
	if err != nil {
		return nil, 0, err
	}
	r := &region{key: key, buf: buf, refs: 1}
	s.regions[key] = r
	return r, offset, nil
}

// drop ends one use of w; the last one frees it. The device must be done: the
// owner of the mapping may unmap it next.
func (s *weightStore) drop(w *weight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.refs--; w.refs > 0 {
		return
	}
	if s.weights[w.key] == w {
		delete(s.weights, w.key)
	}
	objc.WithPool(w.data.Release) // dealloc may autorelease, on any thread
	s.bytes[w.origin] -= w.bytes
	if w.region != nil {
		s.dropRegion(w.region)
		return
	}
	w.owned.Release()
}

func (s *weightStore) dropRegion(r *region) {
	if r.refs--; r.refs == 0 {
		delete(s.regions, r.key)
		r.buf.Release()
	}
}
