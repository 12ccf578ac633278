// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	dt "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// DType is the type of a tensor's elements.
type DType uint8

// The element types of tensors: numbers, and indices.
const (
	F32 = DType(dt.F32)
	F16 = DType(dt.F16)
	I32 = DType(dt.I32)
)

// Size is the number of bytes of one element, 0 for an unknown type.
func (d DType) Size() int { return dt.DType(d).Size() }

// String is the short name: "f32".
func (d DType) String() string { return dt.DType(d).String() }

// Float reports whether d is one of the floating-point types.
func (d DType) Float() bool { return dt.DType(d).Float() }

// MaxDims is the largest number of dimensions.
const MaxDims = 8

// Tensor is an array on the device of its Context.
type Tensor struct {
	c     *Context
	shape dt.Shape
	dtype dt.DType
	// bounds are the least and the largest of indices, once they are known.
	bounds atomic.Pointer[[2]int32]
	// mem is apart so that the cleanup of a forgotten Tensor can hold it without
	// holding the Tensor.
	mem     *memory
	cleanup runtime.Cleanup
}

type memory struct {
	buf   atomic.Pointer[backend.Buffer] // nil once it was given back
	first backend.Buffer                 // what buf points to until an operation in place
	bytes int
	books *books
}

func (m *memory) release() {
	if b := m.buf.Swap(nil); b != nil {
		m.books.live.Add(-1)
		m.books.giveBack(m.bytes, *b)
	}
}

// newTensor allocates; the caller holds the context's lock, and nobody changes shape any
// more. reads are the operands of the operation that will write the elements, nil when the
// host does.
func (c *Context) newTensor(shape dt.Shape, d dt.DType, reads []backend.Buffer) (*Tensor, error) {
	if len(shape) > MaxDims {
		return nil, refuse(ErrShape, "%v has %d dimensions, want at most %d", shape, len(shape), MaxDims)
	}
	n := shape.Numel() * d.Size()
	mem := &memory{bytes: n, books: &c.books}
	if reads != nil {
		mem.first = c.books.again(n, reads)
	}
	if mem.first == nil {
		var err error
		if mem.first, err = c.dev.Alloc(n); err != nil {
			return nil, refuse(ErrDevice, "allocate %v%v: %w", d, shape, err)
		}
	}
	mem.buf.Store(&mem.first)
	t := &Tensor{c: c, shape: shape, dtype: d, mem: mem}
	c.books.live.Add(1)
	if !c.manual {
		t.cleanup = runtime.AddCleanup(t, (*memory).release, t.mem)
	}
	return t, nil
}

// memory takes the memory of an operation's operands: the one place that asks
// whether they have some. A tensor that another goroutine releases after that is
// refused by the device.
func (c *Context) memory(op string, in []*Tensor) ([]backend.Buffer, error) {
	if err := given(op, in...); err != nil {
		return nil, err
	}
	bufs := make([]backend.Buffer, len(in))
	for i, t := range in {
		if t.c != c {
			return nil, refuse(ErrOption, "operand %d of %s is a tensor of another context", i, op)
		}
		b := t.mem.buf.Load()
		if b == nil {
			return nil, refuse(ErrReleased, "operand %d of %s", i, op)
		}
		bufs[i] = *b
	}
	return bufs, nil
}

// buffer is the memory of a tensor that nobody else has yet.
func (t *Tensor) buffer() backend.Buffer { return *t.mem.buf.Load() }

// given says which operand of an operation is nil. What looks at shapes before it runs
// asks this first, so that nil is an error and not a panic. Whether an operand was released
// is asked where its memory is taken.
func given(op string, in ...*Tensor) error {
	for i, t := range in {
		if t == nil {
			return refuse(ErrReleased, "operand %d of %s is nil", i, op)
		}
	}
	return nil
}

// wantRank is given, and the same for the number of dimensions: code that indexes
// shapes relies on it.
func wantRank(op string, rank int, in ...*Tensor) error {
	if err := given(op, in...); err != nil {
		return err
	}
	for i, t := range in {
		if len(t.shape) != rank {
			return refuse(ErrShape, "operand %d of %s is %v, want %d dimensions", i, op, t.shape, rank)
		}
	}
	return nil
}

// Shape is a copy of the dimensions, slowest first.
func (t *Tensor) Shape() []int { return t.shape.Clone() }

// Dim is dimension i; negative ones count from the end.
func (t *Tensor) Dim(i int) int {
	if i < 0 {
		i += len(t.shape)
	}
	return t.shape[i]
}

