// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/ref"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// ArgOfNaN holds the index of an extreme to what NumPy and PyTorch say of NaN:
// the first one in a row is its extreme. The index is used at once, so that one
// outside the row shows.
func ArgOfNaN(t *testing.T, run Runner) {
	nan := float32(math.NaN())
	rows := []float32{1, nan, 3, nan, nan, 5, 1, 2, 4, 9, 9, 0, nan, nan, nan, nan}
	for least, want := range map[bool][]float64{false: {1, 0, 1, 0}, true: {1, 0, 3, 0}} {
		g := graph.New("arg")
		x := g.Input("x", tensor.F32, 4, 4)
		at := g.Add(graph.ArgReduce{Axis: 1, Min: least}, x)
		g.Output("at", at)
		g.Output("taken", g.Add(graph.Gather{Axis: 0}, g.Input("y", tensor.F32, 4), at))
		if _, err := g.Build(); err != nil {
			t.Fatal(err)
		}
		out, err := run(g, [][]byte{packed(rows), packed([]float32{0, 1, 2, 3})})
		if err != nil {
			t.Errorf("least %v: %v", least, err)
			continue
		}
		for i, d := range []tensor.DType{tensor.I32, tensor.F32} {
			got, err := ref.Decode(d, tensor.Shape{4}, out[i])
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Data, want) {
				t.Errorf("least %v: %s is %v, want %v", least, g.Outputs[i].Name, got.Data, want)
			}
		}
	}
}

// MaximaOfNaN holds what chooses among values to one order: NaN is above all numbers,
// the first one first.
func MaximaOfNaN(t *testing.T, run Runner) {
	nan := float32(math.NaN())
	one := func(op graph.Op, shape tensor.Shape, in ...[]float32) []float64 {
		g := graph.New("nan")
		nodes := []*graph.Node{g.Input("x", tensor.F32, shape...)}
		bytes := [][]byte{packed(in[0])}
		if len(in) > 1 {
			nodes = append(nodes, g.Input("y", tensor.F32, 1, 1, 1, 1))
			bytes = append(bytes, packed(in[1]))
		}
		n := g.Add(op, nodes...)
		g.Output("out", n)
		if _, err := g.Build(); err != nil {
			t.Fatal(err)
		}
		out, err := run(g, bytes)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ref.Decode(n.DType, n.Shape, out[0])
		if err != nil {
			t.Fatal(err)
		}
		return got.Data
	}
	same := func(a, b float64) bool { return a == b || a != a && b != b }
	for _, c := range []struct {
		row    []float32
		values []float64
		at     []float64
	}{
		{[]float32{3, nan, 1, 5}, []float64{math.NaN(), 5, 3}, []float64{1, 3, 0}},
		{[]float32{5, 3, nan, 1}, []float64{math.NaN(), 5, 3}, []float64{2, 0, 1}},
		{[]float32{nan, 3, nan, 1}, []float64{math.NaN(), math.NaN(), 3}, []float64{0, 2, 1}},
		{[]float32{nan, nan, nan, nan}, []float64{math.NaN(), math.NaN(), math.NaN()}, []float64{0, 1, 2}},
		{[]float32{1, 1, 2, 2}, []float64{2, 2, 1}, []float64{2, 3, 0}},
	} {
		if got := one(graph.TopK{K: 3}, tensor.Shape{1, 4}, c.row); !slices.EqualFunc(got, c.values, same) {
			t.Errorf("the largest of %v are %v, want %v", c.row, got, c.values)
		}
		if got := one(graph.TopK{K: 3, Index: true}, tensor.Shape{1, 4}, c.row); !slices.Equal(got, c.at) {
			t.Errorf("the largest of %v are at %v, want %v", c.row, got, c.at)
		}
		window := tensor.Shape{1, 2, 2, 1}
		if got := one(graph.Pool2D{Kernel: square(2), Stride: square(2)}, window, c.row); !same(got[0], c.values[0]) {
			t.Errorf("the pooled maximum of %v is %v, want %v", c.row, got, c.values[0])
		}
		if got := one(graph.PoolIndex{Kernel: square(2), Stride: square(2)}, window, c.row); got[0] != c.at[0] {
			t.Errorf("the pooled maximum of %v is at %v, want %v", c.row, got, c.at[0])
		}
		want := make([]float64, 4)
		want[int(c.at[0])] = 7
		if got := one(graph.PoolGrad{Kernel: square(2), Stride: square(2)}, window, c.row, []float32{7}); !slices.Equal(got, want) {
			t.Errorf("the gradient of the pooled maximum of %v is %v, want %v", c.row, got, want)
		}
	}
}

func packed(v []float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
