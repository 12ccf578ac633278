// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Model is a set of weights whose every tensor has been found and has the
// right shape.
type Model struct {
	Dims
	// Parameters counts the numbers that are used.
	Parameters int64
	set        *weights.Set
	// Tap, when set, is shown the intermediate values of the graphs by the names
	// of golden.md; tests make outputs of them.
	Tap func(g *graph.Graph, name string, n *graph.Node)
}

// Open reads the dimensions and checks every tensor by building each part once
// for the smallest picture. The error names all tensors that are missing or
// misshapen. The set stays the caller's to close.
func Open(s *weights.Set) (*Model, error) {
	d, err := derive(s)
	if err != nil {
		return nil, errors.Join(err, s.Report().Err())
	}
	m := &Model{Dims: d, set: s}
	sizes := map[string]int{}
	count := func(g *graph.Graph, err error) error {
		if err != nil {
			return err
		}
		for _, n := range g.Nodes {
			if p, ok := n.Op.(graph.Param); ok && p.Name != "" {
				sizes[p.Name] = n.Numel()
			}
		}
		return nil
	}
	p := d.Patch
	errs := []error{
		count(m.Encoder(1, p, p)),
		count(m.Decoder(1, Grid{1, 1}, Grid{1, 1})),
		count(m.Head(1, 1, p, p, AllOutputs)),
		count(m.Head(2, 1, p, p, AllOutputs)),
	}
	if err := s.Report().Err(); err != nil {
		return nil, fmt.Errorf("model: %s: %w", d.Variant, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("model: %s: %w", d.Variant, err)
	}
	for _, n := range sizes {
		m.Parameters += int64(n)
	}
	return m, nil
}

// Metadata are the file's free-form strings.
func (m *Model) Metadata() map[string]string { return m.set.Metadata() }

// Report tells what was in the files and not used.
func (m *Model) Report() weights.Report { return m.set.Report() }

// Grid is the size of a picture in patches.
type Grid struct{ Rows, Cols int }

// Tokens is Rows*Cols.
func (g Grid) Tokens() int { return g.Rows * g.Cols }

// GridOf is the grid of a picture of network size.
func (m *Model) GridOf(height, width int) Grid { return Grid{height / m.Patch, width / m.Patch} }

func (m *Model) checkSize(height, width int) error {
	if height < m.Patch || width < m.Patch || height%m.Patch != 0 || width%m.Patch != 0 {
		return fmt.Errorf("model: picture of %dx%d (height x width), want multiples of the patch size %d", height, width, m.Patch)
	}
	return nil
}

// builder adds named weights and blocks to one graph.
type builder struct {
	*graph.Graph
	m *Model
	// err is the first missing or misshapen weight; the set's report has all.
	// lost says that a size is not known, so the rest cannot be checked.
	err  error
	lost bool
	// view prefixes the names shown to Tap.
	view string
}

func (m *Model) builder(name string) *builder { return &builder{Graph: graph.New(name), m: m} }

// build ends the construction.
func (b *builder) build() (*graph.Graph, error) {
	g, err := b.Build()
	if b.err != nil {
		return nil, b.err
	}
	return g, err
}

func (b *builder) tap(name string, n *graph.Node) {
	if b.m.Tap != nil && b.Err() == nil {
		b.m.Tap(b.Graph, b.view+name, n)
	}
}

// weight is a named tensor of the given shape; -1 matches any size.
func (b *builder) weight(name string, shape ...int) *graph.Node {
	if b.lost || b.Err() != nil {
		return b.standIn(name, shape)
	}
	t, err := b.m.set.Need(name, shape)
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
func (b *builder) standIn(name string, shape []int) *graph.Node {
	s := tensor.Shape(shape).Clone()
	for i := range s {
		s[i] = max(s[i], 1)
	}
	return b.Input("missing "+name, tensor.F32, s...)
}

// linear is the layer name.weight [out,in], name.bias [out]; out may be -1.
func (b *builder) linear(x *graph.Node, name string, out int) *graph.Node {
	w := b.weight(name+".weight", out, x.Shape[len(x.Shape)-1])
	return b.Linear(x, w, b.weight(name+".bias", w.Shape[0]))
}

func (b *builder) norm(x *graph.Node, name string, eps float32) *graph.Node {
	d := x.Shape[len(x.Shape)-1]
	return b.LayerNorm(x, b.weight(name+".weight", d), b.weight(name+".bias", d), eps)
}

// conv is name.weight [out,in,k,k] with bias.
func (b *builder) conv(x *graph.Node, name string, out, k, stride, pad int) *graph.Node {
	w := b.weight(name+".weight", out, x.Shape[3], k, k)
	return b.Conv2D(x, w, b.weight(name+".bias", w.Shape[0]), stride, pad)
}

// mlp is fc2(gelu(fc1(x))).
func (b *builder) mlp(x *graph.Node, name string, out int) *graph.Node {
	h := b.linear(x, name+".fc1", -1)
	return b.linear(b.Unary(graph.Gelu, h), name+".fc2", out)
}

// third takes q, k or v (i = 0, 1, 2) out of a qkv projection.
func (b *builder) third(qkv *graph.Node, i int) *graph.Node {
	d := qkv.Shape[2] / 3
	return b.SliceAxis(qkv, 2, i*d, (i+1)*d)
}

// selfAttention is proj(attention(qkv(x))), with rope where the block has it.
func (b *builder) selfAttention(x *graph.Node, name string, heads int, rope *graph.Rope, at string) *graph.Node {
	d := x.Shape[2]
	qkv := b.linear(x, name+".qkv", 3*d)
	b.tap(at+"qkv", qkv)
	q, k, v := b.third(qkv, 0), b.third(qkv, 1), b.third(qkv, 2)
	if rope != nil {
		q, k = b.RoPE(q, heads, *rope), b.RoPE(k, heads, *rope)
		b.tap(at+"q_rope", q)
		b.tap(at+"k_rope", k)
	}
	y := b.linear(b.Attention(q, k, v, heads, scaleOf(d/heads)), name+".proj", d)
	b.tap(at+"attn", y)
	return y
}
