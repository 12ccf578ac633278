// SPDX-License-Identifier: Apache-2.0

package mpsgraph

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Level0 disables the placement pass, which moves 16-bit work to the neural
// engine or the CPU: slower, wrong in some convolutions, seconds of compiling.
// Level1 is MPSGraph's default.
const level0 = 0

// MPSGraphOptions: nothing to synchronise in unified memory.
const optionsNone = 0

// Value is the shape and type of a feed or a result.
type Value struct {
	Shape tensor.Shape
	DType tensor.DType
}

// Bytes is the packed size.
func (v Value) Bytes() int { return v.Shape.Numel() * v.DType.Size() }

func (v Value) String() string { return v.DType.String() + v.Shape.String() }

// Executable is a compiled graph. Encode runs it.
type Executable struct {
	id             objc.ID
	execution      objc.ID // MPSGraphExecutableExecutionDescriptor
	feeds, results []Value
	// feedAt[i] is the caller's index of the i-th feed in MPSGraph's own order,
	// which is not the order of creation; likewise resultAt.
	feedAt, resultAt []int
}

// Compile specialises the graph for the shapes of its feeds. feeds are all its
// placeholders, results what Encode computes; both orders are the ones that
// Encode expects. A result must be a value of its own (see Identity).
func (g *Graph) Compile(dev *device.Device, feeds, results []*Tensor) (*Executable, error) {
	if g.err != nil {
		return nil, g.err
	}
	if len(results) == 0 || !g.ready("compile", feeds...) || !g.ready("compile", results...) {
		return nil, errors.Join(g.err, errors.New("mpsgraph: compile wants results and values of its own graph"))
	}
	for i, r := range results {
		if slices.ContainsFunc(results[:i], func(o *Tensor) bool { return o.id == r.id }) ||
			slices.ContainsFunc(feeds, func(f *Tensor) bool { return f.id == r.id }) {
			return nil, fmt.Errorf("mpsgraph: result %d (%v) is also a feed or another result", i, r)
		}
	}
	// Fixed shapes for every feed: what MPSGraph does not know it would specialise
	// for at the first run, in the middle of a command buffer.
	var own objc.Owner
	defer own.Release()
	keys, types := make([]objc.ID, len(feeds)), make([]objc.ID, len(feeds))
	for i, f := range feeds {
		keys[i] = f.id
		types[i] = own.Own(shapedType(f))
	}
	desc := own.Own(objc.New(compilationDesc))
	setOptimizationLevel.Send(desc, level0)
	setWaitForCompilation.Send(desc, true) // or the first run pays, and fails
	gpu := graphDevice.Send(graphDeviceClass.ID, dev.ID())
	id := compile.Send(g.id, gpu, objc.Dictionary(keys, types), objc.Array(idsOf(results)), 0, desc)
	if id == 0 {
		return nil, errors.New("mpsgraph: compiling failed")
	}
	setOptions.Send(id, optionsNone)
	e := &Executable{id: objc.Retain(id), execution: newExecution(), feeds: valuesOf(feeds), results: valuesOf(results)}
	if err := e.order(feeds, results); err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

// shapedType describes a feed to the compiler (+1).
func shapedType(f *Tensor) objc.ID {
	return initShapedType.Send(objc.Alloc(shapedTypeClass), objc.Integers(f.shape), dataTypes[f.dtype])
}

// disableCommits is read by MPSGraph when it makes its first executable; it then
// prints a line to standard output.
const disableCommits = "MPSGRAPH_DISABLE_CC"

// newExecution makes the descriptor of a run (+1). Without one, or with a fresh
// one, MPSGraph commits the command buffer now and then in the middle of an
// encoding; the statuses of such parts cannot be asked. The property that turns
// it off is not in Apple's headers, but in every class dump since macOS 12.1, and
// Metal's own encoder of networks and PyTorch set it. A system without it has the
// environment variable instead.
func newExecution() objc.ID {
	d := objc.New(executionDesc)
	if objc.RespondsTo(d, setCommitAndContinue) {
		setCommitAndContinue.Send(d, false)
	}
	return d
}

// forbidCommits sets the environment variable where the property is missing.
func forbidCommits() {
	d := objc.New(executionDesc)
	defer objc.Release(d)
	if !objc.RespondsTo(d, setCommitAndContinue) && os.Getenv(disableCommits) == "" {
		_ = os.Setenv(disableCommits, "1") // reaches the C environment, with cgo and without
	}
}

// order asks MPSGraph for its order of feeds and results. A placeholder that no
// result depends on may be missing there and is then not fed.
func (e *Executable) order(feeds, results []*Tensor) error {
	var err error
	if e.feedAt, err = positions("feed", objc.GoArray(feedTensors.Send(e.id)), idsOf(feeds)); err != nil {
		return err
	}
	if e.resultAt, err = positions("result", objc.GoArray(targetTensors.Send(e.id)), idsOf(results)); err != nil {
		return err
	}
	if len(e.resultAt) != len(results) {
		return fmt.Errorf("mpsgraph: MPSGraph has %d results, want %d", len(e.resultAt), len(results))
	}
	return nil
}

func positions(what string, theirs, ours []objc.ID) ([]int, error) {
	at := make([]int, len(theirs))
	for i, id := range theirs {
		if at[i] = slices.Index(ours, id); at[i] < 0 {
			return nil, fmt.Errorf("mpsgraph: %s %d of the executable is not one of the graph's", what, i)
		}
	}
	return at, nil
}

func idsOf(ts []*Tensor) []objc.ID {
	ids := make([]objc.ID, len(ts))
	for i, t := range ts {
		ids[i] = t.id
	}
	return ids
}

func valuesOf(ts []*Tensor) []Value {
	vs := make([]Value, len(ts))
	for i, t := range ts {
		vs[i] = Value{t.shape, t.dtype}
	}
	return vs
}

// Feeds and Results describe what Encode takes, in its order.
func (e *Executable) Feeds() []Value { return e.feeds }

// Results describe the results.
func (e *Executable) Results() []Value { return e.results }

// Encode appends one run to cb. feeds and results are in the orders of Compile;
// results are written into the caller's buffers, since those that MPSGraph
// allocates may have padded rows.
func (e *Executable) Encode(cb *device.CommandBuffer, feeds, results []*Data) error {
	if e.id == 0 {
		return errors.New("mpsgraph: the executable was released")
	}
	in, err := pick("feed", e.feeds, e.feedAt, feeds)
	if err != nil {
		return err
	}
	out, err := pick("result", e.results, e.resultAt, results)
	if err != nil {
		return err
	}
	ok := encode.Send(e.id, cb.ID(), objc.Array(in), objc.Array(out), e.execution) != 0
	if !cb.NoteRoot() { // also after a failure: what was committed runs
		return device.ErrHiddenCommits
	}
	if !ok {
		return errors.New("mpsgraph: encoding failed")
	}
	return nil
}

// pick checks all data and lists the objects in MPSGraph's order.
func pick(what string, want []Value, order []int, data []*Data) ([]objc.ID, error) {
	if len(data) != len(want) {
		return nil, fmt.Errorf("mpsgraph: %d %ss, want %d", len(data), what, len(want))
	}
	for i, d := range data {
		if d == nil || d.id == 0 || d.value.DType != want[i].DType || !d.value.Shape.Equal(want[i].Shape) {
			return nil, fmt.Errorf("mpsgraph: %s %d is %v, want %v", what, i, d, want[i])
		}
	}
	ids := make([]objc.ID, len(order))
	for i, at := range order {
		ids[i] = data[at].id
	}
	return ids, nil
}

// Release drops the executable. Work that is encoded keeps what it needs only
// until it is done: release after completion. It may be called again.
func (e *Executable) Release() {
	objc.Release(e.id)
	objc.Release(e.execution)
	e.id, e.execution = 0, 0
}
