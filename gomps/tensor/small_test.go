// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestNumber: a number beside a tensor has its type and a shape that changes none.
func TestNumber(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		for _, shape := range [][]int{{}, {3}, {2, 3}, {0}} {
			for _, d := range []DType{F32, F16} {
				x := keep(c.Zeros(d, shape...))
				n := keep(c.Number(0.1, x))
				y := keep(c.Add(x, n))
				if n.DType() != d || y.DType() != d || !reflect.DeepEqual(y.Shape(), x.Shape()) {
					t.Errorf("%v%v + %v%v = %v%v", d, shape, n.DType(), n.Shape(), y.DType(), y.Shape())
				}
				want := float32(0.1)
				if d == F16 {
					want = 0.0999755859375
				}
				for _, v := range must[[]float32](t)(y.Float32s()) {
					if v != want {
						t.Errorf("%v: %v, want %v", d, v, want)
					}
				}
			}
		}
		if _, err := c.Number(2, keep(c.FromInt32s([]int32{1}, 1))); !errors.Is(err, ErrDType) {
			t.Errorf("beside indices: %v", err)
		}
		if _, err := c.Number(2, nil); !errors.Is(err, ErrReleased) {
			t.Errorf("beside nil: %v", err)
		}
	})
}

// TestScalars: a number beside a tensor changes neither its shape, if it has no dimensions, nor
// the sign of a zero.
func TestScalars(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		keep := keeper(t)
		for _, shape := range [][]int{{}, {1}, {2, 3}} {
			x := keep(c.FromFloat32s(slices.Repeat([]float32{3}, []int{1, 1, 6}[len(shape)]), shape...))
			for name, y := range map[string]*Tensor{
				"add": keep(c.AddScalar(x, 1)), "mul": keep(c.MulScalar(x, 2)), "pow": keep(c.PowScalar(x, 2)), "affine": keep(c.Affine(x, 2, 1)),
			} {
				want := map[string]float32{"add": 4, "mul": 6, "pow": 9, "affine": 7}[name]
				if got := must[[]float32](t)(y.Float32s()); !slices.Equal(y.Shape(), x.Shape()) || math.Abs(float64(got[0]-want)) > 1e-5 {
					t.Errorf("%s of %v: %v%v, want %v", name, shape, got, y.Shape(), want)
				}
			}
		}
		zero := keep(c.MulScalar(keep(c.FromFloat32s([]float32{-1}, 1)), 0))
		if got := must[[]float32](t)(zero.Float32s()); !math.Signbit(float64(got[0])) {
			t.Errorf("-1 * 0 = %v, want -0", got)
		}
	})
}

