// SPDX-License-Identifier: Apache-2.0

package cpu_test

import (
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu/vec"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/modeltest"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

func newBackend(t testing.TB, threads int) *cpu.Backend {
	t.Helper()
	b, err := cpu.New(cpu.Config{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// eachISA runs f with the kernels of every instruction set of this machine.
func eachISA(t *testing.T, f func(t *testing.T)) {
	rows := map[string]vec.ISA{}
	for _, i := range vec.Supported() {
		rows[i.String()] = i
	}
	old := gemm.Active()
	for _, i := range gemm.ISAs() {
		t.Run(i.String(), func(t *testing.T) {
			if err := gemm.Force(i); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := gemm.Force(old); err != nil {
					t.Error(err)
				}
			}()
			if v, ok := rows[i.String()]; ok {
				restore, err := vec.Force(v)
				if err != nil {
					t.Fatal(err)
				}
				defer restore()
			}
			f(t)
		})
	}
}

func TestOperations(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		run := optest.Backend(newBackend(t, 2), backend.Options{})
		optest.Golden(t, run, 1)
		optest.Random(t, run, 10, 2e-6)
	})
}

// TestPrecisions runs a network with 16-bit weights under the wider limits.
func TestPrecisions(t *testing.T) {
	for _, p := range []backend.Precision{backend.FP16, backend.BF16} {
		t.Run(p.String(), func(t *testing.T) {
			b := newBackend(t, 2)
			if p == backend.BF16 && gemm.Active() != gemm.AVX512BF16 {
				t.Skip("this processor has no bfloat16 products")
			}
			run := optest.Backend(b, backend.Options{Precision: p})
			modeltest.Tiny(t, run, "dunemast3r_tiny", 3e-2)
			// Bfloat16 comes in pairs, and three channels do not pair up.
			g := graph.New("odd")
			x := g.Input("x", tensor.F32, 1, 8, 8, 3)
			w := g.Param(graph.Param{Name: "w", Shape: tensor.Shape{4, 3, 2, 2}, DType: tensor.F32, Data: make([]byte, 4*3*4*4)})
			g.Output("y", g.Conv2D(x, w, nil, 2, 0))
			mustRun(t, run, g, inputsOf(g, 1))
		})
	}
}

// TestPaddedRows puts a gap after every row of every value: the layout that
// only long rows have otherwise.
func TestPaddedRows(t *testing.T) {
	defer cpu.PadEverything()()
	run := optest.Backend(newBackend(t, 2), backend.Options{})
	optest.Golden(t, run, 1)
	optest.Random(t, run, 20, 2e-6)
	modeltest.Tiny(t, run, "dunemast3r_tiny", 1e-5)
}

// TestWinograd uses the transform for the smallest maps too: odd sizes, single
// pixels, batches, every fusion.
func TestWinograd(t *testing.T) {
	defer cpu.AlwaysWinograd()()
	run := optest.Backend(newBackend(t, 2), backend.Options{})
	optest.Golden(t, run, 1)
	optest.Random(t, run, 40, 2e-6)
	modeltest.Tiny(t, run, "dunemast3r_tiny", 1e-5)
}

// TestWinogradEdges compares maps from a single pixel up, where most tiles stick
// out, with the plain loops, under every combination of what can be fused.
func TestWinogradEdges(t *testing.T) {
	defer cpu.AlwaysWinograd()()
	run := optest.Backend(newBackend(t, 2), backend.Options{})
	for _, size := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {3, 3}, {2, 5}, {5, 4}, {7, 67}} {
		for flags := range 16 {
			o := graph.Conv2D{Stride: 1, Pad: 1, Dilation: 1, Groups: 1, Bias: flags&1 != 0, Residual: flags&2 != 0, PreRelu: flags&4 != 0}
			if flags&8 != 0 {
				o.Act = graph.ActRelu
			}
			g := graph.New("conv")
			in := []*graph.Node{g.Input("x", tensor.F32, 2, size[0], size[1], 5)}
			w := inputsOf(&graph.Graph{Inputs: []*graph.Node{{Shape: tensor.Shape{35, 5, 3, 3}, DType: tensor.F32}}}, 9)[0]
			in = append(in, g.Param(graph.Param{Name: "w", Shape: tensor.Shape{35, 5, 3, 3}, DType: tensor.F32, Data: w}))
			if o.Bias {
				in = append(in, g.Input("b", tensor.F32, 35))
			}
			if o.Residual {
				in = append(in, g.Input("r", tensor.F32, 2, size[0], size[1], 35))
			}
			g.Output("y", g.Add(o, in...))
			data := inputsOf(g, uint64(flags))
			got, want := mustRun(t, run, g, data)[0], mustRun(t, optest.Reference, g, data)[0]
			for i, v := range asFloats(got) {
				// Sums of 45 products of normal numbers, about 7 in size.
				if d := float64(v) - float64(asFloats(want)[i]); !(math.Abs(d) <= 3e-5) {
					t.Fatalf("%v, %+v: element %d: got %g, want %g", size, o, i, v, asFloats(want)[i])
				}
			}
		}
	}
}
