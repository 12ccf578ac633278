// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// operators are the names of the operators of a graph of one operation, in order.
func operators(t *testing.T, make func(g *graph.Graph) *graph.Node) (names []string) {
	t.Helper()
	g := graph.New("one")
	g.Output("y", make(g))
	g, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := Export(t.Context(), g, path, Options{}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range all(decode(t, b), 7) { // ModelProto.graph
		for _, node := range all(decode(t, body.bytes), 1) { // GraphProto.node
			for _, kind := range all(decode(t, node.bytes), 4) { // NodeProto.op_type
				names = append(names, string(kind.bytes))
			}
		}
	}
	return names
}

// TestOperators: an attribute that changes what is computed changes the operators.
func TestOperators(t *testing.T) {
	input := func(g *graph.Graph, shape ...int) *graph.Node { return g.Input("x", tensor.F32, shape...) }
	for _, c := range []struct {
		name string
		make func(g *graph.Graph) *graph.Node
		want []string
	}{
		{"a scale below 1", func(g *graph.Graph) *graph.Node { return g.Affine(input(g, 2, 3), 0.5, 1) }, []string{"Mul", "Add"}},
		{"a scale above 1", func(g *graph.Graph) *graph.Node { return g.Affine(input(g, 2, 3), 2, 1) }, []string{"Mul", "Add"}},
		{"a negative scale", func(g *graph.Graph) *graph.Node { return g.Affine(input(g, 2, 3), -1, 1) }, []string{"Mul", "Add"}},
		{"no scale", func(g *graph.Graph) *graph.Node { return g.Affine(input(g, 2, 3), 1, 1) }, []string{"Add"}},
		{"a product", func(g *graph.Graph) *graph.Node {
			return g.Add(graph.MatMul{}, input(g, 1, 2, 3), g.Input("z", tensor.F32, 1, 3, 4))
		}, []string{"MatMul"}},
		{"a product with the second factor transposed", func(g *graph.Graph) *graph.Node {
			return g.Add(graph.MatMul{TransB: true}, input(g, 1, 2, 3), g.Input("z", tensor.F32, 1, 4, 3))
		}, []string{"Transpose", "MatMul"}},
		{"the largest of a window", func(g *graph.Graph) *graph.Node {
			return g.Add(graph.Pool2D{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}, input(g, 1, 4, 4, 3))
		}, []string{"MaxPool"}},
		{"the mean of a window", func(g *graph.Graph) *graph.Node {
			return g.Add(graph.Pool2D{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Average: true}, input(g, 1, 4, 4, 3))
		}, []string{"AveragePool"}},
		{"the place of the largest", func(g *graph.Graph) *graph.Node {
			return g.Add(graph.ArgReduce{Axis: 1}, input(g, 2, 3))
		}, []string{"ArgMax"}},
		{"the place of the smallest", func(g *graph.Graph) *graph.Node {
			return g.Add(graph.ArgReduce{Axis: 1, Min: true}, input(g, 2, 3))
		}, []string{"ArgMin"}},
	} {
		// What the layout of the maps, and the type of the result, ask for beside it.
		got := slices.DeleteFunc(operators(t, c.make), func(name string) bool {
			return name == "Cast" || name == "Identity" || name == "Transpose" && !slices.Contains(c.want, name)
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