// TestTexts: attributes are read from a text once; what is kept is bounded and nobody changes it.
func TestTexts(t *testing.T) {
	c := must[*Context](t)(Open(Config{Backend: "cpu", Threads: 1}))
	defer c.Close()
	keep := keeper(t)
	x, y := keep(c.FromFloat32s([]float32{1, 2, 3, 4, 5, 6}, 2, 3)), keep(c.FromFloat32s(make([]float32, 24), 2, 3, 4))
	run := func(name, text string, in ...*Tensor) {
		t.Helper()
		out, err := c.DoText(name, text, in...)
		if err != nil {
			t.Fatalf("%s %s: %v", name, text, err)
		}
		release(out)
	}
	texts := []struct{ name, text string }{
		{"sum", `{"axes": []}`}, {"sum", `{"axes": [1, 0]}`}, {"reshape", `{"shape": [-1]}`}, {"softmax", ""}, {"softmax", `{"axis": -1}`},
		{"split", `{"axis": 1, "sizes": [1, 2]}`}, {"pad", `{"before": [0, 1], "after": [1, 0]}`}, {"relu", ""}, {"relu", "{}"},
		{"slice", `{"begin": [1, 2], "end": [-1, -1], "step": [-1, -2]}`}, {"broadcast", `{"shape": [4, 2, 3]}`}, {"permute", `{"perm": [1, 0]}`},
	}
	for _, e := range texts {
		run(e.name, e.text, x)
	}
	before := map[text]string{}
	for k, a := range c.texts.read {
		before[k] = fmt.Sprint(a)
	}
	if want := len(texts) - 1; len(before) != want { // relu has no attributes to keep
		t.Errorf("%d texts are kept, want %d", len(before), want)
	}
	for range 2 {
		for _, e := range texts {
			run(e.name, e.text, x)
		}
		run("sum", `{"axes": []}`, y)
		run("reshape", `{"shape": [-1]}`, y)
	}
	after := map[text]string{}
	for k, a := range c.texts.read {
		after[k] = fmt.Sprint(a)
	}
	if !maps.Equal(before, after) {
		t.Errorf("kept arguments changed:\n%v\n%v", before, after)
	}
	for _, bad := range []string{"{", "[]", `{"axis": 1.5}`, `{"axes": 1}`, `{"axis": "x"}`} {
		for range 2 {
			if _, err := c.DoText("softmax", bad, x); !errors.Is(err, ErrOption) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	}
	long := `{"axis": -1` + strings.Repeat(" ", maxText) + "}"
	run("softmax", long, x)
	if _, ok := c.texts.read[text{"softmax", long}]; ok {
		t.Error("a long text is kept")
	}
	for i := range 2 * maxTexts {
		run("mul_scalar", fmt.Sprintf(`{"value": %d}`, i), x)
	}
	if n := len(c.texts.read); n > maxTexts {
		t.Errorf("%d texts are kept, want at most %d", n, maxTexts)
	}
}

// TestVectors: matrices times columns and rows times matrices, one and several, are a plain loop's
// sums, to the same bits with any number of threads and wherever memory lies.
func TestVectors(t *testing.T) {
	keep := keeper(t)
	var all []*Context
	for _, threads := range []int{1, 3} {
		c := must[*Context](t)(Open(Config{Backend: "cpu", Threads: threads}))
		defer c.Close()
		all = append(all, c)
	}
	for _, s := range []struct{ batch, m, k, n int }{
		{1, 2, 1, 1}, {1, 33, 1024, 1}, {3, 5, 1024, 1}, {2, 300, 1500, 1}, {4, 2, 7, 1}, {1, 1, 1024, 1024}, {2, 1, 9, 70}, {1, 4, 100, 96}, {1, 1, 700, 2000},
	} {
		a, b := wave(s.batch, s.m, s.k), wave(s.batch, s.k, s.n)
		var want []float32
		for i, c := range all {
			for range 3 { // in other memory each time
				keep(c.Empty(F32, 300))
				got := must[[]float32](t)(keep(c.MatMul(keep(c.FromFloat32s(a.Data, a.Shape...)), keep(c.FromFloat32s(b.Data, b.Shape...)))).Float32s())
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("%v: other bits with context %d", s, i)
				}
			}
		}
		for i, v := range want {
			sum, size := 0.0, 0.0
			for j := range s.k {
				p := float64(a.Data[i/s.n*s.k+j]) * float64(b.Data[i/(s.m*s.n)*s.k*s.n+j*s.n+i%s.n])
				sum, size = sum+p, size+math.Abs(p)
			}
			if math.Abs(float64(v)-sum) > 1e-5*size {
				t.Fatalf("%v: element %d is %v, want %v", s, i, v, sum)
			}
		}
	}
}

// TestSmallOperations: an operation on a few numbers, whose time is what the host does for it,
// allocates what its result consists of and no more.
func TestSmallOperations(t *testing.T) {
	c := must[*Context](t)(Open(Config{Backend: "cpu", Threads: 1, Manual: true}))
	defer c.Close()
	x := must[*Tensor](t)(c.FromFloat32s(make([]float32, 8), 8))
	defer x.Release()
	for _, e := range []struct {
		name, text string
		in         []*Tensor
		most       float64
	}{
		{"add", "", []*Tensor{x, x}, 9}, {"relu", "", []*Tensor{x}, 9},
		{"softmax", `{"axis": -1}`, []*Tensor{x}, 11}, {"sum", `{"axes": []}`, []*Tensor{x}, 11},
	} {
		got := testing.AllocsPerRun(500, func() {
			out, err := c.DoText(e.name, e.text, e.in...)
			if err != nil {
				t.Fatal(err)
			}
			out[0].Release()
		})
		if got > e.most {
			t.Errorf("%s: %v allocations, want at most %v", e.name, got, e.most)
		}
	}
	if live := c.Stats().LiveTensors; live != 1 {
		t.Errorf("%d tensors live, want 1", live)
	}
}
