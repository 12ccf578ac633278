// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	dt "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// sample is a call of an operation that works.
type sample struct {
	attributes Attributes
	in         []any // Array, []int32 (a vector of indices) or nil
	// want is a plain loop in float64 for operations that golden/ops has not and no
	// gradient needs; it sees the operands' numbers.
	want func(in [][]float64) []float64
	// limit of the difference in float16 relative to the largest number; 0: 2e-3,
	// two roundings to 11 bits.
	limit float64
}

func each1(f func(x float64) float64) func(in [][]float64) []float64 {
	return func(in [][]float64) []float64 {
		out := slices.Clone(in[0])
		for i, x := range out {
			out[i] = f(x)
		}
		return out
	}
}

// each2 broadcasts a second operand that repeats at the end of the shape.
func each2(f func(x, y float64) float64) func(in [][]float64) []float64 {
	return func(in [][]float64) []float64 {
		out := slices.Clone(in[0])
		for i, x := range out {
			out[i] = f(x, in[1][i%len(in[1])])
		}
		return out
	}
}

// pick is a result whose element i is element at(i) of the first operand.
func pick(n int, at func(i int) int) func(in [][]float64) []float64 {
	return func(in [][]float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = in[0][at(i)]
		}
		return out
	}
}

// positive is wave without its zeros and signs.
func positive(shape ...int) Array {
	a := wave(shape...)
	for i, v := range a.Data {
		a.Data[i] = 0.5 + v*v
	}
	return a
}

// cumulate sums down the columns of rows of 4.
func cumulate(in [][]float64) []float64 {
	out := slices.Clone(in[0])
	for i := 4; i < len(out); i++ {
		out[i] += out[i-4]
	}
	return out
}

func nums(v ...float64) []any {
	out := make([]any, len(v))
	for i, x := range v {
		out[i] = x
	}
	return out
}

func relu(x float64) float64 { return max(x, 0) }

