// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// stored is a weight of random numbers in a type.
func stored(r *rand.Rand, d tensor.DType, shape ...int) (graph.Param, []float32) {
	s := tensor.Shape(shape)
	v := make([]float32, s.Numel())
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	data := make([]byte, len(v)*d.Size())
	tensor.Store(data, d, v)
	p := graph.Param{Shape: s, DType: d, Data: data}
	runOf(v, p, 0, 1)
	return p, v
}

// TestElements: weights in every type, arranged, joined and rounded, against a loop
// over their elements.
func TestElements(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	types := []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.F64}
	for _, from := range types {
		for _, to := range types {
			for _, perm := range [][]int{nil, {0, 2, 3, 1}, {2, 3, 1, 0}, {3, 0, 1, 2}} {
				for _, round := range []bool{false, true} {
					p, v := stored(r, from, 7, 33, 3, 5)
					w := stablehlo.Weight{Params: []graph.Param{p}, Perm: perm, Shape: p.Shape, DType: to, Round: round}
					if perm != nil {
						w.Shape = tensor.Shape{p.Shape[perm[0]], p.Shape[perm[1]], p.Shape[perm[2]], p.Shape[perm[3]]}
					}
					checkElements(t, w, arrangedSlowly(v, p.Shape, perm))
				}
			}
		}
	}
	a, x := stored(r, tensor.F32, 300, 1000) // more than one chunk
	b, y := stored(r, tensor.F16, 20, 1000)
	checkElements(t, stablehlo.Weight{Params: []graph.Param{a, b}, Shape: tensor.Shape{320, 1000}, DType: tensor.BF16}, append(x, y...))
	checkElements(t, stablehlo.Weight{Table: x, Shape: tensor.Shape{len(x)}, DType: tensor.F32, Round: true}, x)
}

// arrangedSlowly permutes dimensions.
func arrangedSlowly(v []float32, s tensor.Shape, perm []int) []float32 {
	if perm == nil {
		return v
	}
	var out []float32
	st := s.Strides()
	for a := range s[perm[0]] {
		for b := range s[perm[1]] {
			for c := range s[perm[2]] {
				for d := range s[perm[3]] {
					out = append(out, v[a*st[perm[0]]+b*st[perm[1]]+c*st[perm[2]]+d*st[perm[3]]])
				}
			}
		}
	}
	return out
}

func checkElements(t *testing.T, w stablehlo.Weight, want []float32) {
	t.Helper()
	got, err := elements(w)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want)*w.DType.Size() {
		t.Fatalf("%d bytes of %d numbers", len(got), len(want))
	}
	one := make([]byte, 8)
	for i, v := range want {
		if w.Round {
			v = nearestTF32(v)
		}
		tensor.Store(one, w.DType, []float32{v})
		if n := w.DType.Size(); string(got[i*n:(i+1)*n]) != string(one[:n]) {
			t.Fatalf("%v, perm %v, rounded %v: element %d is % x, want % x", w.DType, w.Perm, w.Round, i, got[i*n:(i+1)*n], one[:n])
		}
	}
}

// nearestTF32 chooses among the two neighbours with ten bits.
func nearestTF32(v float32) float32 {
	u := math.Float32bits(v)
	down, up := math.Float32frombits(u&^0x1fff), math.Float32frombits(u&^0x1fff+0x2000)
	below, above := math.Abs(float64(v)-float64(down)), math.Abs(float64(up)-float64(v))
	if above < below || above == below && u&0x2000 != 0 {
		return up
	}
	return down
}

// TestRoundTF32: ties go to the even one, infinities and NaN stay.
func TestRoundTF32(t *testing.T) {
	v := []float32{1 + 0x1p-11, 1 + 3*0x1p-11, -1 - 0x1p-11 - 0x1p-20, float32(math.Inf(1)), 0}
	roundTF32(v)
	for i, want := range []float32{1, 1 + 0x1p-9, -1 - 0x1p-10, float32(math.Inf(1)), 0} {
		if v[i] != want {
			t.Errorf("%d: %v, want %v", i, v[i], want)
		}
	}
	nan := []float32{float32(math.NaN())}
	if roundTF32(nan); nan[0] == nan[0] {
		t.Errorf("NaN became %v", nan[0])
	}
}
