// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"errors"
	"fmt"
	"maps"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Graph is an MPSGraph under construction. MPSGraph has a mutex inside, but Apple
// does not say that building is thread-safe: one goroutine builds, on the owner
// thread.
type Graph struct {
	id      objc.ID
	err     error
	scalars map[scalar]*Tensor
	ops     map[string]int
}

type scalar struct {
	value float64
	dtype tensor.DType
}

// Tensor is a value of a Graph. Nothing retains it: a graph owns its tensors, and
// they live as long as it does.
type Tensor struct {
	g     *Graph
	id    objc.ID
	shape tensor.Shape
	dtype tensor.DType
}

// Shape is the shape of the value; treat it as read-only.
func (t *Tensor) Shape() tensor.Shape { return t.shape }

// DType is the element type of the value.
func (t *Tensor) DType() tensor.DType { return t.dtype }

func (t *Tensor) String() string {
	if t == nil {
		return "nil"
	}
	return t.dtype.String() + t.shape.String()
}

// Error says which operation refused which operands, or was refused.
type Error struct {
	Op  string
	In  []*Tensor
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("mpsgraph: %s%v: %v", e.Op, e.In, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// dataTypes are the MPSDataType values; types without one cannot be used. Bit 28
// says float, bit 29 signed, bit 31 an alternate encoding, the low byte how many
// bits. There is no float64.
var dataTypes = map[tensor.DType]uint32{
	tensor.F32:  0x10000020,
	tensor.F16:  0x10000010,
	tensor.BF16: 0x90000010,
	tensor.I8:   0x20000008,
	tensor.U8:   0x00000008,
	tensor.I16:  0x20000010,
	tensor.U16:  0x00000010,
	tensor.I32:  0x20000020,
	tensor.U32:  0x00000020,
	tensor.I64:  0x20000040,
	tensor.U64:  0x00000040,
	tensor.Bool: 0x80000008,
}

// maxRank is what MPSGraph's kernels take.
const maxRank = 16

// limitElements and limitBytes are above every array: Apple's header wants the
// product of the dimensions below 2^31, and macOS 15 aborts or corrupts silently
// at 2^32 bytes (PyTorch issues 143477 and 149261).
const limitElements, limitBytes = 1 << 31, 1 << 32

// Supported reports whether the running MPSGraph has the newest operation that
// this package uses. Apple advises to ask for the method and not only for the
// version, which the caller has checked. Owner thread.
func Supported() error {
	g := NewGraph()
	defer g.Release()
	if !objc.RespondsTo(g.id, attention) {
		return errors.New("mpsgraph: this MPSGraph has no scaledDotProductAttention")
	}
	forbidCommits()
	return nil
}

// NewGraph starts an empty graph.
func NewGraph() *Graph {
	return &Graph{id: objc.New(graphClass), scalars: map[scalar]*Tensor{}, ops: map[string]int{}}
}

// Release drops the graph and its tensors. It may be called again.
func (g *Graph) Release() {
	objc.Release(g.id)
	g.id = 0
}

// Err is the first error met while building.
func (g *Graph) Err() error { return g.err }

// Ops counts the values made so far by the operation that made them: what a
// run dispatches, before MPSGraph fuses any of it.
func (g *Graph) Ops() map[string]int { return maps.Clone(g.ops) }

// ready reports whether an op may look at its operands: the graph is sound and
// all operands are its own. What MPSGraph does with a tensor of another graph
// Apple does not say.
func (g *Graph) ready(op string, in ...*Tensor) bool {
	if g.err != nil {
		return false
	}
	for i, t := range in {
		if t == nil || t.g != g {
			g.fail(op, in, fmt.Errorf("operand %d is not a value of this graph", i))
			return false
		}
	}
	return true
}

// dead stands for the result after an error, so that building code need not
// check every step.
func (g *Graph) dead() *Tensor { return &Tensor{dtype: tensor.F32} }

// Fail records an error of the code that builds the graph, unless there is one
// already, and returns a value that may be passed on.
func (g *Graph) Fail(op string, err error) *Tensor { return g.fail(op, nil, err) }

func (g *Graph) fail(op string, in []*Tensor, err error) *Tensor {
	if g.err == nil {
		g.err = &Error{Op: op, In: in, Err: err}
	}
	return g.dead()
}

func (g *Graph) failf(op string, in []*Tensor, format string, args ...any) *Tensor {
	return g.fail(op, in, fmt.Errorf(format, args...))
}

// checkValue refuses shapes and types that MPSGraph cannot hold.
func checkValue(shape tensor.Shape, d tensor.DType) error {
	if _, ok := dataTypes[d]; !ok {
		return fmt.Errorf("MPSGraph has no type %v", d)
	}
	if len(shape) == 0 || len(shape) > maxRank {
		return fmt.Errorf("shape %v has %d dimensions, want 1 to %d", shape, len(shape), maxRank)
	}
	if err := shape.Check(d.Size()); err != nil {
		return err
	}
	for i, n := range shape {
		if n == 0 {
			return fmt.Errorf("shape %v is empty along dimension %d", shape, i)
		}
	}
	if n := int64(shape.Numel()); n >= limitElements || n*int64(d.Size()) >= limitBytes {
		return fmt.Errorf("%v%v has %d elements of %d bytes, MPSGraph is right below 2^31 elements and 2^32 bytes", d, shape, n, d.Size())
	}
	return nil
}

// mayMake checks the result that an op is about to have.
func (g *Graph) mayMake(op string, in []*Tensor, shape tensor.Shape, d tensor.DType) bool {
	if err := checkValue(shape, d); err != nil {
		g.fail(op, in, err)
		return false
	}
	return true
}

// done wraps the object that MPSGraph returned and compares what it says about
// itself with what was expected.
func (g *Graph) done(op string, in []*Tensor, id objc.ID, shape tensor.Shape, d tensor.DType) *Tensor {
	if id == 0 {
		return g.fail(op, in, errors.New("MPSGraph returned nil"))
	}
	if got := tensorDataType.Send(id); got != dataTypes[d] {
		return g.failf(op, in, "MPSGraph made a value of type %#x, want %#x for %v", got, dataTypes[d], d)
	}
	// The selectors are checked against Apple's tables, their meaning is not: an
	// argument that was misread shows here and not as wrong numbers much later.
	// A nil shape means that MPSGraph left it open; it settles when compiling.
	if s := tensorShape.Send(id); s != 0 {
		if got := tensor.Shape(objc.GoIntegers(s)); !got.Equal(shape) {
			return g.failf(op, in, "MPSGraph made a value of shape %v, want %v", got, shape)
		}
	}
	g.ops[op]++
	return &Tensor{g: g, id: id, shape: shape.Clone(), dtype: d}
}

// Placeholder is a value given at run time. Its shape is fixed: MPSGraph also takes
// -1, and then compiles when it runs.
func (g *Graph) Placeholder(shape tensor.Shape, d tensor.DType, name string) *Tensor {
	const op = "placeholder"
	if !g.ready(op) || !g.mayMake(op, nil, shape, d) {
		return g.dead()
	}
	return g.done(op, nil, placeholder.Send(g.id, objc.Integers(shape), dataTypes[d], label(name)), shape, d)
}

// Scalar is a constant of shape [1], which broadcasts with everything. Equal
// scalars are one value. Apple takes a double for every type; MPSGraph promotes
// nothing, so the type must be the other operand's.
func (g *Graph) Scalar(v float64, d tensor.DType) *Tensor {
	const op = "scalar"
	shape := tensor.Shape{1}
	if !g.ready(op) || !g.mayMake(op, nil, shape, d) {
		return g.dead()
	}
	key := scalar{v, d}
	if t, ok := g.scalars[key]; ok {
		return t
	}
	t := g.done(op, nil, constantScalar.Send(g.id, v, objc.Integers(shape), dataTypes[d]), shape, d)
	if v == v { // NaN never equals a key
		g.scalars[key] = t
	}
	return t
}

// Constant copies packed little-endian elements into the graph. For weights use
// placeholders.
func (g *Graph) Constant(data []byte, shape tensor.Shape, d tensor.DType) *Tensor {
	const op = "constant"
	if !g.ready(op) || !g.mayMake(op, nil, shape, d) {
		return g.dead()
	}
	// Apple's header: the length "should be" count times size. It is an assertion.
	if want := shape.Numel() * d.Size(); len(data) != want {
		return g.failf(op, nil, "%d bytes, want %d for %v%v", len(data), want, d, shape)
	}
	return g.done(op, nil, constantData.Send(g.id, objc.Data(data), objc.Integers(shape), dataTypes[d]), shape, d)
}

// Identity is a copy of x with an identity of its own: a graph result must not
// be a placeholder, nor another result.
func (g *Graph) Identity(x *Tensor) *Tensor {
	const op = "identity"
	if !g.ready(op, x) {
		return g.dead()
	}
	return g.done(op, []*Tensor{x}, identity.Send(g.id, x.id, 0), x.shape, x.dtype)
}

// label makes the optional name of an op.
func label(name string) objc.ID {
	if name == "" {
		return 0
	}
	return objc.String(name)
}
