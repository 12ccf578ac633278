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

func packed(v []float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
