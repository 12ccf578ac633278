// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// ErrUnsupported is in the chain of the error about an operation or a type that
// has no form.
var ErrUnsupported = errors.New("stablehlo: not supported")

// Options steer Write.
type Options struct {
	// Half is the type of the factors of products, BF16 or F16; the zero value
	// leaves everything in float32.
	Half tensor.DType
	// Exact asks for products of float32 with all their digits. Without it their
	// factors are rounded to TF32, which has ten bits, to the nearest: a device's
	// matrix units would cut the rest off, for twice the error and all of it downwards.
	Exact bool
	// FusedAttention writes attention without a mask as the custom call that XLA
	// hands to cuDNN. It needs half precision.
	FusedAttention bool
}

// Weight is an argument of the function that stays the same from run to run.
type Weight struct {
	// Params are joined along their first dimension. Without any, Table are the
	// elements: float32, computed.
	Params []graph.Param
	Table  []float32
	// Perm is applied to the dimensions after joining; nil keeps them.
	Perm []int
	// Shape and DType are what the program reads.
	Shape tensor.Shape
	DType tensor.DType
	// Round asks for TF32's ten bits of the elements.
	Round bool
}

// Module is a program in text and what it must be given: the graph's inputs in
// their order, then Weights. All inputs and results are flat.
type Module struct {
	Text    string
	Weights []Weight
}

// Write translates g.
func Write(g *graph.Graph, o Options) (*Module, error) {
	if o.Half != tensor.Invalid && o.Half != tensor.F16 && o.Half != tensor.BF16 {
		return nil, fmt.Errorf("%w: products of %v", ErrUnsupported, o.Half)
	}
	if o.FusedAttention && o.Half == tensor.Invalid {
		return nil, fmt.Errorf("%w: fused attention in float32", ErrUnsupported)
	}
	l := newLowering(g, o)
	for _, n := range g.Nodes {
		if err := l.node(n); err != nil {
			return nil, fmt.Errorf("stablehlo: graph %q: %%%d %s: %w", g.Name, n.ID, n.Op.Kind(), err)
		}
	}
	return l.module(), nil
}

// lowering translates one graph.
type lowering struct {
	writer
	g      *graph.Graph
	opt    Options
	values []value // by node; empty for weights, which their readers make
	// final are the values that no product reads, directly or not: they are not
	// rounded any more.
	final []bool
	// merged are linears with one input, by the first of them.
	merged map[int][]*graph.Node
	done   []bool

	inputs  []string // of the function
	weights []Weight
	args    map[string]value // weights by what they are
	casts   map[string]value
	ropes   map[string][2]value // tables of cosines and sines
}

func newLowering(g *graph.Graph, o Options) *lowering {
	l := &lowering{
		writer: writer{consts: map[string]value{}}, g: g, opt: o,
		values: make([]value, len(g.Nodes)), final: make([]bool, len(g.Nodes)), done: make([]bool, len(g.Nodes)),
		merged: map[int][]*graph.Node{}, args: map[string]value{}, casts: map[string]value{}, ropes: map[string][2]value{},
	}
	read := make([]bool, len(g.Nodes)) // by a product
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		l.final[i] = !read[i]
		for _, x := range n.In {
			read[x.ID] = read[x.ID] || read[i] || isProduct(n)
		}
	}
	l.findMerged()
	return l
}

func isProduct(n *graph.Node) bool {
	switch n.Op.(type) {
	case graph.Linear, graph.MatMul, graph.Attention, graph.Conv2D, graph.ConvTranspose2D:
		return true
	}
	return false
}

// findMerged groups plain linears that read the same value: keys and values of
// an attention to the other view are one product with the weights joined.
func (l *lowering) findMerged() {
	first := map[int]int{}
	for _, n := range l.g.Nodes {
		o, ok := n.Op.(graph.Linear)
		if !ok || !o.Bias || o.Gamma || o.Residual || o.Act != graph.ActNone || !isParam(n.In[1]) || !isParam(n.In[2]) ||
			len(n.In[1].Shape) != 2 || l.final[n.ID] {
			continue
		}
		x := n.In[0].ID
		if _, ok := first[x]; !ok {
			first[x] = n.ID
		}
		l.merged[first[x]] = append(l.merged[first[x]], n)
	}
	for id, list := range l.merged {
		if len(list) < 2 {
			delete(l.merged, id)
		}
	}
}

