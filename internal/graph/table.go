// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Operation is a row of the table of operations: what there is to know about one
// kind apart from its shape rule, which is the infer method of its type, and its
// meaning, which is the plain loop of that kind in package ref.
type Operation struct {
	// Kind is the name, as Op.Kind returns it.
	Kind string
	// Operands are their names in order; "?" marks one that a flag of the Op asks
	// for, "..." any number of them.
	Operands string
	// Types says which element types the operands may have: "float" (any of them,
	// all the same), "any", or what differs by operand.
	Types string
	// Doc is one sentence without the name.
	Doc string
	// Example builds the smallest interesting use on inputs of its own. The
	// conformance suite runs it on every implementation; indices are 0 or 1 there.
	Example func(g *Graph) *Node
	// Lacks names the implementations that do not have this kind. All others must:
	// the suite runs the example on each, and wants an error from those in Lacks.
	Lacks []string
}

// Implementations are the names that Lacks may hold: everything that gives
// operations a meaning.
var Implementations = []string{"ref", "cpu", "metal", "xla", "onnx"}

// Operations is the table, a row for every kind, by family as in the files op_*.go.
func Operations() []Operation {
	return slices.Concat(sourceOps, unaryOps(), binaryOps(), elementwiseOps, shapeOps, linearOps, normOps, mapOps, reduceOps())
}

// Has says whether an implementation has the operation.
func (o Operation) Has(implementation string) bool { return !slices.Contains(o.Lacks, implementation) }

// noONNX marks the operations that no network has: files are exported of networks
// only.
var noONNX = []string{"onnx"}

// floats declares the next float32 input of an example.
func floats(g *Graph, shape ...int) *Node {
	return g.Input(fmt.Sprintf("x%d", len(g.Inputs)), tensor.F32, shape...)
}

// indices declares the next input of an example that holds indices.
func indices(g *Graph, shape ...int) *Node {
	return g.Input(fmt.Sprintf("x%d", len(g.Inputs)), tensor.I32, shape...)
}

// positive declares the next input of an example and makes numbers above 0.4 of it.
func positive(g *Graph, shape ...int) *Node {
	return g.Affine(g.Unary(Square, floats(g, shape...)), 1, 0.5)
}

// Composed is an Op that can be written with others. Every implementation runs that
// form, unless it has its own (see passes.Compose); package ref always has its own.
type Composed interface {
	Op
	// Compose adds the operations to g and returns the one that takes the Op's place.
	Compose(g *Graph, in []*Node) *Node
}
