// SPDX-License-Identifier: Apache-2.0

package cpu_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// TestNarrowConv compares 1x1 convolutions to one to five channels, of which the
// last takes another form, with the plain loops, in dense rows and in rows with gaps.
// No precision rounds their weights.
func TestNarrowConv(t *testing.T) {
	for _, padded := range []bool{false, true} {
		if padded {
			defer cpu.PadEverything()()
		}
		for _, p := range []backend.Precision{backend.FP32, backend.BF16} {
			run := optest.Backend(newBackend(t, 2), backend.Options{Precision: p})
			for out := 1; out <= 5; out++ {
				for flags := range 4 {
					o := graph.Conv2D{Stride: 1, Dilation: 1, Groups: 1, Bias: flags&1 != 0, PreRelu: flags&2 != 0}
					g := graph.New("conv")
					shape := tensor.Shape{out, 37, 1, 1}
					w := inputsOf(&graph.Graph{Inputs: []*graph.Node{{Shape: shape, DType: tensor.F32}}}, 9)[0]
					nodes := []*graph.Node{g.Affine(g.Input("x", tensor.F32, 2, 29, 31, 37), 2, 1),
						g.Param(graph.Param{Name: "w", Shape: shape, DType: tensor.F32, Data: w})}
					if o.Bias {
						nodes = append(nodes, g.Input("b", tensor.F32, out))
					}
					g.Output("y", g.Affine(g.Add(o, nodes...), 1, 0))
					data := inputsOf(g, uint64(flags))
					got, want := mustRun(t, run, g, data)[0], mustRun(t, optest.Reference, g, data)[0]
					checkRelL2(t, fmt.Sprintf("%v, %d channels, %+v", p, out, o), asFloats(got), asFloats(want), 1e-6)
				}
			}
		}
	}
}

// TestNarrowAfterWinograd: a narrow convolution that alone reads a transformed one is
// computed with it, and has the bits that it has when the map between them is written,
// as it is where that is an output too.
func TestNarrowAfterWinograd(t *testing.T) {
	defer cpu.AlwaysWinograd()()
	for _, p := range []backend.Precision{backend.FP32, backend.FP16, backend.BF16} {
		bound := map[backend.Precision]float64{backend.FP32: 2e-6, backend.FP16: 2e-3, backend.BF16: 2e-2}[p]
		run := optest.Backend(newBackend(t, 2), backend.Options{Precision: p})
		for out := 1; out <= 5; out++ {
			for flags := range 16 {
				build := func(both bool) (*graph.Graph, [][]byte) {
					g := graph.New("head")
					param := func(name string, seed uint64, shape ...int) *graph.Node {
						s := tensor.Shape(shape)
						w := inputsOf(&graph.Graph{Inputs: []*graph.Node{{Shape: s, DType: tensor.F32}}}, seed)[0]
						return g.Param(graph.Param{Name: name, Shape: s, DType: tensor.F32, Data: w})
					}
					first := graph.Conv2D{Stride: 1, Pad: 1, Dilation: 1, Groups: 1, Bias: true}
					if flags&1 != 0 {
						first.Act = graph.ActRelu
					}
					last := graph.Conv2D{Stride: 1, Dilation: 1, Groups: 1, Bias: flags&2 != 0, PreRelu: flags&4 != 0}
					x := g.Input("x", tensor.F32, 2, 13, 18, 20)
					first.Residual = flags&8 != 0 // then they are two steps
					sum := []*graph.Node{x, param("w1", 3, 48, 20, 3, 3), param("b1", 4, 48)}
					if first.Residual {
						sum = append(sum, g.Input("r", tensor.F32, 2, 13, 18, 48))
					}
					y := g.Add(first, sum...)
					nodes := []*graph.Node{y, param("w2", 5, out, 48, 1, 1)}
					if last.Bias {
						nodes = append(nodes, g.Input("b2", tensor.F32, out))
					}
					g.Output("z", g.Add(last, nodes...))
					if both {
						g.Output("y", y)
					}
					return g, inputsOf(g, uint64(flags))
				}
				g, data := build(false)
				got, want := mustRun(t, run, g, data)[0], mustRun(t, optest.Reference, g, data)[0]
				what := fmt.Sprintf("%v, %d channels, case %d", p, out, flags)
				checkRelL2(t, what, asFloats(got), asFloats(want), bound)
				g, data = build(true)
				if apart := mustRun(t, run, g, data)[0]; !bytes.Equal(got, apart) {
					t.Errorf("%s: not the bits of two steps", what)
				}
			}
		}
	}
}
