// SPDX-License-Identifier: Apache-2.0

package cpu_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/gemm"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu/vec"
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

// Where there are no matrix tiles, tests of instruction sets run their model.
var tilesModelled = !slices.Contains(gemm.ISAs(), gemm.AVX512AMX)

func init() {
	if tilesModelled {
		gemm.ModelTiles()
	}
}

// TestPrecisions runs a network with 16-bit weights under the wider limits, with every
// way to multiply them.
func TestPrecisions(t *testing.T) {
	for _, p := range []backend.Precision{backend.FP16, backend.BF16} {
		t.Run(p.String(), func(t *testing.T) {
			eachISA(t, func(t *testing.T) {
				if i := gemm.Active(); i != gemm.NEON && i != gemm.AVX2 && i != gemm.AVX512BF16 && (i != gemm.AVX512AMX || tilesModelled) {
					t.Skip("slow, or the same kernels")
				}
				b := newBackend(t, 2)
				run := optest.Backend(b, backend.Options{Precision: p})
				modeltest.Tiny(t, run, "dunemast3r_tiny", 3e-2)
				// Bfloat16 comes in pairs, and three channels do not pair up.
				g := graph.New("odd")
				x := g.Input("x", tensor.F32, 1, 8, 8, 3)
				w := g.Param(graph.Param{Name: "w", Shape: tensor.Shape{4, 3, 2, 2}, DType: tensor.F32, Data: make([]byte, 4*3*4*4)})
				g.Output("y", g.Conv2D(x, w, nil, 2, 0))
				mustRun(t, run, g, inputsOf(g, 1))
			})
		})
	}
}

// TestLongMoves: one channel of many pixels is a single line, which is cut for the threads,
// with and without something left over.
func TestLongMoves(t *testing.T) {
	for _, n := range []int{16_384, 16_385, 20_480, 50_001} {
		g := graph.New("long")
		x := g.Input("x", tensor.F32, 1, n, 3)
		b := g.Input("b", tensor.U8, 1, n)
		g.Output("channel", g.Reshape(g.SliceAxis(x, 2, 1, 2), n))
		g.Output("joined", g.Concat(0, b, b, b))
		g.Output("tail", g.SliceAxis(x, 1, 5, n))
		in := inputsOf(g, 3)
		want := mustRun(t, optest.Reference, g, in)
		for _, threads := range []int{1, 3} {
			sameBits(t, fmt.Sprintf("%d of %d threads", n, threads), g, mustRun(t, optest.Backend(newBackend(t, threads), backend.Options{}), g, in), want)
		}
	}
}

// TestTileSteps has a linear layer, attention and convolutions that fit matrix tiles,
// the last with the narrow convolution that reads it: near the plain loops, and the
// same bits for any number of threads and whatever memory held before.
func TestTileSteps(t *testing.T) {
	if !slices.Contains(gemm.ISAs(), gemm.AVX512AMX) {
		t.Skip("this processor cannot round for tiles")
	}
	was := gemm.Active()
	if err := gemm.Force(gemm.AVX512AMX); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gemm.Force(was) }()
	g := graph.New("tiles")
	param := func(name string, seed uint64, shape ...int) *graph.Node {
		s := tensor.Shape(shape)
		w := inputsOf(&graph.Graph{Inputs: []*graph.Node{{Shape: s, DType: tensor.F32}}}, seed)[0]
		return g.Param(graph.Param{Name: name, Shape: s, DType: tensor.F32, Data: w})
	}
	x := g.Input("x", tensor.F32, 2, 45, 64)
	y := g.Add(graph.Linear{Bias: true, Act: graph.ActGelu}, x, param("w", 1, 96, 64), param("b", 2, 96))
	y = g.Add(graph.Attention{Heads: 3, Scale: 0.1}, y, y, y)
	y = g.Reshape(y, 2, 5, 9, 96)
	y = g.Add(graph.Conv2D{Stride: 1, Pad: 1, Dilation: 1, Groups: 1, PreRelu: true}, y, param("c1", 3, 40, 96, 3, 3))
	y = g.Affine(y, 0.05, 0)
	z := g.Reshape(g.SliceAxis(g.Reshape(y, 2, 45, 40), 2, 0, 32), 2, 5, 9, 32)
	z = g.Add(graph.Conv2D{Stride: 1, Pad: 1, Dilation: 1, Groups: 1, Act: graph.ActRelu}, z, param("c2", 4, 33, 32, 3, 3))
	z = g.Add(graph.Conv2D{Stride: 1, Dilation: 1, Groups: 1, Bias: true}, z, param("c3", 5, 4, 33, 1, 1), param("b3", 6, 4))
	g.Output("y", y)
	g.Output("z", z)
	data := inputsOf(g, 7)
	want := mustRun(t, optest.Reference, g, data)
	var first [][]byte
	for _, threads := range []int{1, 2, 5} {
		b := newBackend(t, threads)
		run := optest.Backend(b, backend.Options{Precision: backend.BF16})
		for range 2 {
			got := mustRun(t, run, g, data)
			if first == nil {
				first = got
			}
			for i := range got {
				checkRelL2(t, fmt.Sprintf("%d threads, output %d", threads, i), asFloats(got[i]), asFloats(want[i]), 2e-2)
				if !bytes.Equal(got[i], first[i]) {
					t.Errorf("%d threads: output %d has other bits", threads, i)
				}
			}
			b.Poison()
		}
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
	for p := range winogradL2 {
		t.Run(p.String(), func(t *testing.T) {
			run := optest.Backend(newBackend(t, 2), backend.Options{Precision: p})
			for _, size := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {3, 3}, {2, 5}, {5, 4}, {8, 8}, {9, 6}, {7, 67}} {
				for flags := range 16 {
					winogradEdge(t, run, size, flags, winogradL2[p])
				}
			}
		})
	}
}

