// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// lowerOptions is the precision, split into the questions lowering asks.
type lowerOptions struct{ f16, bf16 bool }

// lowering turns one graph into the steps of a program.
//
// A value gets its memory (result) when its step is made, and every step that
// reads it (operand) prolongs the life of that memory to itself. Views of a value
// share its storage, so that reading a view keeps the whole alive. Since steps
// run in the order in which they are made, a storage's life is an interval of
// steps, and placing intervals in one arena is all there is to memory planning.
type lowering struct {
	*Program
	pool    *par.Pool // for packing
	opt     lowerOptions
	g       *graph.Graph
	views   []view // of node i, valid where known[i]
	known   []bool
	readers [][]*graph.Node // of node i
	output  map[int]int     // node to the first output it is
	err     error
}

// lower fills the program: one walk over the nodes, which are in topological
// order, then the layout of the arena. The position of a step in the list is the
// time that lifetimes are measured in.
func (p *Program) lower(ctx context.Context, pool *par.Pool, g *graph.Graph, opt backend.Options) error {
	l := &lowering{Program: p, pool: pool, g: g, views: make([]view, len(g.Nodes)), known: make([]bool, len(g.Nodes)),
		readers: make([][]*graph.Node, len(g.Nodes)), output: map[int]int{}}
	if err := l.setPrecision(opt.Precision); err != nil {
		return err
	}
	for _, n := range g.Nodes {
		for _, x := range n.In {
			l.readers[x.ID] = append(l.readers[x.ID], n)
		}
	}
	for i, o := range slices.Backward(g.Outputs) {
		l.output[o.Node.ID] = i
	}
	p.inputs = g.Inputs
	p.outputs = make([]*graph.Node, len(g.Outputs))
	p.outputStorage = make([]int, len(g.Outputs))
	for i, o := range g.Outputs {
		p.outputs[i], p.outputStorage[i] = o.Node, -1
	}
	for i, n := range g.Inputs {
		l.setView(n, l.newStorage(storage{kind: fromInput, size: n.Bytes(), io: i}), false)
	}
	for _, n := range g.Nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.node(n); err != nil {
			return fmt.Errorf("%s %%%d: %w", n.Op.Kind(), n.ID, err)
		}
	}
	l.copyOutputs()
	return l.place()
}

// setPrecision turns the wish into storage types. What the processor multiplies no
// faster in bfloat16 is multiplied in float32, with weights of half the size: package
// gemm decides by the processor.
func (l *lowering) setPrecision(p backend.Precision) error {
	switch p {
	case backend.FP32:
	case backend.FP16:
		l.opt.f16 = true
	case backend.BF16:
		l.opt.bf16 = true
	default:
		return fmt.Errorf("precision %v: %w", p, ErrUnsupported)
	}
	return nil
}

// node lowers one node: nothing for sources, another view for pure shape
// operations, a step for the rest.
func (l *lowering) node(n *graph.Node) error {
	switch n.Op.(type) {
	case graph.Input, graph.Param:
		return nil // params get memory when somebody reads them
	}
	if l.known[n.ID] {
		return nil // the step that made its operand made it too
	}
	if v, ok := l.alias(n); ok {
		l.views[n.ID], l.known[n.ID] = v, true
		return nil
	}
	if n.Numel() == 0 {
		l.result(n)
		return nil
	}
	s, err := l.step(n)
	if err != nil {
		return err
	}
	l.steps = append(l.steps, planned{step: s, node: n, kind: n.Op.Kind(), cost: n.Cost()})
	return nil
}

// onlyReader is the node that reads n, if there is one alone and n is no output.
func (l *lowering) onlyReader(n *graph.Node) *graph.Node {
	if _, ok := l.output[n.ID]; ok || len(l.readers[n.ID]) != 1 {
		return nil
	}
	return l.readers[n.ID][0]
}

// alias finds the operations whose result is already in memory. They get another
// view of their operand's storage and no step.
func (l *lowering) alias(n *graph.Node) (view, bool) {
	switch o := n.Op.(type) {
	case graph.Reshape:
		return l.operand(n.In[0]).reshaped(n.Shape)
	case graph.Slice:
		return l.operand(n.In[0]).sliced(o, n.Shape)
	case graph.Broadcast:
		if n.Numel() == n.In[0].Numel() {
			return l.operand(n.In[0]).reshaped(n.Shape)
		}
	case graph.Cast:
		if o.To == n.In[0].DType {
			return l.operand(n.In[0]), true
		}
	case graph.Concat:
		if len(n.In) == 1 {
			return l.operand(n.In[0]), true
		}
	}
	return view{}, false
}

// operand is the view of a node that was lowered before; a Param is decoded to
// float32 here, at its first use as anything but a packed weight.
func (l *lowering) operand(n *graph.Node) view {
	if !l.known[n.ID] {
		p, ok := n.Op.(graph.Param)
		if !ok {
			panic(fmt.Sprintf("cpu: node %%%d is read before it is made", n.ID))
		}
		l.param(n, p)
	}
	v := l.views[n.ID]
	l.touch(v)
	return v
}

