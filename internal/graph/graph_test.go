// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"errors"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func f32s(g *Graph, name string, shape ...int) *Node { return g.Input(name, tensor.F32, shape...) }

// TestRules plants one fault per operation and wants an error that names the
// operation and both sides.
func TestRules(t *testing.T) {
	half := func(g *Graph, shape ...int) *Node { return g.Input("h", tensor.F16, shape...) }
	for name, c := range map[string]struct {
		build func(g *Graph)
		kind  error
		words []string
	}{
		"matmul": {func(g *Graph) { g.Add(MatMul{}, f32s(g, "a", 2, 3), f32s(g, "b", 4, 5)) }, ErrShape, []string{"matmul", "3", "4"}},
		"matmul batch": {func(g *Graph) { g.Add(MatMul{}, f32s(g, "a", 2, 1, 3), f32s(g, "b", 3, 3, 5)) }, ErrShape,
			[]string{"[2]", "[3]"}},
		"linear": {func(g *Graph) { g.Linear(f32s(g, "x", 2, 3), f32s(g, "w", 5, 4), nil) }, ErrShape, []string{"[5,4]", "[out,3]"}},
		"linear bias": {func(g *Graph) { g.Linear(f32s(g, "x", 2, 3), f32s(g, "w", 5, 3), f32s(g, "b", 4)) }, ErrShape,
			[]string{"b is f32[4]", "[5]"}},
		"linear residual": {func(g *Graph) {
			g.Add(Linear{Residual: true}, f32s(g, "x", 2, 3), f32s(g, "w", 5, 3), f32s(g, "r", 5))
		}, ErrShape, []string{"residual", "[2,5]"}},
		"dtypes":    {func(g *Graph) { g.AddTo(f32s(g, "x", 2), half(g, 2)) }, ErrDType, []string{"f32", "f16"}},
		"broadcast": {func(g *Graph) { g.AddTo(f32s(g, "x", 2, 3), f32s(g, "y", 2)) }, ErrShape, []string{"[2,3]", "[2]"}},
		"rope grid": {func(g *Graph) { g.RoPE(f32s(g, "x", 1, 6, 16), 2, Rope{2, 4, 100}) }, ErrShape, []string{"2x4", "6"}},
		"rope head": {func(g *Graph) { g.RoPE(f32s(g, "x", 1, 6, 12), 2, Rope{2, 3, 100}) }, ErrShape, []string{"6", "multiple of 4"}},
		"attention": {func(g *Graph) {
			g.Attention(f32s(g, "q", 1, 6, 16), f32s(g, "k", 1, 7, 12), f32s(g, "v", 1, 7, 16), 2, 1)
		}, ErrShape, []string{"k is [1,7,12]", "[1,N,16]"}},
		"attention heads": {func(g *Graph) {
			g.Attention(f32s(g, "q", 1, 6, 16), f32s(g, "k", 1, 7, 16), f32s(g, "v", 1, 7, 16), 3, 1)
		}, ErrShape, []string{"3 heads"}},
		"layer_norm": {func(g *Graph) { g.LayerNorm(f32s(g, "x", 2, 8), f32s(g, "g", 8), f32s(g, "b", 7), 1e-6) }, ErrShape,
			[]string{"beta", "[8]"}},
		"conv channels": {func(g *Graph) { g.Conv2D(f32s(g, "x", 1, 4, 4, 3), f32s(g, "w", 8, 4, 3, 3), nil, 1, 1) }, ErrShape,
			[]string{"[8,4,3,3]", "[out,3,kh,kw]"}},
		"conv size": {func(g *Graph) { g.Conv2D(f32s(g, "x", 1, 2, 2, 3), f32s(g, "w", 8, 3, 5, 5), nil, 1, 1) }, ErrShape,
			[]string{"smaller than the kernel"}},
		"conv stride": {func(g *Graph) { g.Conv2D(f32s(g, "x", 1, 4, 4, 3), f32s(g, "w", 8, 3, 3, 3), nil, 0, 1) }, ErrShape, []string{"stride 0"}},
		"transposed": {func(g *Graph) {
			g.ConvTranspose2D(f32s(g, "x", 1, 4, 4, 3), f32s(g, "w", 4, 8, 2, 2), f32s(g, "b", 8), 2)
		}, ErrShape,
			[]string{"[4,8,2,2]", "[3,out,kh,kw]"}},
		"shuffle":    {func(g *Graph) { g.Add(PixelShuffle{R: 2}, f32s(g, "x", 1, 4, 4, 6)) }, ErrShape, []string{"6 channels"}},
		"reshape":    {func(g *Graph) { g.Reshape(f32s(g, "x", 2, 3), 4, 2) }, ErrShape, []string{"6", "8"}},
		"negative":   {func(g *Graph) { g.Reshape(f32s(g, "x", 2, 3), -2, -3) }, nil, []string{"negative"}},
		"overflow":   {func(g *Graph) { g.Input("x", tensor.F32, 1<<40, 1<<40) }, nil, []string{"more than"}},
		"transpose":  {func(g *Graph) { g.Transpose(f32s(g, "x", 2, 3), 0, 0) }, ErrShape, []string{"[0 0]"}},
		"slice":      {func(g *Graph) { g.SliceAxis(f32s(g, "x", 2, 3), 1, 1, 4) }, ErrShape, []string{"1:4:1 of 3"}},
		"slice axis": {func(g *Graph) { g.SliceAxis(f32s(g, "x", 2, 3), 2, 0, 1) }, ErrShape, []string{"slice"}},
		"concat":     {func(g *Graph) { g.Concat(0, f32s(g, "x", 2, 3), f32s(g, "y", 2, 4)) }, ErrShape, []string{"4", "3"}},
		"gather":     {func(g *Graph) { g.Add(Gather{}, f32s(g, "x", 2, 3), f32s(g, "i", 2)) }, ErrDType, []string{"i32"}},
		"topk":       {func(g *Graph) { g.Add(TopK{K: 9}, f32s(g, "x", 2, 3)) }, ErrShape, []string{"k = 9"}},
		"reduce":     {func(g *Graph) { g.Add(Reduce{Axes: []int{1, -1}}, f32s(g, "x", 2, 3)) }, ErrShape, []string{"twice"}},
		"param": {func(g *Graph) {
			g.Param(Param{Name: "w", Shape: tensor.Shape{3}, DType: tensor.F32, Data: make([]byte, 8)})
		}, ErrShape, []string{"8 bytes", "12"}},
		"stranger": {func(g *Graph) { New("other").Unary(Exp, f32s(g, "x", 2)); g.Unary(Exp, f32s(New("third"), "y", 2)) }, nil, []string{"operand 0"}},
	} {
		g := New("rules")
		c.build(g)
		err := g.Err()
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%s: %v is not %v", name, err, c.kind)
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", name, err, w)
			}
		}
		// What comes after an error does no harm and the first error stays.
		x := g.Linear(g.Input("x", tensor.F32, 2, 3), g.Input("w", tensor.F32, 5, 4), nil)
		g.Reshape(x, x.Shape[3], 7)
		if g.Err() != err {
			t.Errorf("%s: the error was replaced by %v", name, g.Err())
		}
		if _, got := g.Build(); got != err {
			t.Errorf("%s: Build gives %v", name, got)
		}
	}
}