func isParam(n *graph.Node) bool { _, ok := n.Op.(graph.Param); return ok }

// node translates one node.
func (l *lowering) node(n *graph.Node) error {
	if l.done[n.ID] {
		return nil
	}
	switch n.Op.(type) {
	case graph.Param:
		return nil // made where they are read
	case graph.Input:
		name := fmt.Sprintf("%%x%d", len(l.inputs))
		flat := value{name: name, shape: tensor.Shape{n.Numel()}, dtype: n.DType}
		if _, ok := typeNames[n.DType]; !ok || n.DType == pred {
			return fmt.Errorf("%w: input of type %v", ErrUnsupported, n.DType)
		}
		l.inputs = append(l.inputs, fmt.Sprintf("%s: %s", name, flat.typ()))
		l.values[n.ID] = l.reshape(flat, n.Shape)
		return nil
	}
	if list, ok := l.merged[n.ID]; ok {
		return l.linears(list)
	}
	v, err := l.op(n)
	if err != nil {
		return err
	}
	return l.set(n, v)
}

// set stores what a node has become, in a type that it may have.
func (l *lowering) set(n *graph.Node, v value) error {
	if !v.shape.Equal(n.Shape) {
		return fmt.Errorf("internal error: translated to %v, want %v", v.shape, n.Shape)
	}
	if v.dtype != n.DType && !(n.DType == tensor.F32 && v.dtype == l.opt.Half) {
		v = l.convert(v, n.DType)
	}
	l.values[n.ID] = v
	l.done[n.ID] = true
	return nil
}

// half is the type that factors of products have.
func (l *lowering) half() tensor.DType {
	if l.opt.Half == tensor.Invalid {
		return tensor.F32
	}
	return l.opt.Half
}

// result is the type of what n computes: half precision where a product reads
// it next, float32 where it is on its way out.
func (l *lowering) result(n *graph.Node) tensor.DType {
	if n.DType != tensor.F32 || l.final[n.ID] {
		return n.DType
	}
	return l.half()
}

// in is operand i of n as it is carried.
func (l *lowering) in(n *graph.Node, i int) value {
	x := n.In[i]
	if p, ok := x.Op.(graph.Param); ok {
		d := p.DType
		if d.Float() {
			d = tensor.F32
		}
		return l.param(p, d, nil)
	}
	return l.values[x.ID]
}

// as is operand i of n in type d.
func (l *lowering) as(n *graph.Node, i int, d tensor.DType) value {
	if p, ok := n.In[i].Op.(graph.Param); ok {
		return l.param(p, d, nil)
	}
	return l.cast(l.values[n.In[i].ID], d)
}

// f32 is operand i of n in float32, integers as they are.
func (l *lowering) f32(n *graph.Node, i int) value {
	if !n.In[i].DType.Float() {
		return l.in(n, i)
	}
	if n.In[i].DType == tensor.F64 && !isParam(n.In[i]) {
		return l.in(n, i)
	}
	return l.as(n, i, tensor.F32)
}

// tf32 says whether the factors of products are rounded to TF32.
func (l *lowering) tf32() bool { return l.opt.Half == tensor.Invalid && !l.opt.Exact }

// exactMaps says whether convolutions keep all digits of float32. They do in TF32 too:
// they are what the heads are made of, and the points of a pair add up the errors of all
// of them (2.0e-3 with ten bits, 1.4e-3 with all, of the large network).
func (l *lowering) exactMaps() bool { return l.opt.Half == tensor.Invalid }

// mapFactor is factor for a convolution.
func (l *lowering) mapFactor(n *graph.Node, i int, perm ...int) value {
	if !l.tf32() {
		return l.factor(n, i, perm...)
	}
	if p, ok := n.In[i].Op.(graph.Param); ok {
		return l.param(p, tensor.F32, perm)
	}
	v := l.as(n, i, tensor.F32)
	if perm == nil {
		return v
	}
	return l.transpose(v, perm...)
}

