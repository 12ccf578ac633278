// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// wave is a deterministic array.
func wave(shape ...int) Array {
	n := 1
	for _, d := range shape {
		n *= d
	}
	a := Array{Data: make([]float32, n), Shape: shape}
	for i := range a.Data {
		a.Data[i] = float32(math.Sin(float64(i)*0.37 + float64(len(shape)+n)))
	}
	return a
}

// block is layer_norm -> matmul + bias -> gelu -> matmul + residual -> softmax.
func block(t testing.TB) (*Graph, map[string]Array) {
	t.Helper()
	g := NewGraph()
	add := func(name string, kind OpKind, in ...string) {
		if err := g.AddNode(name, Op{Kind: kind, Eps: 1e-6}, in...); err != nil {
			t.Fatal(err)
		}
	}
	// Out of order on purpose.
	add("y", OpSoftmax, "sum")
	add("norm", OpLayerNorm, "x", "gamma", "beta")
	add("sum", OpAdd, "x", "m2")
	add("m1", OpMatMul, "norm", "w1")
	add("act", OpGelu, "hidden")
	add("hidden", OpAdd, "m1", "b1")
	add("m2", OpMatMul, "act", "w2")
	if err := g.SetOutput("y"); err != nil {
		t.Fatal(err)
	}
	return g, map[string]Array{"x": wave(12, 16), "gamma": wave(16), "beta": wave(16), "w1": wave(16, 40), "b1": wave(40), "w2": wave(40, 16)}
}

