// SPDX-License-Identifier: Apache-2.0

package graph

import "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"

// Input is a value given at run time.
type Input struct {
	Name  string
	Shape tensor.Shape
	DType tensor.DType
}

func (Input) Kind() string { return "input" }

func (o Input) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	return sourceShape(in, o.Shape, o.DType)
}

// Param is a value known when the graph is built: a weight, or a constant.
type Param struct {
	Name  string
	Shape tensor.Shape
	DType tensor.DType
	// Data are the elements, row-major, little-endian, often a view of a mapped
	// file; it must stay readable for as long as the graph is used.
	Data []byte
	// Source is where Data comes from.
	Source Source
}

func (Param) Kind() string { return "param" }

func (o Param) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	s, d, err := sourceShape(in, o.Shape, o.DType)
	if err == nil && len(o.Data) != s.Numel()*d.Size() {
		err = shapeErr("%q has %d bytes, want %d for %v%v", o.Name, len(o.Data), s.Numel()*d.Size(), d, s)
	}
	return s, d, err
}

// Source is a place in a file. The zero value is that of bytes that stand alone.
type Source struct {
	// File (absolute) and Version, another one whenever the file has changed, mean
	// the same in another process.
	File, Version string
	// Mapping is the whole file in memory, for a device that can use it in place;
	// nil when there is none. Data are its bytes from Offset on.
	Mapping []byte
	Offset  int
	// Release tells the owner that a backend holds its own copy of the bytes
	// from <= i < to of Data now and that their pages may leave memory. It may be
	// nil; Data stays readable.
	Release func(from, to int)
}

func sourceShape(in []*Node, s tensor.Shape, d tensor.DType) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 0); err != nil {
		return nil, d, err
	}
	if d.Size() == 0 {
		return nil, d, dtypeErr("%v", d)
	}
	return s, d, s.Check(d.Size())
}

func isParam(n *Node) bool { _, ok := n.Op.(Param); return ok }

var sourceOps = []Operation{
	{"input", "", "any", "A value given at run time.", func(g *Graph) *Node { return floats(g, 2, 3) }, nil},
	{"param", "", "any", "A value known when the graph is built: a weight or a constant.", func(g *Graph) *Node { return g.Scalar(1.5) }, nil},
}
