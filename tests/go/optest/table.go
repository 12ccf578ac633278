// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Table runs the example of every row of graph.Operations on an implementation and
// holds the result against the reference within limit (relative L2). An operation
// that the implementation does not know fails by its name, unless the table says
// so; then it must be an error.
func Table(t *testing.T, implementation string, run Runner, limit float64) {
	for _, o := range graph.Operations() {
		t.Run(o.Kind, func(t *testing.T) {
			g := graph.New(o.Kind)
			g.Output("y", o.Example(g))
			in := exampleInputs(g)
			got, err := run(g, in)
			if !o.Has(implementation) {
				if err == nil {
					t.Errorf("%s runs %s, which the table says it does not have", implementation, o.Kind)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s does not have %s, which the table says it has: %v", implementation, o.Kind, err)
			}
			want, err := Reference(g, in)
			if err != nil {
				t.Fatal(err)
			}
			a, err1 := floats(g.Outputs[0].Node, got[0])
			b, err2 := floats(g.Outputs[0].Node, want[0])
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if e := relL2(a, b); !(e <= limit) {
				t.Errorf("%s on %s: relative L2 %.3g, want <= %.3g\ngot  %v\nwant %v", o.Kind, implementation, e, limit, a, b)
			}
		})
	}
}

// exampleInputs draws numbers of a normal distribution, and indices of 0 and 1.
func exampleInputs(g *graph.Graph) [][]byte {
	r := rand.New(rand.NewPCG(17, 0x6d617374))
	var data [][]byte
	for _, n := range g.Inputs {
		if n.DType == tensor.I32 {
			v := make([]int, n.Numel())
			for i := range v {
				v[i] = r.IntN(2)
			}
			data = append(data, int32s(v))
			continue
		}
		v := make([]float32, n.Numel())
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		data = append(data, bytesOf(v))
	}
	return data
}