func TestExecutor(t *testing.T) {
	metalsim.Open(t)
	e, err := New(1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	g, in := block(t)
	fused, err := g.Optimize()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[OpKind]int{}
	for _, n := range fused.nodes {
		kinds[n.op.Kind]++
	}
	if len(fused.nodes) != 4 || kinds[OpFusedLinearAddGelu] != 1 || kinds[OpFusedLinearAdd] != 1 {
		t.Errorf("after fusion: %v", kinds)
	}
	want, err := e.Execute(g, in)
	if err != nil {
		t.Fatal(err)
	}
	plain := e.Stats()
	if plain.GPU != 2 || plain.CPU != 5 || len(plain.Fallbacks) != 0 {
		t.Errorf("routing: %+v, want both products on the GPU", plain)
	}
	got, err := e.Execute(fused, in)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range want["y"].Data {
		if d := math.Abs(float64(v - got["y"].Data[i])); d > 1e-5 {
			t.Fatalf("element %d: fused %v, plain %v", i, got["y"].Data[i], v)
		}
	}
	e.Thresholds = Thresholds{}
	if _, err := e.Execute(g, in); err != nil {
		t.Fatal(err)
	}
	// Fused, one product reads 872 numbers and stays, the other 1312 and goes;
	// then all seven of the plain graph stay.
	if s := e.Stats(); s.GPU != plain.GPU+1 || s.CPU != plain.CPU+3+7 {
		t.Errorf("without thresholds: %+v after %+v", s, plain)
	}
}

// TestExecutorFallsBack: no GPU and a failing one give the same numbers and a
// reason.
func TestExecutorFallsBack(t *testing.T) {
	cpu, err := tensor.Open(tensor.Config{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	e := &Executor{cpu: cpu, noGPU: "no GPU in this test", Thresholds: DefaultThresholds(), stats: Stats{Fallbacks: map[string]int{}}}
	defer e.Close()
	g, in := block(t)
	want, err := e.Execute(g, in)
	if err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); s.GPU != 0 || s.Fallbacks["no GPU in this test"] != 2 {
		t.Errorf("without a GPU: %+v", s)
	}
	// A closed context fails as a lost device does.
	broken, err := tensor.Open(tensor.Config{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	broken.Close()
	e.gpu = broken
	got, err := e.Execute(g, in)
	if err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); s.Fallbacks[tensor.ErrClosed.Error()] != 2 {
		t.Errorf("with a lost GPU: %+v", s)
	}
	for i, v := range want["y"].Data {
		if got["y"].Data[i] != v {
			t.Fatalf("element %d differs", i)
		}
	}
}

func TestExecutorErrors(t *testing.T) {
	cpu, err := tensor.Open(tensor.Config{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	e := &Executor{cpu: cpu, stats: Stats{Fallbacks: map[string]int{}}}
	defer e.Close()
	g, in := block(t)
	delete(in, "w2")
	if _, err := e.Execute(g, in); err == nil || !strings.Contains(err.Error(), `"m2"`) || !strings.Contains(err.Error(), `"w2"`) {
		t.Errorf("missing input: %v", err)
	}
	in["w2"] = wave(39, 16)
	if _, err := e.Execute(g, in); !errors.Is(err, tensor.ErrShape) || !strings.Contains(err.Error(), `"m2"`) {
		t.Errorf("wrong shape: %v", err)
	}
	in["w2"] = Array{Data: make([]float32, 3), Shape: []int{40, 16}}
	if _, err := e.Execute(g, in); !errors.Is(err, tensor.ErrShape) {
		t.Errorf("wrong length: %v", err)
	}
	loop := NewGraph()
	loop.AddNode("a", Op{Kind: OpGelu}, "b")
	loop.AddNode("b", Op{Kind: OpGelu}, "a")
	loop.SetOutput("a")
	if _, err := e.Execute(loop, nil); err == nil || !strings.Contains(err.Error(), "depends on itself") {
		t.Errorf("a cycle: %v", err)
	}
	for _, err := range []error{
		loop.AddNode("a", Op{Kind: OpGelu}, "x"), loop.AddNode("c", Op{Kind: "Sinh"}, "x"), loop.AddNode("c", Op{Kind: OpAdd}, "x"), loop.SetOutput("zz"),
	} {
		if !errors.Is(err, tensor.ErrOption) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := e.Execute(NewGraph(), nil); err == nil {
		t.Error("a graph without output")
	}
}

// TestFusionStaysOnTheDevice: what a product's operands send to the GPU goes there
// also when the product is one with what follows it.
func TestFusionStaysOnTheDevice(t *testing.T) {
	metalsim.Open(t)
	e, err := New(1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	in := map[string]Array{"x": wave(64, 64), "w": wave(64, 64), "b": wave(64)}
	for _, after := range [][]OpKind{{OpGelu}, {OpAdd}, {OpAdd, OpGelu}} {
		g := NewGraph()
		last := "x"
		for i, kind := range append([]OpKind{OpMatMul}, after...) {
			operands := map[OpKind][]string{OpMatMul: {last, "w"}, OpAdd: {last, "b"}, OpGelu: {last}}[kind]
			last = string(rune('1' + i))
			if err := g.AddNode(last, Op{Kind: kind}, operands...); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.SetOutput(last); err != nil {
			t.Fatal(err)
		}
		fused, err := g.Optimize()
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []*Graph{g, fused} {
			before := e.Stats().GPU
			if _, err := e.Execute(run, in); err != nil {
				t.Fatal(err)
			}
			if n := e.Stats().GPU - before; n != 1 {
				t.Errorf("MatMul and %v as %d operations: %d on the GPU, want the product", after, len(run.nodes), n)
			}
		}
	}
	e.Thresholds[OpSoftmax] = 10
	if err := e.Calibrate(); err != nil {
		t.Fatal(err)
	}
	if e.Thresholds[OpSoftmax] != 10 || len(e.Thresholds) != 5 || e.Thresholds[OpFusedLinearGelu] != e.Thresholds[OpMatMul] {
		t.Errorf("after Calibrate: %v", e.Thresholds)
	}
}

func TestGeluTanhInGraph(t *testing.T) {
	e, err := New(1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	g := NewGraph()
	if err := errors.Join(g.AddNode("y", Op{Kind: OpGeluTanh}, "x"), g.SetOutput("y")); err != nil {
		t.Fatal(err)
	}
	out, err := e.Execute(g, map[string]Array{"x": wave(9)})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range wave(9).Data {
		x := float64(v)
		want := x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		if d := math.Abs(float64(out["y"].Data[i]) - want); d > 1e-6 {
			t.Errorf("gelu_tanh(%v) = %v, want %v", v, out["y"].Data[i], want)
		}
	}
}

// BenchmarkRouting runs the graph of the tests with routing and without.
func BenchmarkRouting(b *testing.B) {
	for _, name := range []string{"on", "off"} {
		b.Run(name, func(b *testing.B) {
			e, err := New(0)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			if name == "off" {
				e.Thresholds = Thresholds{}
			}
			g, in := block(b)
			for b.Loop() {
				if _, err := e.Execute(g, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A threshold is the largest size that stays on the CPU.
func TestThresholdExactly(t *testing.T) {
	metalsim.Open(t)
	e, err := New(1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	g := NewGraph()
	if err := errors.Join(g.AddNode("y", Op{Kind: OpMatMul}, "a", "b"), g.SetOutput("y")); err != nil {
		t.Fatal(err)
	}
	in := map[string]Array{"a": wave(4, 5), "b": wave(5, 6)} // 50 elements
	for least, onGPU := range map[int]int{49: 1, 50: 0, 51: 0} {
		e.Thresholds = Thresholds{OpMatMul: least}
		before := e.Stats()
		if _, err := e.Execute(g, in); err != nil {
			t.Fatal(err)
		}
		if got := e.Stats().GPU - before.GPU; got != onGPU {
			t.Errorf("threshold %d, 50 elements: %d on the GPU, want %d", least, got, onGPU)
		}
	}
}

// Calibrate's thresholds count the elements of all operands: a bias is one more.
func TestCalibratedThresholds(t *testing.T) {
	metalsim.Open(t)
	e, err := New(1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Calibrate(); err != nil {
		t.Fatal(err)
	}
	two, three := e.Thresholds[OpMatMul]+1, e.Thresholds[OpFusedLinearAdd]+1
	if two < 2*16*16 || 2*three != 3*two {
		t.Errorf("products of two operands from %d elements on, of three from %d", two, three)
	}
	if e.Thresholds[OpFusedLinearGelu]+1 != two || e.Thresholds[OpFusedLinearAddGelu]+1 != three {
		t.Errorf("%v", e.Thresholds)
	}
}
