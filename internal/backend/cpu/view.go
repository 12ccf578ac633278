// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// view says where the elements of a value lie: rows of c elements, ld apart,
// beginning at element off of a storage. Element types other than float32 are
// always dense (ld == c).
type view struct {
	st          int // index into Program.storages
	off         int
	rows, c, ld int
	dtype       tensor.DType
	shape       tensor.Shape
}

// dense says that the rows follow one another without gaps.
func (v view) dense() bool { return v.ld == v.c || v.rows <= 1 }

func (v view) numel() int { return v.rows * v.c }

// rowsOf splits a shape into rows of its last dimension.
func rowsOf(s tensor.Shape) (rows, c int) {
	if len(s) == 0 {
		return 1, 1
	}
	c = s[len(s)-1]
	rows = 1
	for _, d := range s[:len(s)-1] {
		rows *= d
	}
	return rows, c
}

// strides are the element strides of each dimension.
func (v view) strides() []int {
	s := make([]int, len(v.shape))
	step := v.ld
	for i := len(s) - 1; i >= 0; i-- {
		if i == len(s)-1 {
			s[i] = 1
			continue
		}
		s[i] = step
		step *= v.shape[i]
	}
	return s
}

// storageKind says who owns a storage, and so where its bytes are during a run.
type storageKind uint8

const (
	inArena   storageKind = iota // at an offset of the backend's arena
	fromInput                    // the caller's input buffer, never written
	toOutput                     // the caller's output buffer
	fromParam                    // memory of the program: a decoded constant
)

// storage is memory for one or more views. An arena storage lives from the step
// that writes it to the last step that reads any view of it.
type storage struct {
	kind        storageKind
	size        int // bytes
	io          int // position among the inputs or outputs
	offset      int // in the arena
	first, last int // steps between which an arena storage is alive
	data        []byte
}

// reshaped is v with another shape, if the rows allow it without a copy: always
// when the last dimension stays, else when the rows have no gaps.
func (v view) reshaped(s tensor.Shape) (view, bool) {
	rows, c := rowsOf(s)
	if c == v.c {
		v.rows, v.shape = rows, s
		return v, true
	}
	if !v.dense() {
		return v, false
	}
	v.rows, v.c, v.ld, v.shape = rows, c, c, s
	return v, true
}

// reshaped and sliced decide what costs nothing. The networks live on it: the
// third of a projection that is q, a map that was tokens, one picture of a batch,
// one channel of a map are all rows at a constant stride.

// sliced is v cut by o, if what remains is rows at one stride: a cut of the last
// axis alone, or of the first axis that is not of size 1.
func (v view) sliced(o graph.Slice, s tensor.Shape) (view, bool) {
	last := len(v.shape) - 1
	cut, cuts := -1, 0
	for i := range v.shape {
		if o.Step[i] != 1 && s[i] > 1 {
			return v, false
		}
		if s[i] != v.shape[i] {
			cut = i
			cuts++
		}
	}
	r := v
	r.rows, r.c = rowsOf(s)
	r.shape = s
	switch {
	case cuts == 0:
		return r, true
	case cuts > 1 || v.dtype != tensor.F32 && cut == last:
		return v, false
	case cut == last:
		r.off += o.Begin[cut]
		return r, true
	}
	for i := range cut {
		if v.shape[i] != 1 {
			return v, false
		}
	}
	r.off += o.Begin[cut] * v.strides()[cut]
	return r, true
}

// bytesEnd is the first byte after the last element.
func (v view) bytesEnd() int {
	if v.numel() == 0 {
		return v.off * v.dtype.Size()
	}
	return (v.off + (v.rows-1)*v.ld + v.c) * v.dtype.Size()
}

// f32 returns the memory of a float32 view from its first element on.
func (e *exec) f32(v view) []float32 {
	return floats(e.raw(v))
}

// raw returns the bytes of a view from its first element to its last.
func (e *exec) raw(v view) []byte {
	return e.p.storages[v.st].data[v.off*v.dtype.Size() : v.bytesEnd()]
}

// row returns row r of a float32 view's memory.
// A pointer: steps call it for every pixel, and a copy of the view costs more than the rest.
func (v *view) row(x []float32, r int) []float32 { return x[r*v.ld : r*v.ld+v.c] }