// samples has at least one call of every operation.
func samples() map[string][]sample {
	x, y, row, pos := wave(3, 4), wave(3, 4), wave(4), positive(3, 4)
	for i := range y.Data {
		y.Data[i] = -y.Data[i] + 0.3
	}
	unary := func(f func(float64) float64) []sample { return []sample{{in: []any{x}, want: each1(f)}} }
	binary := func(f func(x, y float64) float64) []sample {
		return []sample{{in: []any{x, y}, want: each2(f)}, {in: []any{x, row}, want: each2(f)}}
	}
	plain := func(in ...any) []sample { return []sample{{in: in}} }
	with := func(a Attributes, in ...any) []sample { return []sample{{attributes: a, in: in}} }
	add, sub := func(x, y float64) float64 { return x + y }, func(x, y float64) float64 { return x - y }
	mul, div := func(x, y float64) float64 { return x * y }, func(x, y float64) float64 { return x / y }
	then := func(f func(x, y float64) float64) func(x, y float64) float64 {
		return func(x, y float64) float64 { return relu(f(x, y)) }
	}
	map4, w4, hot := wave(2, 3, 5, 4), wave(2, 3, 3, 3), []int32{2, 0, 2}
	qkv := wave(2, 2, 3, 8)
	w, b := wave(5, 4), wave(5)
	m := map[string][]sample{
		"exp": unary(math.Exp), "sin": unary(math.Sin), "cos": unary(math.Cos), "tan": unary(math.Tan), "abs": unary(math.Abs), "tanh": unary(math.Tanh),
		"neg": unary(func(x float64) float64 { return -x }), "relu": unary(relu), "relu_": unary(relu),
		"zero_":  unary(func(float64) float64 { return 0 }),
		"copy":   unary(func(x float64) float64 { return x }),
		"log":    {{in: []any{pos}, want: each1(math.Log)}},
		"sqrt":   {{in: []any{pos}, want: each1(math.Sqrt)}},
		"erf":    unary(math.Erf),
		"expm1":  unary(math.Expm1),
		"floor":  unary(math.Floor),
		"ceil":   unary(math.Ceil),
		"atan2":  binary(math.Atan2),
		"square": unary(func(x float64) float64 { return x * x }),
		"step": unary(func(x float64) float64 {
			if x > 0 {
				return 1
			}
			return 0
		}),
		"rsqrt":      {{in: []any{pos}, want: each1(func(x float64) float64 { return 1 / math.Sqrt(x) })}},
		"reciprocal": {{in: []any{pos}, want: each1(func(x float64) float64 { return 1 / x })}},
		"gelu":       unary(func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 }),
		"gelu_tanh":  unary(func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) }),
		"sigmoid":    unary(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }),
		"add":        binary(add), "sub": binary(sub), "mul": binary(mul), "add_": binary(add), "sub_": binary(sub), "mul_": binary(mul),
		"maximum": binary(math.Max), "minimum": binary(math.Min),
		"add_relu": binary(then(add)), "sub_relu": binary(then(sub)), "mul_relu": binary(then(mul)),
		"div":      {{in: []any{x, pos}, want: each2(div)}},
		"div_":     {{in: []any{x, pos}, want: each2(div)}},
		"div_relu": {{in: []any{x, pos}, want: each2(then(div))}},
		"pow":      {{in: []any{pos, y}, want: each2(math.Pow)}},
		"add_bias": {{in: []any{x, row}, want: each2(add)}},
	}
	maps.Copy(m, map[string][]sample{
		"add_scalar": {{Attributes{"value": 1.5}, []any{x}, each1(func(x float64) float64 { return x + 1.5 }), 0}},
		"mul_scalar": {{Attributes{"value": -2.0}, []any{x}, each1(func(x float64) float64 { return -2 * x }), 0}},
		"pow_scalar": {{Attributes{"value": 3.0}, []any{pos}, each1(func(x float64) float64 { return x * x * x }), 0}},
		"affine":     {{Attributes{"scale": 0.5, "shift": 2.0}, []any{x}, each1(func(x float64) float64 { return x/2 + 2 }), 0}},

		"mul_add": {{in: []any{x, row, y}, want: func(in [][]float64) []float64 {
			out := make([]float64, 12)
			for i := range out {
				out[i] = in[0][i]*in[1][i%4] + in[2][i]
			}
			return out
		}}},
		"copy_": {{in: []any{x, y}, want: func(in [][]float64) []float64 { return slices.Clone(in[1]) }},
			{in: []any{x, row}, want: func(in [][]float64) []float64 { return slices.Concat(in[1], in[1], in[1]) }}},

		"reshape":      {{Attributes{"shape": nums(2, -1)}, []any{x}, pick(12, func(i int) int { return i }), 0}},
		"transpose":    {{nil, []any{x}, pick(12, func(i int) int { return i%3*4 + i/3 }), 0}},
		"permute":      {{Attributes{"perm": nums(1, 0)}, []any{x}, pick(12, func(i int) int { return i%3*4 + i/3 }), 0}},
		"nchw_to_nhwc": {{nil, []any{map4}, pick(120, func(i int) int { return i/60*60 + i%3*20 + i%60/3 }), 0}},
		"nhwc_to_nchw": {{nil, []any{wave(2, 5, 4, 3)}, pick(120, func(i int) int { return i/60*60 + i%20*3 + i%60/20 }), 0}},
		"split":        {{Attributes{"axis": 1.0, "sizes": nums(1, 3)}, []any{x}, pick(3, func(i int) int { return i * 4 }), 0}},
		"chunk":        {{Attributes{"axis": -1.0, "n": 2.0}, []any{x}, pick(6, func(i int) int { return i/2*4 + i%2 }), 0}},
		"broadcast":    {{Attributes{"shape": nums(2, 3, 4)}, []any{row}, pick(24, func(i int) int { return i % 4 }), 0}},
		"slice":        {{Attributes{"begin": nums(2, 0), "end": nums(-1, 4), "step": nums(-2, 1)}, []any{x}, pick(8, func(i int) int { return 8 - i/4*8 + i%4 }), 0}},
		"embedding":    {{nil, []any{x, hot}, pick(12, func(i int) int { return int(hot[i/4])*4 + i%4 }), 0}},
		"gather":       {{Attributes{"axis": 1.0}, []any{x, hot}, pick(9, func(i int) int { return i/3*4 + int(hot[i%3]) }), 0}},
		"scatter": {{in: []any{x, hot, y}, want: func(in [][]float64) []float64 {
			out := slices.Clone(in[0])
			for k := range 4 {
				out[k], out[8+k] = in[2][4+k], (in[2][k]+in[2][8+k])/2
			}
			return out
		}}},
		"scatter_add": with(Attributes{"rows": 4.0}, x, hot),
		"concat":      {{attributes: Attributes{"axis": 0.0}, in: []any{x, y}, want: func(in [][]float64) []float64 { return append(slices.Clone(in[0]), in[1]...) }}},
		"pad":         with(Attributes{"before": nums(1, 0), "after": nums(0, 2), "value": 7.0}, x),
		"cast":        with(Attributes{"to": "f32"}, x),
		"im2col": {{Attributes{"kernel": 2.0}, []any{map4}, pick(288, func(i int) int { // [2, 3*2*2, 4*3]
			b, c, k, p := i/144, i%144/48, i%48/12, i%12
			return ((b*3+c)*5+p/3+k/2)*4 + p%3 + k%2
		}), 0}, {Attributes{"kernel": nums(2, 3)}, []any{map4}, pick(288, func(i int) int { // [2, 3*2*3, 4*2]
			b, c, k, p := i/144, i%144/48, i%48/8, i%8
			return ((b*3+c)*5+p/2+k/3)*4 + p%2 + k%3
		}), 0}},
		"col2im": append(with(Attributes{"channels": 3.0, "height": 5.0, "width": 4.0, "kernel": 2.0}, wave(2, 12, 12)),
			sample{Attributes{"channels": 3.0, "height": 5.0, "width": 4.0, "kernel": nums(3, 2)}, []any{wave(2, 18, 9)}, func(in [][]float64) []float64 {
				out := make([]float64, 120)
				for i, v := range in[0] {
					b, c, k, p := i/162, i%162/54, i%54/9, i%9
					out[((b*3+c)*5+p/3+k/2)*4+p%3+k%2] += v
				}
				return out
			}, 0}),
	})
	maps.Copy(m, map[string][]sample{
		"matmul": plain(x, wave(4, 5)), "matmul_transposed": plain(x, w), "matmul_activation": with(Attributes{"activation": "gelu"}, x, wave(4, 5)),
		"matmul_bias": plain(x, wave(4, 5), b), "einsum": with(Attributes{"spec": "ij,kj->ik"}, x, w),
		"linear":     append(with(Attributes{"activation": "tanh"}, x, w, b), plain(x, w)...),
		"linear_add": append(plain(x, w, b, wave(3, 5)), plain(x, w, nil, wave(3, 5))...), "linear_add_gelu": plain(x, w, b, wave(3, 5)),
		"linear_residual_relu": plain(x, w, nil, wave(3, 5)), "gelu_linear": plain(x, w, b), "layer_norm_linear": plain(x, row, wave(4), w, b),
		"linear_batch_norm_relu": plain(x, w, b, wave(5), wave(5), wave(5), positive(5)), "attention_scores": with(Attributes{"scale": 0.3}, wave(2, 3, 8), wave(2, 4, 8)),
		"dropout_linear": with(Attributes{"p": 0.4, "seed": 3.0}, x, w, b), "dropout": with(Attributes{"p": 0.4, "seed": 3.0}, x),
		"softmax_cross_entropy": plain(x, hot),
		"linear_backward":       with(Attributes{"activation": "sigmoid"}, wave(3, 5), positive(3, 5), x, w, wave(5, 4), b),
		"activation_backward":   append(with(Attributes{"activation": "gelu"}, y, x), with(Attributes{"activation": "gelu_tanh"}, y, x)...),
		"softmax":               plain(x), "softmax_backward": with(Attributes{"axis": 0.0}, y, x),
		"layer_norm": plain(x, row, wave(4)), "layer_norm_backward": plain(y, x, row), "rms_norm": plain(x, row),
		"batch_norm": append(plain(map4, wave(3), wave(3), wave(3), positive(3)), plain(x, row, row, row, positive(4))...),
		"rope":       with(Attributes{"heads": 2.0, "rows": 2.0, "cols": 3.0}, wave(1, 6, 16)),
		"attention":  append(with(Attributes{"scale": 0.3}, qkv, wave(2, 2, 4, 8), wave(2, 2, 4, 8)), with(Attributes{"scale": 0.3}, qkv, qkv, qkv, wave(1, 1, 3, 3))...),
		"cumsum":     {{Attributes{"axis": 0.0}, []any{x}, cumulate, 0}},
		// The central difference of sum(gy * cumsum(x)) by each x: cumsum is linear, so
		// that any step is exact.
		"cumsum_backward": {{Attributes{"axis": 0.0}, []any{y}, func(in [][]float64) []float64 {
			gx := make([]float64, len(in[0]))
			for i := range gx {
				for _, h := range []float64{1, -1} {
					e := make([]float64, len(gx))
					e[i] = h
					for j, v := range cumulate([][]float64{e}) {
						gx[i] += h / 2 * v * in[0][j]
					}
				}
			}
			return gx
		}, 0}},
		"sum": append(plain(x), with(Attributes{"axes": nums(0)}, x)...), "mean": with(Attributes{"axes": nums(-1)}, x), "max": plain(x), "min": plain(x),
		"argmax": with(Attributes{"axis": 1.0}, x), "argmin": with(Attributes{"axis": 0.0}, x), "argmax_all": plain(x), "argmin_all": plain(x), "topk": with(Attributes{"k": 2.0}, x),
		"update_confusion_matrix": plain(wave(3, 4), hot, Array{make([]float32, 16), []int{4, 4}}),
		"conv2d":                  append(with(Attributes{"padding": 1.0, "activation": "relu"}, map4, w4, wave(2)), plain(map4, w4)...),
		"conv2d_backward":         with(Attributes{"stride": 2.0, "padding": 1.0}, wave(2, 2, 3, 2), map4, w4),
		"max_pool2d":              with(Attributes{"kernel": 2.0, "stride": 1.0}, map4), "avg_pool2d": with(Attributes{"kernel": 2.0, "stride": 2.0}, map4),
		"max_pool2d_backward": with(Attributes{"kernel": 2.0, "stride": 1.0}, wave(2, 3, 4, 3), map4),
		"mse_grad":            {{Attributes{"scale": 0.5}, []any{x, y}, each2(func(x, y float64) float64 { return (x - y) / 2 }), 0}},
		"adam_step":           {{attributes: Attributes{"lr": 0.01, "step": 2.0}, in: []any{x, y, wave(3, 4), pos}}},
	})
	return m
}

