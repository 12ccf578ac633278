// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// lowering translates one graph.
//
// A value of the graph is carried by an MPSGraph tensor whose type may differ
// from the graph's: in half precision a float32 value may be carried as float16
// between two products. An operation asks for its operands in the type that it
// computes with; casts are made once per value and type.
type lowering struct {
	b    *Backend
	src  *graph.Graph
	out  *mpsgraph.Graph
	half bool // Precision is FP16
	bf16 bool // Precision is BF16: float32 with rounded factors

	values []*mpsgraph.Tensor // by node, nil for weights and what is skipped
	casts  map[castKey]*mpsgraph.Tensor
	params map[paramKey]*mpsgraph.Tensor
	ropes  map[ropeKey][2]*mpsgraph.Tensor
	// moments are mean and variance of what layer norms read: the decoders norm
	// each stream twice a block, with their own weights and the other's.
	moments map[*mpsgraph.Tensor][2]*mpsgraph.Tensor
	isOut   []bool
	tail    []bool // no product between the value and an output
	packed  []bool // by attention: q, k and v come out of one transpose
	skip    []bool // the thirds that those attentions do without

	// feeds are the placeholders, data what is fed to them, nil for inputs.
	feeds   []*mpsgraph.Tensor
	data    []*mpsgraph.Data
	weights []*weight
}

type castKey struct {
	t  *mpsgraph.Tensor
	to tensor.DType
}

type paramKey struct {
	node int
	form form
}

func newLowering(b *Backend, g *graph.Graph, opt backend.Options) *lowering {
	l := &lowering{
		b: b, src: g, out: mpsgraph.NewGraph(), half: opt.Precision == backend.FP16, bf16: opt.Precision == backend.BF16,
		values: make([]*mpsgraph.Tensor, len(g.Nodes)),
		casts:  map[castKey]*mpsgraph.Tensor{}, params: map[paramKey]*mpsgraph.Tensor{},
		ropes: map[ropeKey][2]*mpsgraph.Tensor{}, moments: map[*mpsgraph.Tensor][2]*mpsgraph.Tensor{},
		isOut: make([]bool, len(g.Nodes)), tail: make([]bool, len(g.Nodes)),
		packed: make([]bool, len(g.Nodes)), skip: make([]bool, len(g.Nodes)),
	}
	for _, o := range g.Outputs {
		l.isOut[o.Node.ID], l.tail[o.Node.ID] = true, true
	}
	// Backwards through everything that is not a product: values that reach a result
	// without being rounded again.
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if n := g.Nodes[i]; l.tail[i] && !isProduct(n) {
			for _, x := range n.In {
				l.tail[x.ID] = true
			}
		}
	}
	l.findPacked()
	return l
}

func isProduct(n *graph.Node) bool {
	switch n.Op.(type) {
	case graph.Linear, graph.MatMul, graph.Attention, graph.Conv2D, graph.ConvTranspose2D:
		return true
	}
	return false
}

// run translates all nodes and returns the results. Inputs must come
// first: Program.encode relies on it. A weight becomes a feed at its first use.
func (l *lowering) run(ctx context.Context) ([]*mpsgraph.Tensor, error) {
	for _, n := range l.src.Inputs {
		t := l.out.Placeholder(shapeOf(n.Shape), n.DType, "")
		l.values[n.ID] = t
		l.feeds, l.data = append(l.feeds, t), append(l.data, nil)
	}
	for _, n := range l.src.Nodes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := l.node(n); err != nil {
			return nil, fmt.Errorf("%%%d %s: %w", n.ID, n.Op.Kind(), err)
		}
	}
	return l.results(), l.out.Err()
}