// winogradL2 bounds the error of one layer, relative to its results: twice what is
// usual for few channels. The transforms make 4 or 5 of the rounding errors of 24 bits,
// of 11 for the weights, and of 8 for both factors.
var winogradL2 = map[backend.Precision]float64{backend.FP32: 2e-6, backend.FP16: 2e-3, backend.BF16: 2e-2}

func winogradEdge(t *testing.T, run optest.Runner, size [2]int, flags int, limit float64) {
	t.Helper()
	const in, out = 6, 35
	o := graph.Conv2D{Stride: 1, Pad: 1, Dilation: 1, Groups: 1, Bias: flags&1 != 0, Residual: flags&2 != 0, PreRelu: flags&4 != 0}
	if flags&8 != 0 {
		o.Act = graph.ActRelu
	}
	g := graph.New("conv")
	nodes := []*graph.Node{g.Input("x", tensor.F32, 2, size[0], size[1], in)}
	w := inputsOf(&graph.Graph{Inputs: []*graph.Node{{Shape: tensor.Shape{out, in, 3, 3}, DType: tensor.F32}}}, 9)[0]
	nodes = append(nodes, g.Param(graph.Param{Name: "w", Shape: tensor.Shape{out, in, 3, 3}, DType: tensor.F32, Data: w}))
	if o.Bias {
		nodes = append(nodes, g.Input("b", tensor.F32, out))
	}
	if o.Residual {
		nodes = append(nodes, g.Input("r", tensor.F32, 2, size[0], size[1], out))
	}
	g.Output("y", g.Add(o, nodes...))
	data := inputsOf(g, uint64(flags))
	got, want := mustRun(t, run, g, data)[0], mustRun(t, optest.Reference, g, data)[0]
	checkRelL2(t, fmt.Sprintf("%v, %+v", size, o), asFloats(got), asFloats(want), limit)
}

// TestWinogradBlocks has several tasks of tiles and of channels: pictures of a batch
// have the same bits as alone, for any number of threads.
func TestWinogradBlocks(t *testing.T) {
	for _, p := range []backend.Precision{backend.FP32, backend.BF16} {
		conv := func(pics int) *graph.Graph {
			g := graph.New("conv")
			w := inputsOf(&graph.Graph{Inputs: []*graph.Node{{Shape: tensor.Shape{64, 32, 3, 3}, DType: tensor.F32}}}, 9)[0]
			g.Output("y", g.Conv2D(g.Input("x", tensor.F32, pics, 25, 33, 32),
				g.Param(graph.Param{Name: "w", Shape: tensor.Shape{64, 32, 3, 3}, DType: tensor.F32, Data: w}), nil, 1, 1))
			return g
		}
		g := conv(3)
		data := inputsOf(g, 5)
		want := mustRun(t, optest.Reference, g, data)[0]
		first := mustRun(t, optest.Backend(newBackend(t, 1), backend.Options{Precision: p}), g, data)[0]
		checkRelL2(t, p.String(), asFloats(first), asFloats(want), winogradL2[p])
		for _, threads := range []int{2, 5} {
			if got := mustRun(t, optest.Backend(newBackend(t, threads), backend.Options{Precision: p}), g, data)[0]; !bytes.Equal(got, first) {
				t.Errorf("%v: %d threads have other bits than one", p, threads)
			}
		}
		one := len(data[0]) / 3
		run := optest.Backend(newBackend(t, 2), backend.Options{Precision: p})
		for i := range 3 {
			got := mustRun(t, run, conv(1), [][]byte{data[0][i*one:][:one]})[0]
			if !bytes.Equal(got, first[i*len(got):][:len(got)]) {
				t.Errorf("%v: picture %d alone has other bits than in a batch", p, i)
			}
		}
	}
}

// checkRelL2 bounds the error by limit times the results, on average, and that of
// each element by eight times that: of normal errors, of which those in a tile's
// last row and column are twice the others, none in a million is so far out.
func checkRelL2(t *testing.T, what string, got, want []float32, limit float64) {
	t.Helper()
	var d2, w2, top float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		d2, w2, top = d2+d*d, w2+float64(w)*float64(w), max(top, math.Abs(d))
	}
	n := float64(len(want))
	if !(d2 <= limit*limit*w2) || !(top <= 8*limit*math.Sqrt(w2/n)) {
		t.Fatalf("%s: relative L2 %.2g, want <= %.2g; largest error %.2g of values of %.2g", what, math.Sqrt(d2/w2), limit, top, math.Sqrt(w2/n))
	}
}