// param gives a constant memory of its own.
func (l *lowering) param(n *graph.Node, p graph.Param) {
	if err := checkValues(l.pool, p, tensor.F32); err != nil {
		l.fail(err)
	}
	data, dtype := p.Data, p.DType
	if p.DType.Float() {
		data, dtype = bytesOf(decodeF32(p.DType, p.Data)), tensor.F32
	} else if !aligned(data, max(dtype.Size(), 1)) {
		data = alignedCopy(data)
	}
	st := l.newStorage(storage{kind: fromParam, size: len(data), data: data})
	rows, c := rowsOf(n.Shape)
	l.views[n.ID] = view{st: st, rows: rows, c: c, ld: c, dtype: dtype, shape: n.Shape}
	l.known[n.ID] = true
}

// fail keeps the first error of places that cannot return one.
func (l *lowering) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// result gives a node memory for its value: the caller's buffer when the value
// is an output, else a part of the arena. A step must ask for its operands first:
// both then live at the step's time, and no result is placed over an operand.
func (l *lowering) result(n *graph.Node) view { return l.newResult(n, l.padded(n)) }

// denseResult is result without gaps between the rows.
func (l *lowering) denseResult(n *graph.Node) view { return l.newResult(n, false) }

// newResult allocates the memory of a result and notes its view.
func (l *lowering) newResult(n *graph.Node, pad bool) view {
	if i, ok := l.output[n.ID]; ok {
		l.outputStorage[i] = l.newStorage(storage{kind: toOutput, size: n.Bytes(), io: i})
		return l.setView(n, l.outputStorage[i], false)
	}
	rows, c := rowsOf(n.Shape)
	if pad {
		c += rowPad
	}
	st := l.newStorage(storage{kind: inArena, size: rows * c * n.DType.Size(), first: len(l.steps), last: len(l.steps)})
	return l.setView(n, st, pad)
}

// rowPad floats follow a row whose length is a large power of two: rows of a
// product's operand a multiple of 4 KiB apart would share the cache sets of the
// first level (kernels.md 2).
const rowPad = 16

// Rows of at least padFrom elements get a gap when their length is a multiple of
// padMultiple. Tests lower both, so that everything is padded.
var padFrom, padMultiple = 512, 256

// padded decides whether a value's rows get a gap. Any step reads and writes rows
// with gaps; only a Reshape to another last dimension would have to copy them, and
// the second factor of a product is packed from dense memory, so that a value
// somebody reads in one of those ways stays dense.
func (l *lowering) padded(n *graph.Node) bool {
	_, c := rowsOf(n.Shape)
	return n.DType == tensor.F32 && c >= padFrom && c%padMultiple == 0 && !l.readDense(n, c)
}

// readDense says that somebody reads n, or a view of it, without gaps between its
// rows of c.
func (l *lowering) readDense(n *graph.Node, c int) bool {
	for _, r := range l.readers[n.ID] {
		switch r.Op.(type) {
		case graph.Reshape:
			if _, rc := rowsOf(r.Shape); rc != c || l.readDense(r, c) {
				return true
			}
		case graph.MatMul, graph.Linear:
			if r.In[1] == n {
				return true
			}
		}
	}
	return false
}

// setView notes that a node's value fills a storage.
func (l *lowering) setView(n *graph.Node, st int, pad bool) view {
	rows, c := rowsOf(n.Shape)
	v := view{st: st, rows: rows, c: c, ld: c, dtype: n.DType, shape: n.Shape}
	if pad {
		v.ld += rowPad
	}
	l.views[n.ID], l.known[n.ID] = v, true
	return v
}

func (l *lowering) newStorage(s storage) int {
	l.storages = append(l.storages, s)
	return len(l.storages) - 1
}

// touch says that the step being lowered reads v.
func (l *lowering) touch(v view) {
	s := &l.storages[v.st]
	s.last = max(s.last, len(l.steps))
}

// needScratch asks for bytes that only the step being lowered uses.
func (l *lowering) needScratch(n int) { l.scratchSize = max(l.scratchSize, roundUp(n, align)) }

// copyOutputs adds copies for the outputs that no step writes directly: views of
// other values, inputs, constants, and one value under two names. Results never
// alias, whatever the graph looks like.
func (l *lowering) copyOutputs() {
	for i, n := range l.outputs {
		if l.outputStorage[i] >= 0 {
			continue
		}
		src := l.operand(n)
		st := l.newStorage(storage{kind: toOutput, size: n.Bytes(), io: i})
		l.outputStorage[i] = st
		rows, c := rowsOf(n.Shape)
		dst := view{st: st, rows: rows, c: c, ld: c, dtype: n.DType, shape: n.Shape}
		if n.Numel() == 0 {
			continue
		}
		s, err := l.outputCopy(dst, src, n)
		if err != nil {
			l.fail(err)
			return
		}
		l.steps = append(l.steps, planned{step: s, node: n, kind: "output"})
	}
}

// place lays the arena out: values whose lives do not overlap share memory.
func (l *lowering) place() error {
	if l.err != nil {
		return l.err
	}
	var spans []passes.Span
	var which []int
	for i, s := range l.storages {
		if s.kind == inArena {
			spans = append(spans, passes.Span{Size: s.size, First: s.first, Last: s.last})
			which = append(which, i)
		}
	}
	offsets, size, err := passes.Place(spans, align)
	if err != nil {
		return err
	}
	for j, i := range which {
		l.storages[i].offset = offsets[j]
	}
	l.arenaSize = size
	return nil
}
