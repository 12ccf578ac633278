// SPDX-License-Identifier: Apache-2.0

package metalcost

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

var update = flag.Bool("update", false, "write docs/metal-cost.md")

var root = filepath.Join("..", "..", "..")

var wheelPath = filepath.Join(root, "python", "mast3r_runtime", "models", "mast3r_tiny", "unified.safetensors")

func open(t *testing.T) *metalsim.Sim {
	s := metalsim.Open(t)
	s.SimulatorOnly()
	s.Set("os", "26.0") // with its own attention in every precision
	return s
}

// TestReport makes docs/metal-cost.md anew and compares, and holds the counts to
// what can be said without them.
func TestReport(t *testing.T) {
	s := open(t)
	all, err := lower(s, t.TempDir(), wheelPath, variants)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := write(&b, all); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "metal-cost.md")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	was, now := strings.Split(string(old), "\n"), strings.Split(b.String(), "\n")
	for i := range min(len(was), len(now)) {
		if was[i] != now[i] {
			t.Errorf("docs/metal-cost.md is not what the lowering emits now (go test ./tests/go/metalcost -update)\nline %d: %s\nnow:     %s", i+1, was[i], now[i])
			break
		}
	}
	if len(was) != len(now) {
		t.Errorf("docs/metal-cost.md has %d lines, want %d", len(was), len(now))
	}
	for _, r := range all {
		check(t, r)
	}
	checkTable(t, all)
}

// checkTable holds the rows "now" of the table in docs/metal.md to the counts.
func checkTable(t *testing.T, all []runs) {
	raw, err := os.ReadFile(filepath.Join(root, "docs", "metal.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, line := range strings.Split(string(raw), "\n") {
		if strings.HasPrefix(line, "| now |") {
			got = append(got, line)
		}
	}
	for _, r := range all {
		first := r.variant == "mast3r_vit_large" && r.size == size{512, 384}
		if first || r.precision == backend.FP16 && (r.variant == "dune_vit_base_448" || r.variant == "mast3r_tiny") {
			c := r.pair
			want = append(want, fmt.Sprintf("| now | %d | %d | %d | %d | %d |", c.nodes, c.transposes, c.copies, c.casts, len(c.stitched)))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/metal.md says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// check compares a run with the specification's own counts and with itself.
func check(t *testing.T, r runs) {
	name := r.variant + " " + r.size.String() + " " + r.precision.String()
	want := map[string]float64{ // work.md 1, in TFLOP
		"mast3r_vit_large 512 x 384": 2.04, "mast3r_vit_large 512 x 288": 1.49, "mast3r_vit_large 512 x 160": 0.80,
		"mast3r_vit_large 224 x 224": 0.48, "dune_vit_small_336 336 x 336": 0.72, "dune_vit_small_448 448 x 336": 0.98,
		"dune_vit_base_336 336 x 336": 0.91, "dune_vit_base_448 448 x 336": 1.24,
	}[r.variant+" "+r.size.String()]
	// Up to 4 % less: a 1x1 convolution goes before the upsampling.
	if got := flopsOf(r.pair.emitted) / 1e12; want != 0 && (got > 1.02*want || got < 0.95*want) {
		t.Errorf("%s: %.3f TFLOP, the specification counts %.2f", name, got, want)
	}
	if a, b := flopsOf(r.pair.emitted), flopsOf(r.pair.stitched); math.Abs(a-b) > 1e-9*a {
		t.Errorf("%s: stitching changes the products: %g and %g", name, a, b)
	}
	if len(r.pair.stitched) >= len(r.pair.emitted) || bytesOf(r.pair.stitched) >= bytesOf(r.pair.emitted) {
		t.Errorf("%s: stitching saves nothing", name)
	}
	if r.precision == backend.FP32 && r.pair.casts != 1 {
		t.Errorf("%s: %d casts, want one, of the pixels", name, r.pair.casts)
	}
	// A transpose of a weight is a flag of its product. Each attention splits and
	// joins its heads: 2 transposes to itself, 4 to the other view, which is half of
	// a decoder's. One more makes the patches.
	const attention = "scaledDotProductAttention"
	cross := r.parts["decoder"].kinds[attention] / 2
	if want := 2*(r.pair.kinds[attention]-cross) + 4*cross + 1; r.pair.transposes != want {
		t.Errorf("%s: %d transposes, want %d", name, r.pair.transposes, want)
	}
}

// TestCounts counts a graph that is small enough for paper.
func TestCounts(t *testing.T) {
	s := open(t)
	b, err := metal.New(metal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	g := graph.New("two layers")
	param := func(shape ...int) *graph.Node {
		data := make([]byte, 4*tensor.Shape(shape).Numel())
		return g.Param(graph.Param{Name: tensor.Shape(shape).String(), Shape: shape, DType: tensor.F32, Data: data})
	}
	x := g.Input("x", tensor.F32, 1, 10, 8)
	y := g.Unary(graph.Gelu, g.Linear(x, param(32, 8), param(32)))
	g.Output("y", g.Transpose(g.AddTo(x, g.Linear(y, param(8, 32), param(8))), 0, 2, 1))
	if _, err := g.Build(); err != nil {
		t.Fatal(err)
	}
	rec := recorder{sim: s, dev: b, precision: backend.FP32}
	c, err := rec.count(g)
	if err := errors.Join(err, rec.close()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"matrixMultiplication": 2, "transpose": 3, "reshape": 4, "addition": 4, "multiplication": 3, "erf": 1}
	if !maps.Equal(want, c.kinds) {
		t.Errorf("got %v, want %v", c.kinds, want)
	}
	if c.transposes != 1 || c.weightTransposes != 2 || c.copies != 0 {
		t.Errorf("%+v", c)
	}
	// Products with gelu and residual, and the transpose: x and the weights in, the
	// hidden layer out and in, the sum out; then in and out.
	const in, hidden, w, flops = 4 * 10 * 8, 4 * 10 * 32, 4 * 8 * 32, 2 * 10 * 8 * 32
	wantKernels := []int64{in + w + 4*32 + scalars*4 + hidden, hidden + w + 4*8 + in + in, 2 * in}
	var got []int64
	for _, k := range c.stitched {
		got = append(got, k.bytes)
	}
	slices.Sort(got)
	slices.Sort(wantKernels)
	if !slices.Equal(got, wantKernels) || flopsOf(c.stitched) < 2*flops {
		t.Errorf("stitched kernels of %v bytes, want %v; %g FLOPs, want %d", got, wantKernels, flopsOf(c.stitched), 2*flops)
	}
	if ms := milliseconds([]kernel{{3e12, 1}, {1, 273e9}}, 1.5, 273); math.Abs(ms-3000) > 1 {
		t.Errorf("%v ms, want 2 s of products and 1 s of bytes", ms)
	}
}

// scalars of gelu: 1/sqrt(2), 0.5 and 1.
const scalars = 3

func TestParseErrors(t *testing.T) {
	for _, text := range []string{"", "x", "v 0 p Float33 [2]", "v 0 p Float32 [a]", "n addTensor: x i0 o1", "n addTensor: 1 0 o1", "n a: 0 i0 o1", "t x"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
	p, err := parse("v 0 p Float32 [2]\nv 1 - Float32 [2]\nn unheardOfWithTensor:name: 0 i0 o1\nti1")
	if err == nil {
		t.Error("a target line without a space passed")
	}
	if p, err = parse("v 0 p Float32 [2]\nv 1 - Float32 [2]\nn unheardOfWithTensor:name: 0 i0 o1\nt i1"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.count(); err == nil {
		t.Error("an unknown operation was counted")
	}
}