// results are the outputs in their declared types, each a value of its own.
func (l *lowering) results() []*mpsgraph.Tensor {
	results := make([]*mpsgraph.Tensor, len(l.src.Outputs))
	for i, o := range l.src.Outputs {
		results[i] = l.value(o.Node, o.Node.DType) // may add a feed
	}
	// MPSGraph returns neither a feed nor one value twice: two results would share
	// a buffer.
	taken := map[*mpsgraph.Tensor]bool{}
	for _, f := range l.feeds {
		taken[f] = true
	}
	for i, t := range results {
		if taken[t] {
			results[i] = l.out.Identity(t)
		}
		taken[results[i]] = true
	}
	return results
}

// node translates one node.
func (l *lowering) node(n *graph.Node) error {
	switch n.Op.(type) {
	case graph.Input, graph.Param:
		return nil // inputs are there, params are made where they are read
	}
	if l.skip[n.ID] {
		return nil
	}
	// The MPSGraph keeps its first error and then makes dead values: translations
	// need not look after every step, and the node that is at fault is named here.
	t, err := l.op(n)
	if err == nil {
		err = l.out.Err()
	}
	if err != nil {
		return err
	}
	// Reductions and normal forms keep axes that our graph drops; the elements are
	// the same.
	if want := shapeOf(n.Shape); !t.Shape().Equal(want) {
		t = l.out.Reshape(t, want...)
	}
	if !l.mayCarry(n, t.DType()) {
		t = l.out.Cast(t, n.DType)
	}
	l.values[n.ID] = t
	return l.out.Err()
}

// mayCarry says whether a value of n may stay in type d: its own, or in half
// precision float16 for float32. The graph is the same in every precision and
// says float32 for all that is computed; which of it needs that is decided here.
func (l *lowering) mayCarry(n *graph.Node, d tensor.DType) bool {
	return d == n.DType || l.half && n.DType == tensor.F32 && d == tensor.F16
}

// op dispatches to the translations.
func (l *lowering) op(n *graph.Node) (*mpsgraph.Tensor, error) {
	switch o := n.Op.(type) {
	case graph.Unary:
		return l.unary(n, o)
	case graph.Binary:
		return l.binary(n, o)
	case graph.Affine:
		return l.affine(n, o), nil
	case graph.Cast:
		return l.in(n, 0, o.To), nil
	case graph.MatMul:
		return l.matMul(n, o), nil
	case graph.Linear:
		return l.linear(n, o), nil
	case graph.RoPE:
		return l.ropeOp(n, o)
	case graph.Attention:
		return l.attention(n, o)
	case graph.LayerNorm:
		return l.layerNorm(n, o), nil
	case graph.RMSNorm:
		return l.rmsNorm(n, o), nil
	case graph.Softmax:
		// Sums of many small numbers: Apple's are said to be in half precision.
		return l.out.Softmax(l.in(n, 0, tensor.F32), o.Axis), nil
	case graph.L2Normalize:
		return l.l2Normalize(n), nil
	case graph.ExpPoints:
		return l.expPoints(n), nil
	}
	if t, ok := l.reductions(n); ok {
		return t, nil
	}
	if t, ok := l.move(n); ok {
		return t, nil
	}
	if t, ok := l.train(n); ok {
		return t, nil
	}
	return l.featureMap(n)
}

// carried is the type as it is.
const carried = tensor.Invalid

// in is operand i of n in type d.
func (l *lowering) in(n *graph.Node, i int, d tensor.DType) *mpsgraph.Tensor {
	return l.value(n.In[i], d)
}

// value is a node's value in type d. A weight is made by its reader, which alone
// knows the type.
func (l *lowering) value(n *graph.Node, d tensor.DType) *mpsgraph.Tensor {
	if p, ok := n.Op.(graph.Param); ok {
		return l.param(n, p, d)
	}
	return l.cast(l.values[n.ID], d)
}

// cast is t in type d, one node for all that ask: a normalised value feeds three
// products, a residual stream a norm and a sum.
func (l *lowering) cast(t *mpsgraph.Tensor, d tensor.DType) *mpsgraph.Tensor {
	if d == carried || t.DType() == d {
		return t
	}
	key := castKey{t, d}
	c, ok := l.casts[key]
	if !ok {
		c = l.out.Cast(t, d)
		l.casts[key] = c
	}
	return c
}

