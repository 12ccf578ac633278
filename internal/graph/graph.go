// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Node is one value: the result of Op applied to In.
type Node struct {
	// ID is the position in Graph.Nodes; inputs have smaller ones.
	ID int
	// Op says how the value is made; its concrete type is one of those in op_*.go.
	Op Op
	// In are the operands, in the order the Op documents.
	In []*Node
	// Shape and DType describe the value.
	Shape tensor.Shape
	DType tensor.DType
}

// Numel is the number of elements of the value.
func (n *Node) Numel() int { return n.Shape.Numel() }

// Bytes is the size of the value, packed.
func (n *Node) Bytes() int { return n.Shape.Numel() * n.DType.Size() }

// String is the short form used in error texts: f32[2,3].
func (n *Node) String() string {
	if n == nil {
		return "nil"
	}
	return n.DType.String() + n.Shape.String()
}

// Op is an operation with its parameters. The set is closed: every Op is
// declared in this package, and a backend that meets one it does not know
// returns an error.
type Op interface {
	// Kind is the operation's name in dumps and error texts.
	Kind() string
	// infer checks the operands and gives the result's shape and type.
	infer(in []*Node) (tensor.Shape, tensor.DType, error)
}

// Output is a named result of a graph.
type Output struct {
	Name string
	Node *Node
}

// Graph is a directed acyclic graph in topological order.
type Graph struct {
	// Name says what the graph computes, for dumps and profiles: "encoder".
	Name string
	// Nodes are all values; every node's operands come before it.
	Nodes []*Node
	// Inputs are the Input nodes in the order they were declared, which is the
	// order in which a backend expects its buffers.
	Inputs []*Node
	// Outputs are the results, likewise ordered.
	Outputs []Output

	params map[string]*Node
	err    error
}

// New starts an empty graph.
func New(name string) *Graph {
	return &Graph{Name: name, params: map[string]*Node{}}
}

// harmless is the shape of a node returned after an error: every dimension that
// building code may look at is there, and none is zero.
var harmless = tensor.Shape{1, 1, 1, 1, 1, 1, 1, 1}

// Add appends op applied to in and returns the new value. After an error it
// returns a harmless node, so that building code need not check every step.
func (g *Graph) Add(op Op, in ...*Node) *Node {
	n := &Node{Op: op, In: in, DType: tensor.F32, Shape: harmless}
	if g.err != nil {
		return n
	}
	for i, x := range in {
		if x == nil || x.ID >= len(g.Nodes) || g.Nodes[x.ID] != x {
			return g.fail(n, fmt.Errorf("operand %d is not a value of graph %q", i, g.Name))
		}
	}
	shape, dtype, err := op.infer(in)
	if err == nil {
		err = shape.Check(dtype.Size())
	}
	if err != nil {
		return g.fail(n, err)
	}
	n.ID, n.Shape, n.DType = len(g.Nodes), shape, dtype
	g.Nodes = append(g.Nodes, n)
	if _, ok := op.(Input); ok {
		g.Inputs = append(g.Inputs, n)
	}
	return n
}

func (g *Graph) fail(n *Node, err error) *Node {
	args := make([]string, len(n.In))
	for i, x := range n.In {
		args[i] = x.String()
	}
	g.err = &Error{Graph: g.Name, Op: n.Op.Kind(), Args: strings.Join(args, ", "), Err: err}
	return n
}

// Output names n as a result. Outputs keep the order of the calls.
func (g *Graph) Output(name string, n *Node) {
	if g.err != nil {
		return
	}
	for _, o := range g.Outputs {
		if o.Name == name {
			g.err = fmt.Errorf("graph %q: two outputs are called %q", g.Name, name)
			return
		}
	}
	g.Outputs = append(g.Outputs, Output{Name: name, Node: n})
}

// Err is the first error met while building.
func (g *Graph) Err() error { return g.err }

// Build ends the construction: it returns the graph, or the first error.
func (g *Graph) Build() (*Graph, error) {
	if g.err == nil && len(g.Outputs) == 0 {
		g.err = fmt.Errorf("graph %q has no output", g.Name)
	}
	if g.err != nil {
		return nil, g.err
	}
	return g, nil
}

// LastUse gives for each node the ID of the last node that reads it; len(Nodes)
// for outputs, which live to the end, and -1 for values that nobody reads.
func (g *Graph) LastUse() []int {
	last := make([]int, len(g.Nodes))
	for i := range last {
		last[i] = -1
	}
	for _, n := range g.Nodes {
		for _, x := range n.In {
			last[x.ID] = n.ID
		}
	}
	for _, o := range g.Outputs {
		last[o.Node.ID] = len(g.Nodes)
	}
	return last
}

// Error says which operation refused which operands.
type Error struct {
	Graph, Op string
	// Args are the operands as f32[2,3], comma-separated.
	Args string
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("graph %q: %s(%s): %v", e.Graph, e.Op, e.Args, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ErrShape is in the chain of every error about a shape that does not fit.
var ErrShape = errors.New("shape mismatch")

// ErrDType is in the chain of every error about an element type.
var ErrDType = errors.New("dtype mismatch")

func shapeErr(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrShape, fmt.Sprintf(format, args...))
}

func dtypeErr(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDType, fmt.Sprintf(format, args...))
}