func TestDump(t *testing.T) {
	g := New("demo")
	x := g.Input("x", tensor.F32, 2, 3)
	w := g.Param(Param{Name: "w", Shape: tensor.Shape{4, 3}, DType: tensor.F16, Data: make([]byte, 24)})
	g.Output("y", g.Unary(Gelu, g.Linear(x, w, nil)))
	const want = `graph demo
  %0 = input("x") : f32[2,3]
  %2 = linear(%0, w) : f32[2,4]
  %3 = gelu(%2) : f32[2,4]
  output y = %3
`
	if got := g.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if g.Param(Param{Name: "w"}) != w {
		t.Error("a parameter of the same name is another node")
	}
	g.Output("y", x)
	if _, err := g.Build(); err == nil {
		t.Error("two outputs of one name")
	}
	if _, err := New("empty").Build(); err == nil {
		t.Error("a graph without output")
	}
}

func TestCost(t *testing.T) {
	g := New("cost")
	x := f32s(g, "x", 2, 8, 16)
	y := g.Linear(x, f32s(g, "w", 32, 16), nil)
	if c := y.Cost(); c.FLOPs != 2*2*8*16*32 || c.Bytes != 4*(2*8*16+32*16+2*8*32) {
		t.Errorf("linear: %+v", c)
	}
	a := g.Attention(x, x, x, 2, 1)
	if c := a.Cost(); c.FLOPs != 2*2*2*8*8*16 {
		t.Errorf("attention: %+v", c)
	}
	m := g.Reshape(x, 2, 2, 4, 16)
	v := g.Conv2D(m, f32s(g, "k", 5, 16, 3, 3), nil, 1, 1)
	if c := v.Cost(); c.FLOPs != 2*2*2*4*5*16*9 {
		t.Errorf("conv: %+v", c)
	}
	if c := m.Cost(); c != (Cost{}) {
		t.Errorf("a reshape costs %+v", c)
	}
}

func TestLastUse(t *testing.T) {
	g := New("t")
	x := g.Input("x", tensor.F32, 2)
	a := g.Unary(Exp, x)
	b := g.AddTo(a, x)
	c := g.Unary(Neg, b)
	g.Output("b", b)
	dead := g.Unary(Abs, c)
	want := map[*Node]int{x: b.ID, a: b.ID, b: len(g.Nodes), c: dead.ID, dead: -1}
	for n, last := range want {
		if got := g.LastUse()[n.ID]; got != last {
			t.Errorf("%%%d: last use %d, want %d", n.ID, got, last)
		}
	}
}