// param is a Param in type d. What the file has in another type is converted
// once, tensor by tensor, when it is loaded: no run casts a weight. A cast of a
// vector would be a kernel that costs as much as its start, one of a matrix moves
// the matrix in every run, and MPSGraph may hold all of them at once beside the file.
func (l *lowering) param(n *graph.Node, p graph.Param, d tensor.DType) *mpsgraph.Tensor {
	return l.weight(n, p, form{dtype: d})
}

func (l *lowering) weight(n *graph.Node, p graph.Param, f form) *mpsgraph.Tensor {
	if f.dtype == carried {
		if f.dtype = p.DType; f.dtype == tensor.F64 || f.dtype == tensor.BF16 {
			f.dtype = tensor.F32
		}
	}
	// With the type its reader wants: nothing to cast, and equal ones are one node.
	if v, ok := scalarOf(p); ok && f.dtype.Float() && !f.rounded {
		return l.out.Scalar(v, f.dtype)
	}
	d := f.dtype
	if !d.Float() || !p.DType.Float() { // not a weight of a network
		f.dtype = p.DType
	}
	f.rounded = f.rounded && p.DType != tensor.BF16
	key := paramKey{n.ID, f}
	t, ok := l.params[key]
	if !ok {
		// The file's matrices stay in place when products read its type.
		w, err := l.b.weights.take(p, f, p.DType == l.product() && !l.bf16)
		if err != nil {
			return l.out.Fail("param", err)
		}
		t = l.feed(w, shapeOf(p.Shape), f.dtype)
		l.params[key] = t
	}
	return l.cast(t, d)
}

// feed makes the placeholder of a weight. A constant would be copied into the
// graph, and again into a package on disk; a placeholder reads the mapped file.
func (l *lowering) feed(w *weight, shape tensor.Shape, d tensor.DType) *mpsgraph.Tensor {
	l.weights = append(l.weights, w)
	t := l.out.Placeholder(shape, d, "")
	l.feeds, l.data = append(l.feeds, t), append(l.data, w.data)
	return t
}

// scalarOf is the number of a float32 constant with one element and at most one
// dimension: a constant of the graph costs less than a feed.
func scalarOf(p graph.Param) (float64, bool) {
	if p.DType != tensor.F32 || len(p.Shape) > 1 || len(p.Data) != 4 {
		return 0, false
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(p.Data))), true
}

// factor is operand i of n as a factor of a product in type d. With BF16 it is
// rounded to bfloat16 and multiplied in float32, which is what a product of
// bfloat16 with float32 sums is; MPSGraph's own would round the result too.
func (l *lowering) factor(n *graph.Node, i int, d tensor.DType) *mpsgraph.Tensor {
	if !l.bf16 {
		return l.in(n, i, d)
	}
	if p, ok := n.In[i].Op.(graph.Param); ok { // rounded when it is loaded
		return l.weight(n.In[i], p, form{dtype: d, rounded: true})
	}
	return l.rounded(l.in(n, i, carried), d)
}

// rounded is a factor that is no operand, but made from one.
func (l *lowering) rounded(t *mpsgraph.Tensor, d tensor.DType) *mpsgraph.Tensor {
	if l.bf16 {
		t = l.cast(t, tensor.BF16)
	}
	return l.cast(t, d)
}

// product is the type that products compute in. Half precision is no faster in
// arithmetic on these GPUs (256 operations a core and clock in either type) but
// halves what moves; the published port of this network gained 1.13 by it.
func (l *lowering) product() tensor.DType {
	if l.half {
		return tensor.F16
	}
	return tensor.F32
}

// shapeOf is a graph's shape for MPSGraph, whose values have at least one
// dimension.
func shapeOf(s tensor.Shape) tensor.Shape {
	if len(s) == 0 {
		return tensor.Shape{1}
	}
	return s
}
