// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/ref"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

func param(g *graph.Graph, name string, shape ...int) *graph.Node {
	s := tensor.Shape(shape)
	r := rand.New(rand.NewPCG(1, uint64(len(name))))
	var data []byte
	for range s.Numel() {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(r.NormFloat64())))
	}
	return g.Param(graph.Param{Name: name, Shape: s, DType: tensor.F32, Data: data})
}

func built(t *testing.T, g *graph.Graph) *graph.Graph {
	t.Helper()
	g, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func simplified(t *testing.T, g *graph.Graph) *graph.Graph {
	t.Helper()
	g, err := Simplify(built(t, g))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestFuse reads like the list in Fuse's comment: the dump after is the proof
// that each pattern has become one operation.
func TestFuse(t *testing.T) {
	for name, c := range map[string]struct {
		build func(g *graph.Graph)
		want  string
	}{
		"block": {func(g *graph.Graph) {
			x := g.Input("x", tensor.F32, 1, 4, 8)
			h := g.Unary(graph.Gelu, g.Linear(x, param(g, "w1", 16, 8), param(g, "b1", 16)))
			y := g.Binary(graph.Mul, g.Linear(h, param(g, "w2", 8, 16), param(g, "b2", 8)), param(g, "ls", 8))
			g.Output("y", g.AddTo(x, y))
		}, `graph t
  %0 = input("x") : f32[1,4,8]
  %3 = linear(%0, w1, b1) Bias=true Act=gelu : f32[1,4,16]
  %7 = linear(%3, w2, b2, ls, %0) Bias=true Gamma=true Residual=true : f32[1,4,8]
  output y = %7
`},
		"residual unit": {func(g *graph.Graph) {
			x := g.Input("x", tensor.F32, 1, 4, 4, 3)
			y := g.Conv2D(g.Unary(graph.Relu, x), param(g, "w1", 3, 3, 3, 3), param(g, "b1", 3), 1, 1)
			y = g.Conv2D(g.Unary(graph.Relu, y), param(g, "w2", 3, 3, 3, 3), param(g, "b2", 3), 1, 1)
			g.Output("y", g.AddTo(x, y))
		}, `graph t
  %0 = input("x") : f32[1,4,4,3]
  %3 = conv2d(%0, w1, b1) Stride=1 Pad=1 Dilation=1 Groups=1 Bias=true PreRelu=true Act=relu : f32[1,4,4,3]
  %6 = conv2d(%3, w2, b2, %0) Stride=1 Pad=1 Dilation=1 Groups=1 Bias=true Residual=true : f32[1,4,4,3]
  output y = %6
`},
		"rope": {func(g *graph.Graph) {
			q, k := g.Input("q", tensor.F32, 1, 6, 8), g.Input("k", tensor.F32, 1, 4, 8)
			g.Output("y", g.Attention(g.RoPE(q, 2, graph.Rope{Rows: 2, Cols: 3, Base: 100}), g.RoPE(k, 2, graph.Rope{Rows: 1, Cols: 4, Base: 100}), k, 2, 0.5))
		}, `graph t
  %0 = input("q") : f32[1,6,8]
  %1 = input("k") : f32[1,4,8]
  %2 = attention(%0, %1, %1) Heads=2 Scale=0.5 QRope={2 3 100} KRope={1 4 100} : f32[1,6,8]
  output y = %2
`},
		"read twice": {func(g *graph.Graph) {
			x := g.Input("x", tensor.F32, 1, 4, 8)
			h := g.Linear(x, param(g, "w", 8, 8), nil)
			g.Output("h", h)
			g.Output("y", g.Unary(graph.Gelu, h))
		}, `graph t
  %0 = input("x") : f32[1,4,8]
  %2 = linear(%0, w) : f32[1,4,8]
  %3 = gelu(%2) : f32[1,4,8]
  output h = %2
  output y = %3
`},
	} {
		g := graph.New("t")
		c.build(g)
		if got := simplified(t, g).String(); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestFoldAndPrune(t *testing.T) {
	g := graph.New("t")
	x := g.Input("x", tensor.F32, 2, 3)
	unused := g.Input("unused", tensor.F32, 9)
	table := g.Transpose(param(g, "p", 3, 2), 1, 0)
	g.Unary(graph.Exp, unused) // nobody reads this
	g.Output("y", g.AddTo(x, g.Affine(table, 2, 1)))
	before := built(t, g)
	after := simplified(t, before)
	if len(after.Inputs) != 2 || len(after.Nodes) != 4 {
		t.Errorf("after folding: %d inputs, %d nodes\n%v", len(after.Inputs), len(after.Nodes), after)
	}
	in := []ref.Tensor{ref.New(2, 3), ref.New(9)}
	a, err1 := ref.Run(before, in)
	b, err2 := ref.Run(after, in)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for i, v := range a[0].Data {
		if math.Abs(v-b[0].Data[i]) > 1e-6 {
			t.Errorf("element %d: %v, want %v", i, b[0].Data[i], v)
		}
	}
}

// TestPlace draws spans and checks every pair that lives at the same time.
func TestPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		spans := make([]Span, r.IntN(40))
		peak, steps := 0, 50
		live := make([]int, steps)
		for i := range spans {
			first := r.IntN(steps)
			spans[i] = Span{Size: r.IntN(1000), First: first, Last: first + r.IntN(steps-first)}
			for s := first; s <= spans[i].Last; s++ {
				live[s] += (spans[i].Size + 63) / 64 * 64
				peak = max(peak, live[s])
			}
		}
		at, size, err := Place(spans, 64)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range spans {
			if at[i]%64 != 0 || at[i]+a.Size > size {
				t.Fatalf("span %d at %d of %d bytes", i, at[i], size)
			}
			for j, b := range spans[:i] {
				if a.First <= b.Last && b.First <= a.Last && at[i] < at[j]+b.Size && at[j] < at[i]+a.Size {
					t.Fatalf("spans %+v at %d and %+v at %d overlap", a, at[i], b, at[j])
				}
			}
		}
		if peak > 0 && size > 2*peak {
			t.Errorf("%d bytes for a peak of %d", size, peak)
		}
	}
	if _, _, err := Place([]Span{{Size: 1, First: 2, Last: 1}}, 64); err == nil {
		t.Error("a span that ends before it starts")
	}
	if _, _, err := Place(nil, 0); err == nil {
		t.Error("alignment 0")
	}
}
