// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"fmt"
	"slices"
	"unsafe"
)

// align is the alignment of everything in an arena: a cache line, and a vector
// of the widest instruction set.
const align = 64

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// region is a block of memory off the Go heap, so that the collector neither
// scans nor moves its budget around gigabytes of weights.
type region struct {
	b    []byte
	free func([]byte) error
}

// newRegion maps n bytes; the system hands them out zeroed, page by page, when
// they are first touched.
func newRegion(n int) (*region, error) {
	if n == 0 {
		return &region{}, nil
	}
	b, free, err := mapMemory(roundUp(n, align))
	if err != nil {
		return nil, fmt.Errorf("cpu: %d bytes of memory: %w", n, err)
	}
	return &region{b: b[:n], free: free}, nil
}

// release gives the memory back; a nil or released region is left alone.
func (r *region) release() {
	if r != nil && r.free != nil {
		_ = r.free(r.b[:cap(r.b)]) // nothing can be done about a failed munmap
		r.b, r.free = nil, nil
	}
}

// slabBytes is the size of a slab. Untouched memory of it costs nothing.
const slabBytes = 64 << 20

// slab is a region that several blocks share, so that even those of a few
// hundred kilobytes lie in large pages. It is freed with its last block.
type slab struct {
	region *region
	used   int // bytes
	blocks int
}

// slabs hands out blocks, from the first slab with room: what a large block leaves
// over is in memory anyway, up to the end of its last large page. Its user
// serialises the calls.
type slabs struct{ all []*slab }

// alloc returns n bytes on a cache-line boundary and the slab to free them by.
func (a *slabs) alloc(n int) ([]byte, *slab, error) {
	a.all = slices.DeleteFunc(a.all, func(s *slab) bool { return s.region.b == nil })
	i := slices.IndexFunc(a.all, func(s *slab) bool { return len(s.region.b)-s.used >= n })
	if i < 0 {
		r, err := newRegion(max(n, slabBytes))
		if err != nil {
			return nil, nil, err
		}
		i = len(a.all)
		a.all = append(a.all, &slab{region: r})
	}
	s := a.all[i]
	b := s.region.b[s.used:][:n:n]
	s.used += roundUp(n, align)
	s.used = min(s.used, len(s.region.b))
	s.blocks++
	return b, s, nil
}

// free gives one block back; nil is left alone.
func (s *slab) free() {
	if s == nil {
		return
	}
	if s.blocks--; s.blocks == 0 {
		s.region.release()
	}
}

// floats views bytes, which begin on a 4-byte boundary, as float32.
func floats(b []byte) []float32 { return viewAs[float32](b) }

// element are the types that views of raw memory come in.
type element interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int32 | ~int64 | ~float32 | ~float64
}

// viewAs views bytes, which begin on a boundary of T, as elements in the byte
// order of the machine.
func viewAs[T element](b []byte) []T {
	var t T
	n := len(b) / int(unsafe.Sizeof(t))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// aligned reports whether b begins on a multiple of to.
func aligned(b []byte, to int) bool {
	return len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%uintptr(to) == 0
}
