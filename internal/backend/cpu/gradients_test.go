// SPDX-License-Identifier: Apache-2.0

package cpu_test

import (
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// TestGradientsInChunks sums the gradients of convolutions over many short chunks
// of patches, as large maps do.
func TestGradientsInChunks(t *testing.T) {
	defer cpu.SmallPatches()()
	run := optest.Backend(newBackend(t, 2), backend.Options{})
	optest.Golden(t, run, 1)
	optest.Random(t, run, 20, 2e-6)
}

// TestScatterOutside: a wrong index is an error, and nothing is written by it.
func TestScatterOutside(t *testing.T) {
	for _, bad := range []byte{3, 0xff} {
		g := graph.New("scatter")
		x, idx := g.Input("x", tensor.F32, 1, 2), g.Input("i", tensor.I32, 1)
		g.Output("y", g.Add(graph.ScatterAdd{Rows: 3}, x, idx))
		c := compile(t, newBackend(t, 1), g, [][]byte{make([]byte, 8), {bad, 0, 0, bad &^ 3}})
		if err := c.run(t.Context()); !errors.Is(err, backend.ErrIndex) {
			t.Errorf("got %v, want %v", err, backend.ErrIndex)
		}
	}
}

// TestLongReductions folds axes with more terms than a part has.
func TestLongReductions(t *testing.T) {
	run := optest.Backend(newBackend(t, 2), backend.Options{})
	for _, axes := range [][]int{{0, 1, 2}, {0, 1}, {1, 2}, {0, 2}, {2}} {
		for _, fn := range []graph.ReduceFn{graph.ReduceSum, graph.ReduceMean, graph.ReduceMax, graph.ReduceMin} {
			g := graph.New("reduce")
			g.Output("y", g.Add(graph.Reduce{Fn: fn, Axes: axes}, g.Input("x", tensor.F32, 3, 47, 12345)))
			in := inputsOf(g, 5)
			got, want := mustRun(t, run, g, in)[0], mustRun(t, optest.Reference, g, in)[0]
			checkClose(t, "reduction", asFloats(got), asFloats(want))
		}
	}
}
