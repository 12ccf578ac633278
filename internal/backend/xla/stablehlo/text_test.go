// SPDX-License-Identifier: Apache-2.0

package stablehlo

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

var update = flag.Bool("update", false, "write the golden texts")

// text is the program of a graph and its weights' descriptions.
func text(t *testing.T, g *graph.Graph, o Options) string {
	t.Helper()
	m, err := Write(g, o)
	if err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	var b strings.Builder
	b.WriteString(m.Text)
	for i, w := range m.Weights {
		what := fmt.Sprintf("table of %d", len(w.Table))
		for j, p := range w.Params {
			if j == 0 {
				what = p.Name
			} else {
				what += " + " + p.Name
			}
		}
		fmt.Fprintf(&b, "// w%d: %s as %v%v, dimensions %v\n", i, what, w.DType, w.Shape, w.Perm)
	}
	return b.String()
}

func param(g *graph.Graph, name string, shape ...int) *graph.Node {
	s := tensor.Shape(shape)
	var data []byte
	for i := range s.Numel() {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i)))
	}
	return g.Param(graph.Param{Name: name, Shape: s, DType: tensor.F32, Data: data})
}

// block is a decoder's block in small: norms, attention to itself and to the
// other view, an mlp, sums.
func block(g *graph.Graph) {
	x, y := g.Input("x", tensor.F32, 1, 6, 16), g.Input("y", tensor.F32, 1, 6, 16)
	linear := func(x *graph.Node, name string, out int) *graph.Node {
		return g.Linear(x, param(g, name+".weight", out, x.Shape[2]), param(g, name+".bias", out))
	}
	norm := func(x *graph.Node, name string) *graph.Node {
		return g.LayerNorm(x, param(g, name+".weight", 16), param(g, name+".bias", 16), 1e-6)
	}
	rope := graph.Rope{Rows: 2, Cols: 3, Base: 100}
	a := norm(x, "norm1")
	q, k, v := linear(a, "q", 16), linear(norm(y, "norm_y"), "unused", 16), linear(a, "v", 16)
	memory := norm(y, "norm2")
	k, v = linear(memory, "projk", 16), linear(memory, "projv", 16)
	x = g.AddTo(x, linear(g.Attention(g.RoPE(q, 2, rope), g.RoPE(k, 2, rope), v, 2, 0.25), "proj", 16))
	h := g.Unary(graph.Gelu, linear(norm(x, "norm3"), "fc1", 32))
	g.Output("x", g.AddTo(x, linear(h, "fc2", 16)))
}

// TestGoldenTexts compares the programs of every operation and of a block with
// the texts in testdata, which a person can read in a diff.
func TestGoldenTexts(t *testing.T) {
	var b strings.Builder
	for _, o := range graph.Operations() {
		g := graph.New(o.Kind)
		n := o.Example(g)
		g.Output("y", n)
		g, err := g.Build()
		if err != nil {
			t.Fatal(err)
		}
		if g, err = passes.Compose(g); err != nil {
			t.Fatal(err)
		}
		if !o.Has("xla") {
			if _, err := Write(g, Options{Exact: true}); !errors.Is(err, ErrUnsupported) {
				t.Errorf("%s: %v, want ErrUnsupported", o.Kind, err)
			}
			continue
		}
		b.WriteString(text(t, g, Options{Exact: true}))
	}
	g := graph.New("block")
	block(g)
	built, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	if built, err = passes.Simplify(built); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Exact: true}, {}, {Half: tensor.BF16}, {Half: tensor.F16, FusedAttention: true}} {
		fmt.Fprintf(&b, "// block, %+v\n", o)
		one := text(t, built, o)
		if one != text(t, built, o) {
			t.Errorf("%+v: two texts of one graph differ", o)
		}
		b.WriteString(one)
	}
	const name = "testdata/texts.mlir"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := b.String()
	if got == string(want) {
		return
	}
	wanted := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(wanted) || line != wanted[i] {
			t.Fatalf("%s:%d: the text is %q (go test ./internal/backend/xla/stablehlo -update writes it)", name, i+1, line)
		}
	}
	t.Fatal("the text is shorter than the golden one")
}

// TestOptions: what cannot be is refused.
func TestOptions(t *testing.T) {
	g := graph.New("g")
	g.Output("y", g.Input("x", tensor.F32, 2))
	for _, o := range []Options{{Half: tensor.I32}, {FusedAttention: true}} {
		if _, err := Write(g, o); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestResizeLimits: the text of a size is always the same; sums that float32 does not hold
// exactly, and indices beyond 32 bits, are refused.
func TestResizeLimits(t *testing.T) {
	good := ResizeSize{Height: 4, Width: 6, Rows: 20, Columns: 30, Taps: 514}
	a, err := Resize(good)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Resize(good); a != b || err != nil {
		t.Errorf("two texts of one size differ, %v", err)
	}
	for _, want := range []string{"tensor<1800xui8>", "tensor<5150xi32>", "-> tensor<72xui8>"} {
		if !strings.Contains(a, want) {
			t.Errorf("the text has no %s", want)
		}
	}
	for name, change := range map[string]func(*ResizeSize){
		"taps": func(s *ResizeSize) { s.Taps++ }, "no taps": func(s *ResizeSize) { s.Taps = 0 },
		"no rows": func(s *ResizeSize) { s.Rows = 0 }, "many": func(s *ResizeSize) { s.Rows = 1 << 26 },
	} {
		s := good
		change(&s)
		if _, err := Resize(s); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
	}
}
