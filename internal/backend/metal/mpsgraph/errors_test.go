// SPDX-License-Identifier: Apache-2.0

//go:build unix

package mpsgraph_test

import (
	"errors"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// TestRefusals builds every mistake that MPSGraph would answer by ending the
// process; the end of the test checks that none of them reached it.
func TestRefusals(t *testing.T) {
	g := open(t)
	const f, h, i = tensor.F32, tensor.F16, tensor.I32
	conv := mpsgraph.Conv{Stride: 1, Dilation: 1, Groups: 1}
	for name, bad := range map[string]func(m *graph, p func(d tensor.DType, s ...int) *value){
		"placeholder of f64":     func(m *graph, p func(tensor.DType, ...int) *value) { p(tensor.F64, 1) },
		"placeholder of rank 0":  func(m *graph, p func(tensor.DType, ...int) *value) { p(f) },
		"empty placeholder":      func(m *graph, p func(tensor.DType, ...int) *value) { p(f, 2, 0) },
		"placeholder of rank 17": func(m *graph, p func(tensor.DType, ...int) *value) { p(f, make([]int, 17)...) },
		"huge placeholder":       func(m *graph, p func(tensor.DType, ...int) *value) { p(f, 1<<16, 1<<16) },
		"2^32 bytes":             func(m *graph, p func(tensor.DType, ...int) *value) { p(f, 1<<15, 1<<15) },
		"2^31 elements":          func(m *graph, p func(tensor.DType, ...int) *value) { p(tensor.U8, 1<<16, 1<<15) },
		"product of rank 5": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.MatMul(p(f, 1, 1, 1, 2, 3), p(f, 1, 1, 1, 3, 2))
		},
		"2^31 scores": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Attention(p(f, 1, 1, 1<<16, 8), p(f, 1, 1, 1<<15, 8), p(f, 1, 1, 1<<15, 8), nil, 1)
		},
		"2^31 scores by hand": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.AttentionByHand(p(f, 1, 1, 1<<16, 8), p(f, 1, 1, 1<<15, 8), p(f, 1, 1, 1<<15, 8), nil, 1)
		},
		"negative placeholder":    func(m *graph, p func(tensor.DType, ...int) *value) { p(f, -1) },
		"overflowing placeholder": func(m *graph, p func(tensor.DType, ...int) *value) { p(f, 1<<40, 1<<40) },
		"constant size":           func(m *graph, p func(tensor.DType, ...int) *value) { m.Constant(make([]byte, 7), shape{2}, f) },
		"foreign operand":         func(m *graph, p func(tensor.DType, ...int) *value) { m.Neg(&mpsgraph.Tensor{}) },
		"nil operand":             func(m *graph, p func(tensor.DType, ...int) *value) { m.Add(p(f, 1), nil) },
		"float op on ints":        func(m *graph, p func(tensor.DType, ...int) *value) { m.Exp(p(i, 2)) },
		"mixed types":             func(m *graph, p func(tensor.DType, ...int) *value) { m.Add(p(f, 2), p(h, 2)) },
		"no broadcast":            func(m *graph, p func(tensor.DType, ...int) *value) { m.Mul(p(f, 2, 3), p(f, 2, 4)) },
		"cast to f64":             func(m *graph, p func(tensor.DType, ...int) *value) { m.Cast(p(f, 2), tensor.F64) },
		"select without bool":     func(m *graph, p func(tensor.DType, ...int) *value) { m.Select(p(f, 2), p(f, 2), p(f, 2)) },
		"select shapes":           func(m *graph, p func(tensor.DType, ...int) *value) { m.Select(p(tensor.Bool, 3), p(f, 2), p(f, 2)) },
		"reshape count":           func(m *graph, p func(tensor.DType, ...int) *value) { m.Reshape(p(f, 6), 4) },
		"reshape to -1":           func(m *graph, p func(tensor.DType, ...int) *value) { m.Reshape(p(f, 6), -1) },
		"short permutation":       func(m *graph, p func(tensor.DType, ...int) *value) { m.Transpose(p(f, 2, 3), 1) },
		"double permutation":      func(m *graph, p func(tensor.DType, ...int) *value) { m.Transpose(p(f, 2, 3), 1, 1) },
		"slice beyond":            func(m *graph, p func(tensor.DType, ...int) *value) { m.Slice(p(f, 4), []int{1}, []int{5}, []int{1}) },
		"empty slice":             func(m *graph, p func(tensor.DType, ...int) *value) { m.Slice(p(f, 4), []int{2}, []int{2}, []int{1}) },
		"slice step":              func(m *graph, p func(tensor.DType, ...int) *value) { m.Slice(p(f, 4), []int{0}, []int{4}, []int{0}) },
		"slice rank":              func(m *graph, p func(tensor.DType, ...int) *value) { m.Slice(p(f, 4), nil, nil, nil) },
		"reverse axis":            func(m *graph, p func(tensor.DType, ...int) *value) { m.Reverse(p(f, 2), 1) },
		"concat nothing":          func(m *graph, p func(tensor.DType, ...int) *value) { m.Concat(0) },
		"concat shapes":           func(m *graph, p func(tensor.DType, ...int) *value) { m.Concat(0, p(f, 2, 3), p(f, 2, 4)) },
		"concat ranks":            func(m *graph, p func(tensor.DType, ...int) *value) { m.Concat(0, p(f, 2, 3), p(f, 2)) },
		"concat types":            func(m *graph, p func(tensor.DType, ...int) *value) { m.Concat(0, p(f, 2), p(h, 2)) },
		"concat axis":             func(m *graph, p func(tensor.DType, ...int) *value) { m.Concat(2, p(f, 2, 3)) },
		"split sum":               func(m *graph, p func(tensor.DType, ...int) *value) { m.Split(p(f, 5), 0, 2, 2) },
		"split zero":              func(m *graph, p func(tensor.DType, ...int) *value) { m.Split(p(f, 5), 0, 0, 5) },
		"split axis":              func(m *graph, p func(tensor.DType, ...int) *value) { m.Split(p(f, 5), 1, 5) },
		"pad rank":                func(m *graph, p func(tensor.DType, ...int) *value) { m.Pad(p(f, 2, 2), []int{1}, []int{1}, 0) },
		"negative pad":            func(m *graph, p func(tensor.DType, ...int) *value) { m.Pad(p(f, 2), []int{-1}, []int{1}, 0) },
		"broadcast down":          func(m *graph, p func(tensor.DType, ...int) *value) { m.Broadcast(p(f, 3), 1) },
		"gather float index":      func(m *graph, p func(tensor.DType, ...int) *value) { m.Gather(p(f, 3), p(f, 2), 0) },
		"gather axis":             func(m *graph, p func(tensor.DType, ...int) *value) { m.Gather(p(f, 3), p(i, 2), 1) },
		"scatter updates":         func(m *graph, p func(tensor.DType, ...int) *value) { m.ScatterAdd(p(f, 3, 2), p(f, 3, 2), p(i, 2), 0) },
		"scatter index":           func(m *graph, p func(tensor.DType, ...int) *value) { m.ScatterAdd(p(f, 3), p(f, 2), p(f, 2), 0) },
		"matmul inner":            func(m *graph, p func(tensor.DType, ...int) *value) { m.MatMul(p(f, 2, 3), p(f, 4, 2)) },
		"matmul vector":           func(m *graph, p func(tensor.DType, ...int) *value) { m.MatMul(p(f, 3), p(f, 3, 2)) },
		"matmul types":            func(m *graph, p func(tensor.DType, ...int) *value) { m.MatMul(p(f, 2, 3), p(h, 3, 2)) },
		"matmul leading":          func(m *graph, p func(tensor.DType, ...int) *value) { m.MatMul(p(f, 2, 2, 3), p(f, 3, 3, 2)) },
		"matmul K":                func(m *graph, p func(tensor.DType, ...int) *value) { m.MatMul(p(f, 2, 32767), p(f, 32767, 2)) },
		"attention rank": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Attention(p(f, 2, 3, 4), p(f, 2, 3, 4), p(f, 2, 3, 4), nil, 1)
		},
		"attention heads": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Attention(p(f, 1, 4, 2, 8), p(f, 1, 2, 2, 8), p(f, 1, 2, 2, 8), nil, 1)
		},
		"attention types": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Attention(p(f, 1, 1, 2, 8), p(h, 1, 1, 2, 8), p(f, 1, 1, 2, 8), nil, 1)
		},
		"attention size": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Attention(p(h, 1, 56, 6193, 1), p(h, 1, 56, 6193, 1), p(h, 1, 56, 6193, 1), nil, 1)
		},
		"attention mask": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Attention(p(f, 1, 1, 2, 8), p(f, 1, 1, 3, 8), p(f, 1, 1, 3, 8), p(f, 2, 2), 1)
		},
		"bool mask": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.AttentionByHand(p(f, 1, 1, 2, 8), p(f, 1, 1, 3, 8), p(f, 1, 1, 3, 8), p(tensor.Bool, 2, 3), 1)
		},
		"reduce axis":       func(m *graph, p func(tensor.DType, ...int) *value) { m.Sum(p(f, 2), 1) },
		"reduce axis twice": func(m *graph, p func(tensor.DType, ...int) *value) { m.Sum(p(f, 2, 2), 1, -1) },
		"reduce nothing":    func(m *graph, p func(tensor.DType, ...int) *value) { m.Sum(p(f, 2)) },
		"variance mean":     func(m *graph, p func(tensor.DType, ...int) *value) { m.Variance(p(f, 2, 3), p(f, 2, 3), -1) },
		"normalize gamma": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Normalize(p(f, 2, 3), p(f, 2, 1), p(f, 2, 1), p(f, 2), p(f, 3), 1e-6)
		},
		"softmax axis": func(m *graph, p func(tensor.DType, ...int) *value) { m.Softmax(p(f, 2, 3), 2) },
		"argmax axis":  func(m *graph, p func(tensor.DType, ...int) *value) { m.ArgMax(p(f, 2, 3), -3) },
		"topk k":       func(m *graph, p func(tensor.DType, ...int) *value) { m.TopK(p(f, 2, 3), 1, 4) },
		"conv channels": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Conv2D(p(f, 1, 5, 5, 3), p(f, 4, 2, 3, 3), conv)
		},
		"conv kernel too large": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Conv2D(p(f, 1, 2, 2, 3), p(f, 4, 3, 3, 3), conv)
		},
		"conv zero stride": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Conv2D(p(f, 1, 5, 5, 3), p(f, 4, 3, 3, 3), mpsgraph.Conv{})
		},
		"conv types": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Conv2D(p(f, 1, 5, 5, 3), p(h, 4, 3, 3, 3), conv)
		},
		"conv outputs": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Conv2D(p(f, 1, 1, 1, 1), p(f, 65537, 1, 1, 1), conv)
		},
		"data gradient shape": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Conv2DDataGradient(p(f, 1, 5, 5, 4), p(f, 4, 3, 3, 3), shape{1, 5, 5, 3}, conv)
		},
		"weights gradient shape": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.Conv2DWeightsGradient(p(f, 1, 5, 5, 4), p(f, 1, 5, 5, 3), shape{4, 3, 3, 3}, conv)
		},
		"transposed channels": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.ConvTranspose2D(p(f, 1, 2, 2, 3), p(f, 4, 3, 2, 2), 2, 0, 0)
		},
		"transposed output pad": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.ConvTranspose2D(p(f, 1, 2, 2, 3), p(f, 3, 4, 2, 2), 2, 0, 2)
		},
		"transposed empty": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.ConvTranspose2D(p(f, 1, 1, 1, 3), p(f, 3, 4, 1, 1), 1, 1, 0)
		},
		"pool kernel": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.MaxPool2D(p(f, 1, 2, 2, 1), mpsgraph.Pool{Kernel: [2]int{1, 3}, Stride: [2]int{1, 1}})
		},
		"pool gradient": func(m *graph, p func(tensor.DType, ...int) *value) {
			m.AvgPool2DGradient(p(f, 1, 3, 3, 1), p(f, 1, 3, 3, 1), mpsgraph.Pool{Kernel: [2]int{2, 2}, Stride: [2]int{1, 1}})
		},
		"resize rank":              func(m *graph, p func(tensor.DType, ...int) *value) { m.Bilinear(p(f, 5, 5), 2, 2, true) },
		"resize to nothing":        func(m *graph, p func(tensor.DType, ...int) *value) { m.Nearest(p(f, 1, 5, 5, 1), 0, 2) },
		"pixel shuffle channels":   func(m *graph, p func(tensor.DType, ...int) *value) { m.PixelShuffle(p(f, 1, 2, 2, 6), 2) },
		"result larger than array": func(m *graph, p func(tensor.DType, ...int) *value) { m.Broadcast(p(f, 1, 1), 1<<16, 1<<16) },
	} {
		err := g.Do(func() error {
			m := mpsgraph.NewGraph()
			defer m.Release()
			bad(m, func(d tensor.DType, s ...int) *value { return m.Placeholder(s, d, "") })
			if m.Err() == nil {
				t.Errorf("%s passed", name)
				return nil
			}
			first := m.Err()
			// After an error everything is harmless, and the first one is kept.
			m.Softmax(m.MatMul(m.Scalar(1, f), m.Neg(m.Placeholder(shape{1}, f, ""))), 0)
			if m.Err() != first {
				t.Errorf("%s: the first error was replaced by %v", name, m.Err())
			}
			var e *mpsgraph.Error
			if !errors.As(first, &e) || e.Op == "" || first.Error() == "" {
				t.Errorf("%s: %v is not an Error", name, first)
			}
			if _, err := m.Compile(g.Device, nil, nil); err == nil {
				t.Errorf("%s: compiled", name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCompileRefusals(t *testing.T) {
	g := open(t)
	if err := g.Do(func() error {
		m, other := mpsgraph.NewGraph(), mpsgraph.NewGraph()
		defer m.Release()
		defer other.Release()
		x := m.Placeholder(shape{2}, tensor.F32, "x")
		y := m.Neg(x)
		for name, c := range map[string]struct{ feeds, results values }{
			"no result":      {values{x}, nil},
			"result is feed": {values{x}, values{x}},
			"result twice":   {values{x}, values{y, y}},
		} {
			if _, err := m.Compile(g.Device, c.feeds, c.results); err == nil {
				t.Errorf("%s passed", name)
			}
		}
		if _, err := other.Compile(g.Device, values{x}, values{y}); err == nil {
			t.Error("values of another graph passed")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