// operand i as a tensor, floats in type d; nil where the sample has none.
func (s *sample) operand(c *Context, i int, d DType, keep func(*Tensor, error) *Tensor) *Tensor {
	switch v := s.in[i].(type) {
	case Array:
		half, full := v.halves()
		if d == F16 {
			return keep(c.FromFloat16s(half, v.Shape...))
		}
		return keep(c.FromFloat32s(full, v.Shape...))
	case []int32:
		return keep(c.FromInt32s(v, len(v)))
	}
	return nil
}

// halves are the elements rounded to float16, in both types.
func (a Array) halves() (half []uint16, full []float32) {
	for _, e := range a.Data {
		half = append(half, dt.F16FromFloat32(e))
		full = append(full, dt.Float32FromF16(half[len(half)-1]))
	}
	return half, full
}

// call runs a sample with its floats in type d and returns the operands, the
// results and the operands' numbers; an operation without results has changed its
// operands.
func (s *sample) call(t *testing.T, c *Context, name string, d DType, keep func(*Tensor, error) *Tensor) (in, out []*Tensor, numbers [][]float64) {
	t.Helper()
	for i := range s.in {
		in = append(in, s.operand(c, i, d, keep))
		var plain []float64
		if v, ok := s.in[i].(Array); ok {
			_, full := v.halves()
			for _, e := range full {
				plain = append(plain, float64(e))
			}
		}
		numbers = append(numbers, plain)
	}
	out, err := c.Do(name, s.attributes, in...)
	if err != nil {
		t.Fatalf("%s: %v", named[name].sig.text, err)
	}
	for _, x := range out {
		keep(x, nil)
	}
	if len(out) == 0 {
		out = in
	}
	return in, out, numbers
}

