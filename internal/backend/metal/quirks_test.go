// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/ref"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// What MPSGraph is reported to do on some systems, and the lowering avoids.

// TestOneRow: a product of one row keeps its bias, in a linear layer, in a product
// and a sum, and in a batch of single rows.
func TestOneRow(t *testing.T) {
	b, s := open(t, metal.Config{})
	s.Set("fault", "gemv_bias")
	g := graph.New("one row")
	x, bias := g.Input("x", tensor.F32, 1, 6), weight(g, "bias", tensor.F32, 4)
	g.Output("linear", g.Linear(x, weight(g, "w", tensor.F32, 4, 6), bias))
	g.Output("matmul", g.AddTo(g.Add(graph.MatMul{}, x, weight(g, "ww", tensor.F32, 6, 4)), bias))
	g.Output("batch", g.AddTo(g.Add(graph.MatMul{}, g.Input("y", tensor.F32, 3, 1, 6), weight(g, "www", tensor.F32, 3, 6, 4)), bias))
	g.Output("vector", g.Linear(g.Input("v", tensor.F32, 6), weight(g, "wwww", tensor.F32, 4, 6), bias))
	_, err := g.Build()
	check(t, err)
	edge(t, optest.Backend(b, fp32), g, 2e-6)
}

// TestTies: of equal elements any may come first, and each comes once; nothing else
// is promised.
func TestTies(t *testing.T) {
	for _, o := range graph.Operations() {
		if o.Kind == "topk" && !strings.Contains(o.Doc, "equal ones in any order") {
			t.Errorf("the table of operations says: %s", o.Doc)
		}
	}
	for _, fault := range []string{"none", "ties"} {
		b, s := open(t, metal.Config{})
		s.Set("fault", fault)
		g := graph.New("ties")
		x := g.Input("x", tensor.F32, 6)
		g.Output("v", g.Add(graph.TopK{K: 4}, x))
		g.Output("i", g.Add(graph.TopK{K: 4, Index: true}, x))
		_, err := g.Build()
		check(t, err)
		values := []float32{2, 7, 2, 7, 7, 1}
		out, err := optest.Backend(b, fp32)(g, [][]byte{floats(values...)})
		check(t, err)
		v, err := ref.Decode(tensor.F32, tensor.Shape{4}, out[0])
		check(t, err)
		at, err := ref.Decode(tensor.I32, tensor.Shape{4}, out[1])
		check(t, err)
		if want := []float64{7, 7, 7, 2}; !slices.Equal(v.Data, want) {
			t.Errorf("%s: values %v, want %v", fault, v.Data, want)
		}
		seen := map[float64]bool{}
		for i, j := range at.Data {
			if seen[j] || float64(values[int(j)]) != v.Data[i] {
				t.Errorf("%s: indices %v of values %v", fault, at.Data, v.Data)
			}
			seen[j] = true
		}
	}
}

// TestArgOfNaN: an index is in its row, whatever that holds.
func TestArgOfNaN(t *testing.T) {
	b, _ := open(t, metal.Config{})
	optest.ArgOfNaN(t, optest.Backend(b, fp32))
}

const crashDir = "METALSIM_TEST_CRASH_DIR"

// TestPackageEndsProcess: a package whose compiling ends the process, whenever
// MPSGraph does that, is gone for the next one.
func TestPackageEndsProcess(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" { // the process that dies
		c := &cached{t: t, sim: metalsim.Open(t), dir: dir}
		c.run(metal.Config{}, fp32)
		return
	}
	c := newCached(t)
	c.want("first", metal.Config{}, fp32, 1, 0, 1)
	cmd := exec.Command(os.Args[0], "-test.run=^TestPackageEndsProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), crashDir+"="+c.dir, "METALSIM_CRASH=package")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "pass manager failed") {
		t.Fatalf("the process did not die: %v\n%s", err, out)
	}
	c.want("after it", metal.Config{}, fp32, 1, 0, 1)
	if said := c.log.String(); !strings.Contains(said, "ended a process") {
		t.Errorf("it says %q", said)
	}
	c.want("and again", metal.Config{}, fp32, 0, 1, 0)
	if n := c.sim.Counter("compiles_in_encodes"); n != 0 {
		t.Errorf("%d packages were compiled in an encoding", n)
	}
	if left, err := filepath.Glob(filepath.Join(c.dir, "*"+".loading")); err != nil || len(left) != 0 {
		t.Errorf("markers are left: %q", left)
	}
}

// TestPointsNearTheCamera: points of any length have relative accuracy: the floor of the
// division is 1e-8, below what a network gives.
func TestPointsNearTheCamera(t *testing.T) {
	b, _ := open(t, metal.Config{})
	g := graph.New("points")
	g.Output("y", g.Add(graph.ExpPoints{}, g.Input("x", tensor.F32, 8, 3)))
	_, err := g.Build()
	check(t, err)
	var x []float32
	for i := range 8 {
		d := float32(math.Pow(10, float64(-i))) * 2 // 2 down to 2e-7
		x = append(x, d*0.6, -d*0.8, 0)
	}
	out, err := optest.Backend(b, fp32)(g, [][]byte{floats(x...)})
	check(t, err)
	y, err := ref.Decode(tensor.F32, tensor.Shape{8, 3}, out[0])
	check(t, err)
	for i := range x {
		d := math.Hypot(float64(x[i/3*3]), float64(x[i/3*3+1]))
		want := float64(x[i]) / d * math.Expm1(d)
		if math.Abs(y.Data[i]-want) > 1e-5*math.Abs(want) {
			t.Errorf("point %d of length %g: got %g, want %g", i/3, d, y.Data[i], want)
		}
	}
}