// factor is operand i of n as a product takes it, its dimensions permuted (nil
// keeps them): a weight is arranged when it is uploaded, anything else in the
// program.
func (l *lowering) factor(n *graph.Node, i int, perm ...int) value {
	if p, ok := n.In[i].Op.(graph.Param); ok {
		if _, one := single(p); !one {
			return l.weight(Weight{Params: []graph.Param{p}, Perm: perm, DType: l.half(), Round: l.tf32()})
		}
	}
	v := l.rounded(l.as(n, i, l.half()))
	if perm == nil {
		return v
	}
	return l.transpose(v, perm...)
}

// rounded is a factor with the digits that the precision leaves it.
func (l *lowering) rounded(v value) value {
	if !l.tf32() || v.dtype != tensor.F32 {
		return v
	}
	key := v.name + "tf32"
	r, ok := l.casts[key]
	if !ok {
		r = l.emit(v, v.typ(), "stablehlo.reduce_precision %s, format = e8m10", v.name)
		l.casts[key] = r
	}
	return r
}

// cast is v in type d, one operation for all that ask.
func (l *lowering) cast(v value, d tensor.DType) value {
	if v.dtype == d {
		return v
	}
	key := v.name + typeNames[d]
	c, ok := l.casts[key]
	if !ok {
		c = l.convert(v, d)
		l.casts[key] = c
	}
	return c
}

// param is an argument for a weight in type d, its dimensions in the order of
// perm. A single number is a constant.
func (l *lowering) param(p graph.Param, d tensor.DType, perm []int) value {
	if v, ok := single(p); ok {
		return l.splat(v, d, p.Shape)
	}
	return l.weight(Weight{Params: []graph.Param{p}, Perm: perm, DType: d})
}

// weight declares an argument, once for each weight, type and arrangement.
func (l *lowering) weight(w Weight) value {
	if w.Shape == nil {
		s := w.Params[0].Shape.Clone()
		for _, p := range w.Params[1:] {
			s[0] += p.Shape[0]
		}
		w.Shape = s
		if w.Perm != nil {
			w.Shape = make(tensor.Shape, len(s))
			for i, p := range w.Perm {
				w.Shape[i] = s[p]
			}
		}
	}
	key := w.key()
	if v, ok := l.args[key]; ok {
		return v
	}
	v := value{name: fmt.Sprintf("%%w%d", len(l.weights)), shape: w.Shape, dtype: w.DType}
	l.args[key] = v
	l.weights = append(l.weights, w)
	return v
}

// key tells a weight from the others of a program.
func (w Weight) key() string {
	var b strings.Builder
	for _, p := range w.Params {
		fmt.Fprintf(&b, "%p:%d:%v ", dataOf(p), len(p.Data), p.Shape)
	}
	for _, v := range w.Table {
		b.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
	}
	fmt.Fprintf(&b, "%v %v %v %v", w.Perm, w.Shape, w.DType, w.Round)
	return b.String()
}

func dataOf(p graph.Param) *byte {
	if len(p.Data) == 0 {
		return nil
	}
	return &p.Data[0]
}

// module puts the function around the body.
func (l *lowering) module() *Module {
	var results, types []string
	for _, o := range l.g.Outputs {
		v := l.reshape(l.cast(l.output(o.Node), o.Node.DType), tensor.Shape{o.Node.Numel()})
		results, types = append(results, v.name), append(types, v.typ())
	}
	params := l.inputs
	for i, w := range l.weights {
		params = append(params, fmt.Sprintf("%%w%d: %s", i, typeOf(w.DType, w.Shape)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module @%s {\n  func.func public @main(%s) -> (%s) {\n", symbol(l.g.Name), strings.Join(params, ", "), strings.Join(types, ", "))
	b.WriteString(l.body.String())
	fmt.Fprintf(&b, "    return %s : %s\n  }\n}\n", strings.Join(results, ", "), strings.Join(types, ", "))
	return &Module{Text: b.String(), Weights: l.weights}
}

// output is the value of a result; it may be a weight.
func (l *lowering) output(n *graph.Node) value {
	if p, ok := n.Op.(graph.Param); ok {
		d := p.DType
		return l.param(p, d, nil)
	}
	return l.values[n.ID]
}

// symbol makes a name that MLIR takes without quotes.
func symbol(s string) string {
	out := []byte("g_" + s)
	for i, c := range out {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
			out[i] = '_'
		}
	}
	return string(out)
}