// TestEveryOperation runs every operation by name in float32, against a plain loop
// where one is given, and in float16, against float32.
func TestEveryOperation(t *testing.T) {
	contexts(t, func(t *testing.T, c *Context) {
		all := samples()
		for _, op := range Operations() {
			if len(all[op.Name]) == 0 {
				t.Errorf("%s has no sample", op.Name)
			}
			for i, s := range all[op.Name] {
				t.Run(fmt.Sprint(op.Name, i), func(t *testing.T) { s.check(t, c, op.Name) })
			}
		}
	})
}

func (s *sample) check(t *testing.T, c *Context, name string) {
	keep := keeper(t)
	_, full, numbers := s.call(t, c, name, F32, keep)
	_, half, _ := s.call(t, c, name, F16, keep)
	for i, x := range full {
		if x == nil {
			continue
		}
		f := must[[]float32](t)(x.Float32s())
		h := must[[]float32](t)(half[i].Float32s())
		if s.want != nil && i == 0 {
			compare(t, "float32", f, s.want(numbers), 2e-6)
		}
		want := make([]float64, len(f))
		for k, v := range f {
			want[k] = float64(v)
		}
		limit := 2e-3
		if s.limit != 0 {
			limit = s.limit
		}
		if x.DType() == I32 {
			limit = 0
		}
		if d := half[i].DType(); x.DType() == F32 && d != F16 && !(name == "cast" || strings.Contains(name, "dropout") && i == 1) {
			t.Errorf("result %d of float16 is %v", i, d)
		}
		compare(t, "float16", h, want, limit)
	}
}

