// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// Array is a value on the host.
type Array struct {
	Data  []float32
	Shape []int
}

func (a Array) check() error {
	want := 1
	for _, d := range a.Shape {
		want *= d
	}
	if len(a.Data) != want {
		return refuse(tensor.ErrShape, "%d elements, want %d for %v", len(a.Data), want, a.Shape)
	}
	return nil
}

func refuse(kind error, format string, args ...any) error {
	return &tensor.Error{Kind: kind, Detail: fmt.Errorf(format, args...)}
}

// Op is an operation of a Graph.
type Op struct {
	Kind OpKind
	// Eps is LayerNorm's, Scale Attention's.
	Eps, Scale float32
}

// OpKind names an operation.
type OpKind string

// The operations. Operands in order:
//
//	MatMul              a, b
//	Add                 a, b
//	Gelu, GeluTanh      x (by erf; by the approximation with tanh)
//	Softmax             x (along the last dimension)
//	LayerNorm           x, gamma, beta
//	Attention           q, k, v [B,H,N,d]
//	FusedLinearAdd      x, w, r: x w + r
//	FusedLinearGelu     x, w: gelu(x w)
//	FusedLinearAddGelu  x, w, r: gelu(x w + r)
//
// The fused ones multiply as MatMul does, w [in,out]; Optimize makes them.
const (
	OpMatMul             OpKind = "MatMul"
	OpAdd                OpKind = "Add"
	OpGelu               OpKind = "Gelu"
	OpGeluTanh           OpKind = "GeluTanh"
	OpLayerNorm          OpKind = "LayerNorm"
	OpSoftmax            OpKind = "Softmax"
	OpAttention          OpKind = "Attention"
	OpFusedLinearAdd     OpKind = "FusedLinearAdd"
	OpFusedLinearGelu    OpKind = "FusedLinearGelu"
	OpFusedLinearAddGelu OpKind = "FusedLinearAddGelu"
)

var operandCount = map[OpKind]int{
	OpMatMul: 2, OpAdd: 2, OpGelu: 1, OpGeluTanh: 1, OpLayerNorm: 3, OpSoftmax: 1, OpAttention: 3,
	OpFusedLinearAdd: 3, OpFusedLinearGelu: 2, OpFusedLinearAddGelu: 3,
}

// Graph is a list of named operations. An operand that names no node is an
// input.
type Graph struct {
	nodes   map[string]graphNode
	order   []string // as added
	outputs []string
}

type graphNode struct {
	op Op
	in []string
}

// NewGraph starts an empty graph.
func NewGraph() *Graph { return &Graph{nodes: map[string]graphNode{}} }

// AddNode adds an operation. Its operands may be added later.
func (g *Graph) AddNode(name string, op Op, operands ...string) error {
	want, ok := operandCount[op.Kind]
	switch {
	case !ok:
		return refuse(tensor.ErrOption, "node %q: operation %q", name, op.Kind)
	case len(operands) != want:
		return refuse(tensor.ErrOption, "node %q: %s with %d operands, want %d", name, op.Kind, len(operands), want)
	case name == "":
		return refuse(tensor.ErrOption, "a node without a name")
	}
	if _, ok := g.nodes[name]; ok {
		return refuse(tensor.ErrOption, "two nodes are called %q", name)
	}
	g.nodes[name] = graphNode{op, slices.Clone(operands)}
	g.order = append(g.order, name)
	return nil
}

// SetOutput names a node whose value Execute returns; it may be called for
// several.
func (g *Graph) SetOutput(name string) error {
	if _, ok := g.nodes[name]; !ok {
		return refuse(tensor.ErrOption, "output %q is no node", name)
	}
	if !slices.Contains(g.outputs, name) {
		g.outputs = append(g.outputs, name)
	}
	return nil
}

// sorted lists the nodes that the outputs need, operands first. A cycle is an
// error that names one of its nodes.
func (g *Graph) sorted() ([]string, error) {
	if len(g.outputs) == 0 {
		return nil, refuse(tensor.ErrOption, "the graph has no output")
	}
	const visiting, done = 1, 2
	state := map[string]int{}
	var list []string
	var visit func(name string) error
	visit = func(name string) error {
		n, ok := g.nodes[name]
		if !ok || state[name] == done {
			return nil
		}
		if state[name] == visiting {
			return refuse(tensor.ErrOption, "node %q depends on itself", name)
		}
		state[name] = visiting
		for _, x := range n.in {
			if err := visit(x); err != nil {
				return err
			}
		}
		state[name] = done
		list = append(list, name)
		return nil
	}
	for _, o := range g.outputs {
		if err := visit(o); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Optimize returns a graph in which a MatMul that only an Add reads is one
// operation with it, likewise a Gelu after either.
func (g *Graph) Optimize() (*Graph, error) {
	list, err := g.sorted()
	if err != nil {
		return nil, err
	}
	uses := map[string]int{}
	for _, name := range list {
		for _, x := range g.nodes[name].in {
			uses[x]++
		}
	}
	for _, o := range g.outputs {
		uses[o] += 2 // an output's value is needed as it is
	}
	out := NewGraph()
	dropped := map[string]bool{}
	for _, name := range list {
		out.nodes[name] = fuse(out, g.nodes[name], uses, dropped)
	}
	for _, name := range list {
		if dropped[name] {
			delete(out.nodes, name)
			continue
		}
		out.order = append(out.order, name)
	}
	out.outputs = slices.Clone(g.outputs)
	return out, nil
}

// fuse is n, joined with the node before it where one may be.
func fuse(g *Graph, n graphNode, uses map[string]int, dropped map[string]bool) graphNode {
	switch n.op.Kind {
	case OpAdd:
		for i, x := range n.in {
			if p := g.nodes[x]; p.op.Kind == OpMatMul && uses[x] == 1 {
				dropped[x] = true
				return graphNode{Op{Kind: OpFusedLinearAdd}, []string{p.in[0], p.in[1], n.in[1-i]}}
			}
		}
	case OpGelu:
		p := g.nodes[n.in[0]]
		to := map[OpKind]OpKind{OpMatMul: OpFusedLinearGelu, OpFusedLinearAdd: OpFusedLinearAddGelu}[p.op.Kind]
		if to != "" && uses[n.in[0]] == 1 {
			dropped[n.in[0]] = true
			return graphNode{Op{Kind: to}, p.in}
		}
	}
	return n
}