// DType is the element type.
func (t *Tensor) DType() DType { return DType(t.dtype) }

// Numel is the number of elements.
func (t *Tensor) Numel() int { return t.shape.Numel() }

// Valid reports whether t still has its memory.
func (t *Tensor) Valid() bool { return t != nil && t.mem.buf.Load() != nil }

// Release gives the memory back once the device is done with it. Calling it
// again, or for nil, does nothing.
func (t *Tensor) Release() {
	if t != nil {
		t.cleanup.Stop() // what the collector need not look for: the dearest part of a small tensor
		t.mem.release()
	}
}

// host makes a tensor whose bytes fill writes.
func (c *Context) host(d dt.DType, shape []int, fill func(dst []byte)) (*Tensor, error) {
	if err := checkType(DType(d)); err != nil {
		return nil, err
	}
	s := dt.Shape(shape)
	if err := s.Check(d.Size()); err != nil {
		return nil, refuse(ErrShape, "%w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	t, err := c.newTensor(s.Clone(), d, nil)
	if err != nil {
		return nil, err
	}
	if s.Numel() > 0 {
		b := t.buffer().Bytes()
		fill(b)
		if d == dt.I32 {
			t.bounds.Store(boundsOf(b))
		}
	}
	return t, nil
}

func boundsOf(b []byte) *[2]int32 {
	v := view[int32](b)
	return &[2]int32{slices.Min(v), slices.Max(v)}
}

// outside is the one of two bounds that is no index.
func outside(b *[2]int32) int32 {
	if b[0] < 0 {
		return b[0]
	}
	return b[1]
}

// checkIndices wants indices of an axis of n. A device would read or write
// elsewhere by a wrong one. Indices that the host has not seen are read once,
// which waits for the device.
func checkIndices(op string, idx *Tensor, n int) error {
	if idx.dtype != dt.I32 || idx.Numel() == 0 {
		return nil // the graph's rules have a word on the type
	}
	b := idx.bounds.Load()
	if b == nil {
		if err := idx.read(func(src []byte) { b = boundsOf(src) }); err != nil {
			return err
		}
		idx.bounds.Store(b)
	}
	if b[0] < 0 || int(b[1]) >= n {
		return refuse(ErrOption, "%s: index %d of an axis of %d", op, outside(b), n)
	}
	return nil
}

func checkLength(n int, shape []int) error {
	if want := dt.Shape(shape).Numel(); n != want {
		return refuse(ErrShape, "%d elements, want %d for %v", n, want, dt.Shape(shape))
	}
	return nil
}

// FromFloat32s copies numbers into a new float32 tensor.
func (c *Context) FromFloat32s(v []float32, shape ...int) (*Tensor, error) {
	if err := checkLength(len(v), shape); err != nil {
		return nil, err
	}
	return c.host(dt.F32, shape, func(dst []byte) { copy(view[float32](dst), v) })
}

// FromFloat16s copies bit patterns of IEEE 754 binary16 into a new tensor.
func (c *Context) FromFloat16s(v []uint16, shape ...int) (*Tensor, error) {
	if err := checkLength(len(v), shape); err != nil {
		return nil, err
	}
	return c.host(dt.F16, shape, func(dst []byte) { copy(view[uint16](dst), v) })
}

// FromInt32s copies indices into a new tensor.
func (c *Context) FromInt32s(v []int32, shape ...int) (*Tensor, error) {
	if err := checkLength(len(v), shape); err != nil {
		return nil, err
	}
	return c.host(dt.I32, shape, func(dst []byte) { copy(view[int32](dst), v) })
}

// Empty is a tensor with unspecified elements, for what is written whole before it is
// read, by CopyInPlace for instance: memory of the pool as it is.
func (c *Context) Empty(d DType, shape ...int) (*Tensor, error) {
	return c.host(dt.DType(d), shape, func([]byte) {})
}

// Zeros is a tensor of zeros.
func (c *Context) Zeros(d DType, shape ...int) (*Tensor, error) {
	return c.host(dt.DType(d), shape, func(dst []byte) { clear(dst) })
}

// Full is a float32 tensor of equal numbers.
func (c *Context) Full(v float32, shape ...int) (*Tensor, error) {
	return c.host(dt.F32, shape, func(dst []byte) {
		for i := range view[float32](dst) {
			view[float32](dst)[i] = v
		}
	})
}

// Number is a tensor of one number beside another, as x * 2 needs it: of that one's type, f32
// or f16, and of a shape that broadcasts to its own.
func (c *Context) Number(v float64, beside *Tensor) (*Tensor, error) {
	if err := given("number", beside); err != nil {
		return nil, err
	}
	if !beside.dtype.Float() {
		return nil, refuse(ErrDType, "%v beside a tensor of %v, want f32 or f16", v, beside.dtype)
	}
	shape := []int{1}[:min(len(beside.shape), 1)]
	return c.host(beside.dtype, shape, func(dst []byte) {
		if beside.dtype == dt.F16 {
			view[uint16](dst)[0] = dt.F16FromFloat64(v)
		} else {
			view[float32](dst)[0] = float32(v)
		}
	})
}

// view sees bytes as elements.
func view[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// read waits for the device and shows the tensor's bytes to f.
func (t *Tensor) read(f func(src []byte)) error {
	defer runtime.KeepAlive(t)
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	b := t.mem.buf.Load()
	if b == nil {
		return ErrReleased
	}
	if err := t.c.sync(); err != nil {
		return err
	}
	if t.Numel() > 0 {
		if err := (*b).Fetch(); err != nil {
			return err
		}
		f((*b).Bytes())
	}
	return nil
}

// Float32s copies the elements to the host, as float32 whatever their type.
func (t *Tensor) Float32s() ([]float32, error) {
	if err := given("float32s", t); err != nil {
		return nil, err
	}
	out := make([]float32, t.Numel())
	return out, t.CopyTo(out)
}

// CopyTo copies the elements to dst, which has exactly Numel elements.
func (t *Tensor) CopyTo(dst []float32) error {
	if err := given("copy_to", t); err != nil {
		return err
	}
	if len(dst) != t.Numel() {
		return refuse(ErrShape, "room for %d elements, want %d for %v", len(dst), t.Numel(), t.shape)
	}
	return t.read(func(src []byte) {
		switch t.dtype {
		case dt.F32:
			copy(dst, view[float32](src))
		case dt.F16:
			for i, h := range view[uint16](src) {
				dst[i] = dt.Float32FromF16(h)
			}
		case dt.I32:
			for i, v := range view[int32](src) {
				dst[i] = float32(v)
			}
		}
	})
}

// Int32s copies the elements of an index tensor to the host.
func (t *Tensor) Int32s() ([]int32, error) {
	if err := given("int32s", t); err != nil {
		return nil, err
	}
	if t.dtype != dt.I32 {
		return nil, refuse(ErrDType, "%v, want i32", t.dtype)
	}
	out := make([]int32, t.Numel())
	return out, t.read(func(src []byte) { copy(out, view[int32](src)) })
}

// CopyBytes copies the elements as they are stored, in the byte order of the
// machine, to dst, which has exactly their size.
func (t *Tensor) CopyBytes(dst []byte) error {
	if err := given("copy_bytes", t); err != nil {
		return err
	}
	if want := t.Numel() * t.dtype.Size(); len(dst) != want {
		return refuse(ErrShape, "room for %d bytes, want %d for %v%v", len(dst), want, t.dtype, t.shape)
	}
	return t.read(func(src []byte) { copy(dst, src) })
}

// checkType refuses an element type that tensors do not have.
func checkType(d DType) error {
	if d != F32 && d != F16 && d != I32 {
		return refuse(ErrDType, "%v, want f32, f16 or i32", d)
	}
	return nil
}

// FromBytes is the inverse of CopyBytes.
func (c *Context) FromBytes(d DType, src []byte, shape ...int) (*Tensor, error) {
	if err := checkType(d); err != nil {
		return nil, err
	}
	s := dt.Shape(shape)
	if err := s.Check(d.Size()); err != nil {
		return nil, refuse(ErrShape, "%w", err)
	}
	if want := s.Numel() * d.Size(); len(src) != want {
		return nil, refuse(ErrShape, "%d bytes, want %d for %v%v", len(src), want, d, s)
	}
	return c.host(dt.DType(d), shape, func(dst []byte) { copy(dst, src) })
}

// Copy is a new tensor with the same elements.
func (t *Tensor) Copy() (*Tensor, error) {
	if err := given("copy", t); err != nil {
		return nil, err
	}
	return t.c.move("copy", func(g *graph.Graph, in []*graph.Node) *graph.Node { return in[0] }, t)
}

// Cast converts the elements: floats round to nearest even, a float becomes an
// index without its fraction.
func (c *Context) Cast(x *Tensor, to DType) (*Tensor, error) {
	if to != F32 && to != F16 && to != I32 {
		return nil, refuse(ErrDType, "cast to %v, want f32, f16 or i32", to)
	}
	return c.move("cast "+to.String(), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Cast(in[0], dt.DType(to))
	}, x)
}
