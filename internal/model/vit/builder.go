// SPDX-License-Identifier: Apache-2.0

package vit

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Tap is shown the intermediate values of a graph by the names of golden.md;
// tests make outputs of them.
type Tap func(g *graph.Graph, name string, n *graph.Node)

// Builder adds named weights and blocks to one graph.
type Builder struct {
	*graph.Graph
	// View prefixes the names shown to the tap.
	View string

	set *weights.Set
	tap Tap
	// err is the first missing or misshapen weight; the set's report has all.
	// lost says that a size is not known, so the rest cannot be checked.
	err  error
	lost bool
}

// NewBuilder starts a graph whose weights come from set; tap may be nil.
func NewBuilder(name string, set *weights.Set, tap Tap) *Builder {
	return &Builder{Graph: graph.New(name), set: set, tap: tap}
}

// Build ends the construction.
func (b *Builder) Build() (*graph.Graph, error) {
	g, err := b.Graph.Build()
	if b.err != nil {
		return nil, b.err
	}
	return g, err
}

// Tap shows n to the tap.
func (b *Builder) Tap(name string, n *graph.Node) {
	if b.tap != nil && b.Err() == nil {
		b.tap(b.Graph, b.View+name, n)
	}
}

// Weight is a named tensor of the given shape; -1 matches any size.
func (b *Builder) Weight(name string, shape ...int) *graph.Node {
	if b.lost || b.Err() != nil {
		return b.standIn(name, shape)
	}
	t, err := b.set.Need(name, shape)
	if err != nil {
		if b.err == nil {
			b.err = err
		}
		// With a size unknown, what comes after would be reported with wrong sizes.
		b.lost = slices.Contains(shape, -1)
		return b.standIn(name, shape)
	}
	p := graph.Param{Name: name, Shape: t.Shape, DType: t.DType, Data: t.Data}
	if f, at, ok := t.Offset(); ok {
		file, version := f.Identity()
		p.Source = graph.Source{File: file, Version: version, Mapping: f.Bytes(), Offset: at}
	}
	p.Source.Release = func(from, to int) { _ = t.ReleasePart(from, to) } // advice to the system: nothing is lost when it fails
	return b.Param(p)
}

// standIn has the shape of a weight that is missing, so that the construction
// goes on and the report gets the other missing names too. A graph with one is
// never returned.
func (b *Builder) standIn(name string, shape []int) *graph.Node {
	s := tensor.Shape(shape).Clone()
	for i := range s {
		s[i] = max(s[i], 1)
	}
	return b.Input("missing "+name, tensor.F32, s...)
}

// Matrix is a convolution kernel seen as the matrix [out, in*kh*kw], which is
// the same bytes.
func (b *Builder) Matrix(name string, shape ...int) *graph.Node {
	w := b.Weight(name, shape...)
	p, ok := w.Op.(graph.Param)
	flat := tensor.Shape{shape[0], tensor.Shape(shape[1:]).Numel()}
	if !ok { // a stand-in for a missing weight
		return b.Reshape(w, flat...)
	}
	p.Name, p.Shape = name+" (matrix)", flat
	return b.Param(p)
}

// Constant is a float32 constant.
func (b *Builder) Constant(v []float32, shape ...int) *graph.Node {
	data := make([]byte, 0, 4*len(v))
	for _, f := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
	}
	return b.Add(graph.Param{Shape: shape, DType: tensor.F32, Data: data})
}

// LinearLayer is name.weight [out,in], name.bias [out]; out may be -1.
func (b *Builder) LinearLayer(x *graph.Node, name string, out int) *graph.Node {
	w := b.Weight(name+".weight", out, x.Shape[len(x.Shape)-1])
	return b.Linear(x, w, b.Weight(name+".bias", w.Shape[0]))
}

// NormLayer is layer norm with name.weight and name.bias.
func (b *Builder) NormLayer(x *graph.Node, name string, eps float32) *graph.Node {
	d := x.Shape[len(x.Shape)-1]
	return b.LayerNorm(x, b.Weight(name+".weight", d), b.Weight(name+".bias", d), eps)
}

// ConvLayer is name.weight [out,in,k,k] with name.bias; out may be -1.
func (b *Builder) ConvLayer(x *graph.Node, name string, out, k, stride, pad int) *graph.Node {
	w := b.Weight(name+".weight", out, x.Shape[3], k, k)
	return b.Conv2D(x, w, b.Weight(name+".bias", w.Shape[0]), stride, pad)
}