func compare(t *testing.T, what string, got []float32, want []float64, limit float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	top := 0.0
	for _, w := range want {
		top = max(top, math.Abs(w))
	}
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - w); !(d <= limit*max(top, 1e-3)) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], w)
		}
	}
}

// TestEveryOperationReleased: nil and a released tensor are errors everywhere.
func TestEveryOperationReleased(t *testing.T) {
	c, err := Open(Config{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keep := keeper(t)
	for name, list := range samples() {
		in, _, _ := list[0].call(t, c, name, F32, keep)
		for i, o := range in {
			if o == nil {
				continue
			}
			bad := slices.Clone(in)
			bad[i] = keep(o.Copy())
			bad[i].Release()
			if _, err := c.Do(name, list[0].attributes, bad...); !errors.Is(err, ErrReleased) {
				t.Errorf("%s, operand %d released: %v", name, i, err)
			}
			bad[i] = nil
			sig := named[name].sig
			if sig.operands[min(i, len(sig.operands)-1)].optional {
				continue
			}
			if _, err := c.Do(name, list[0].attributes, bad...); !errors.Is(err, ErrReleased) {
				t.Errorf("%s, operand %d nil: %v", name, i, err)
			}
			// Past the check of Do, the operation itself.
			run := func(bad []*Tensor) error {
				a, err := sig.arguments(list[0].attributes)
				if err != nil {
					t.Fatal(err)
				}
				for !sig.list && len(bad) < len(sig.operands) {
					bad = append(bad, nil)
				}
				_, err = named[name].run(c, bad, a)
				return err
			}
			if name == "copy" || strings.HasSuffix(name, "_") && i == 0 || name == "update_confusion_matrix" {
				continue // methods of the operand
			}
			if err := run(slices.Clone(bad)); !errors.Is(err, ErrReleased) {
				t.Errorf("%s itself, operand %d nil: %v", name, i, err)
			}
		}
	}
}

func TestNamedErrors(t *testing.T) {
	c, err := Open(Config{Backend: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keep := keeper(t)
	x, y := keep(c.Zeros(F32, 2, 3)), keep(c.Zeros(F32, 4, 5))
	half := keep(c.Zeros(F16, 2, 3))
	for _, e := range []struct {
		name string
		a    Attributes
		in   []*Tensor
		want error
		text []string
	}{
		{"sinh", nil, []*Tensor{x}, ErrOption, []string{"sinh"}},
		{"add", nil, []*Tensor{x}, ErrOption, []string{"1 tensors", "add(a, b)"}},
		{"add", nil, []*Tensor{x, x, x}, ErrOption, []string{"3 tensors"}},
		{"softmax", Attributes{"axes": 1.0}, []*Tensor{x}, ErrOption, []string{"axes"}},
		{"softmax", Attributes{"axis": 1.5}, []*Tensor{x}, ErrOption, []string{"axis", "1.5"}},
		{"softmax", Attributes{"axis": "1"}, []*Tensor{x}, ErrOption, []string{"string"}},
		{"softmax", Attributes{"axis": 2.0}, []*Tensor{x}, ErrShape, []string{"axis 2"}},
		{"argmax", nil, []*Tensor{x}, ErrOption, []string{"axis", "missing"}},
		{"permute", Attributes{"perm": nums(0, 0.5)}, []*Tensor{x}, ErrOption, []string{"element 1"}},
		{"permute", Attributes{"perm": nums(0, 0)}, []*Tensor{x}, ErrShape, nil},
		{"linear", Attributes{"activation": "swish"}, []*Tensor{x, x}, ErrOption, []string{"swish"}},
		{"activation_backward", Attributes{"activation": "swish"}, []*Tensor{x, x}, ErrOption, []string{"swish"}},
		{"cast", Attributes{"to": "f64"}, []*Tensor{x}, ErrDType, []string{"f64"}},
		{"matmul", nil, []*Tensor{x, y}, ErrShape, []string{"[2,3]", "[4,5]"}},
		{"add", nil, []*Tensor{x, y}, ErrShape, []string{"[2,3]", "[4,5]"}},
		{"add_", nil, []*Tensor{x, y}, ErrShape, []string{"[2,3]", "[4,5]"}},
		{"add_", nil, []*Tensor{keep(c.Zeros(F32, 3)), x}, ErrShape, []string{"[2,3]", "[3]"}},
		{"add_bias", nil, []*Tensor{x, y}, ErrShape, []string{"[2,3]", "[4,5]"}},
		{"add", nil, []*Tensor{x, half}, ErrDType, []string{"f32[2,3]", "f16[2,3]"}},
		{"linear", nil, []*Tensor{x, y}, ErrShape, []string{"[2,3]", "[4,5]"}},
		{"concat", Attributes{"axis": 0.0}, []*Tensor{x, y}, ErrShape, []string{"[2,3]", "[4,5]"}},
		{"conv2d", Attributes{"stride": -1.0}, []*Tensor{x, y}, ErrOption, []string{"stride -1"}},
		{"dropout", Attributes{"p": 1.0, "seed": 0.0}, []*Tensor{x}, ErrOption, []string{"probability 1"}},
		{"im2col", Attributes{"kernel": 2.0, "padding": 1e9}, []*Tensor{keep(c.Zeros(F32, 1, 1, 4, 4))}, ErrShape, []string{"padding 1000000000"}},
		{"reshape", Attributes{"shape": nums(1<<40, 1<<40)}, []*Tensor{x}, ErrShape, nil},
		{"embedding", nil, []*Tensor{x, keep(c.FromInt32s([]int32{0, 2}, 2))}, ErrOption, []string{"index 2 of an axis of 2"}},
		{"scatter_add", Attributes{"rows": 3.0}, []*Tensor{x, keep(c.FromInt32s([]int32{-5, 0}, 2))}, ErrOption, []string{"index -5 of an axis of 3"}},
		{"scatter", nil, []*Tensor{x, keep(c.Cast(keep(c.Full(9, 2)), I32)), x}, ErrOption, []string{"index 9"}},
		{"layer_norm", Attributes{"eps": 0.0}, []*Tensor{x, keep(c.Zeros(F32, 3)), keep(c.Zeros(F32, 3))}, ErrShape, []string{"epsilon 0"}},
		{"reshape", Attributes{"shape": nums(-1, 4)}, []*Tensor{x}, ErrShape, []string{"[2,3]", "[-1,4]"}},
	} {
		_, err := c.Do(e.name, e.a, e.in...)
		if !errors.Is(err, e.want) {
			t.Errorf("%s %v: %v, want %v", e.name, e.a, err, e.want)
			continue
		}
		for _, word := range e.text {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s %v: %v, want %q in it", e.name, e.a, err, word)
			}
		}
	}
	// Whatever failed has left nothing behind.
	if s := c.Stats(); s.LiveTensors != 11 {
		t.Errorf("%d live tensors, want 11", s.LiveTensors)
	}
}
