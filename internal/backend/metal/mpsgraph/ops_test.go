// SPDX-License-Identifier: Apache-2.0

//go:build unix

package mpsgraph_test

import (
	"math"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

type (
	graph  = mpsgraph.Graph
	value  = mpsgraph.Tensor
	values = []*mpsgraph.Tensor
	shape  = tensor.Shape
)

// one runs a graph with one result.
func (g *gpu) one(in []array, build func(*graph, values) *value) array {
	g.t.Helper()
	out, err := g.run(in, func(m *graph, x values) values { return values{build(m, x)} })
	if err != nil {
		g.t.Fatal(err)
	}
	return out[0]
}

var sine = mpsgraph.Function("sin", "sin")

func TestElementwise(t *testing.T) {
	g := open(t)
	x := f32(shape{2, 3}, 0.5, 1, 1.5, 2, 0.25, 3)
	neg := func(f func(float64) float64) func(float64) float64 { return func(v float64) float64 { return f(-v) } }
	for name, c := range map[string]struct {
		op   func(m *graph, x *value) *value
		want func(float64) float64
	}{
		"abs":        {func(m *graph, x *value) *value { return m.Abs(m.Neg(x)) }, math.Abs},
		"neg":        {(*graph).Neg, neg(func(v float64) float64 { return v })},
		"exp":        {(*graph).Exp, math.Exp},
		"log":        {(*graph).Log, math.Log},
		"sqrt":       {(*graph).Sqrt, math.Sqrt},
		"rsqrt":      {(*graph).Rsqrt, func(v float64) float64 { return 1 / math.Sqrt(v) }},
		"reciprocal": {(*graph).Reciprocal, func(v float64) float64 { return 1 / v }},
		"square":     {(*graph).Square, func(v float64) float64 { return v * v }},
		"sin":        {sine, math.Sin},
		"tanh":       {(*graph).Tanh, math.Tanh},
		"sigmoid":    {(*graph).Sigmoid, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }},
		"erf":        {(*graph).Erf, math.Erf},
		"relu":       {func(m *graph, x *value) *value { return m.ReLU(m.Sub(x, m.Scalar(1, tensor.F32))) }, func(v float64) float64 { return max(v-1, 0) }},
		"identity":   {(*graph).Identity, func(v float64) float64 { return v }},
	} {
		w := make([]float64, len(x.v))
		for i, v := range x.v {
			w[i] = c.want(v)
		}
		want(t, name, g.one([]array{x}, func(m *graph, in values) *value { return c.op(m, in[0]) }), 1e-6, w...)
	}
}

func TestBinaryBroadcasts(t *testing.T) {
	g := open(t)
	a, b := f32(shape{2, 1}, 3, -2), f32(shape{3}, 1, 2, 4)
	for name, c := range map[string]struct {
		op func(m *graph, a, b *value) *value
		f  func(a, b float64) float64
	}{
		"add":    {(*graph).Add, func(a, b float64) float64 { return a + b }},
		"sub":    {(*graph).Sub, func(a, b float64) float64 { return a - b }},
		"mul":    {(*graph).Mul, func(a, b float64) float64 { return a * b }},
		"div":    {(*graph).Div, func(a, b float64) float64 { return a / b }},
		"max":    {(*graph).Maximum, math.Max},
		"min":    {(*graph).Minimum, math.Min},
		"pow":    {func(m *graph, a, b *value) *value { return m.Pow(m.Abs(a), b) }, func(a, b float64) float64 { return math.Pow(math.Abs(a), b) }},
		"select": {func(m *graph, a, b *value) *value { return m.Select(m.Less(a, b), a, b) }, math.Min},
		"equal": {func(m *graph, a, b *value) *value { return m.Cast(m.Equal(a, b), tensor.F32) }, func(a, b float64) float64 {
			if a == b {
				return 1
			}
			return 0
		}},
		"greater": {func(m *graph, a, b *value) *value { return m.Cast(m.Greater(a, b), tensor.F32) }, func(a, b float64) float64 {
			if a > b {
				return 1
			}
			return 0
		}},
	} {
		var w []float64
		for _, x := range a.v {
			for _, y := range b.v {
				w = append(w, c.f(x, y))
			}
		}
		want(t, name, g.one([]array{a, b}, func(m *graph, x values) *value { return c.op(m, x[0], x[1]) }), 1e-6, w...)
	}
	nan := f32(shape{1}, math.NaN())
	want(t, "maximum of NaN", g.one([]array{nan, f32(shape{1}, 1)}, func(m *graph, x values) *value { return m.Maximum(x[0], x[1]) }), 0, math.NaN())
}

func TestShapesOps(t *testing.T) {
	g := open(t)
	x := f32(shape{2, 3}, 1, 2, 3, 4, 5, 6)
	idx := i32(shape{2, 2}, 2, 0, 1, 1)
	out, err := g.run([]array{x, idx}, func(m *graph, in values) values {
		a := in[0]
		s := m.Split(a, 1, 1, 2)
		return values{
			m.Transpose(a, 1, 0), m.Slice(a, []int{0, 0}, []int{2, 3}, []int{1, 2}), m.Concat(-1, a, a), s[0], s[1],
			m.Pad(a, []int{1, 0}, []int{0, 1}, -1), m.Broadcast(m.Reshape(a, 2, 1, 3), 2, 2, 3), m.Gather(a, in[1], 1),
			m.ScatterAdd(a, m.Gather(a, m.Reshape(m.Slice(in[1], []int{1, 0}, []int{2, 2}, []int{1, 1}), 2), -1),
				m.Reshape(m.Slice(in[1], []int{1, 0}, []int{2, 2}, []int{1, 1}), 2), 1),
			m.Reverse(a, -1),
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name string
		want []float64
	}{
		{"transpose", []float64{1, 4, 2, 5, 3, 6}},
		{"slice", []float64{1, 3, 4, 6}},
		{"concat", []float64{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
		{"split 0", []float64{1, 4}},
		{"split 1", []float64{2, 3, 5, 6}},
		{"pad", []float64{-1, -1, -1, -1, 1, 2, 3, -1, 4, 5, 6, -1}},
		{"broadcast", []float64{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
		{"gather", []float64{3, 1, 2, 2, 6, 4, 5, 5}},
		{"scatter", []float64{1, 6, 3, 4, 15, 6}},
		{"reverse", []float64{3, 2, 1, 6, 5, 4}},
	} {
		want(t, c.name, out[i], 0, c.want...)
	}
}

func TestReductions(t *testing.T) {
	g := open(t)
	x := f32(shape{2, 3}, 5, -1, 2, 0, 7, 7)
	out, err := g.run([]array{x}, func(m *graph, in values) values {
		a := in[0]
		v, i := m.TopK(a, 1, 2)
		mean := m.Mean(a, -1)
		return values{m.Sum(a, 1), m.Max(a, 0), m.Min(a, 0, 1), mean, m.Variance(a, mean, -1), m.ArgMax(a, 1), m.ArgMin(a, 0), v, i, m.Softmax(a, 1)}
	})
	if err != nil {
		t.Fatal(err)
	}
	e := func(rows ...[]float64) (w []float64) {
		for _, r := range rows {
			sum := 0.0
			for _, v := range r {
				sum += math.Exp(v)
			}
			for _, v := range r {
				w = append(w, math.Exp(v)/sum)
			}
		}
		return w
	}
	for i, w := range [][]float64{
		{6, 14}, {5, 7, 7}, {-1}, {2, 14. / 3}, {6, 98. / 9}, {0, 1}, {1, 0, 0}, {5, 2, 7, 7}, {0, 2, 1, 2},
		e([]float64{5, -1, 2}, []float64{0, 7, 7}),
	} {
		want(t, "reduction "+string(rune('0'+i)), out[i], 1e-6, w...)
	}
}

// TestConvGradients checks both gradients against the definition: for
// y = conv(x, w), sum(dy*y) is bilinear, so its derivatives are exact sums.
func TestConvGradients(t *testing.T) {
	g := open(t)
	c := mpsgraph.Conv{Stride: 2, Pad: 1, Dilation: 1, Groups: 1}
	x, w := ramp(tensor.F32, 2, 5, 6, 3), ramp(tensor.F32, 4, 3, 3, 3)
	dy := ramp(tensor.F32, 2, 3, 3, 4)
	out, err := g.run([]array{x, w, dy}, func(m *graph, in values) values {
		return values{m.Conv2DDataGradient(in[2], in[1], shape{2, 5, 6, 3}, c), m.Conv2DWeightsGradient(in[2], in[0], shape{4, 3, 3, 3}, c)}
	})
	if err != nil {
		t.Fatal(err)
	}
	dx, dw := make([]float64, len(x.v)), make([]float64, len(w.v))
	at := func(s shape, i ...int) int {
		n := 0
		for k, d := range s {
			n = n*d + i[k]
		}
		return n
	}
	for b := range 2 {
		for oy := range 3 {
			for ox := range 3 {
				for o := range 4 {
					d := dy.v[at(dy.shape, b, oy, ox, o)]
					for ky := range 3 {
						for kx := range 3 {
							iy, ix := oy*2+ky-1, ox*2+kx-1
							if iy < 0 || iy >= 5 || ix < 0 || ix >= 6 {
								continue
							}
							for ch := range 3 {
								xi, wi := at(x.shape, b, iy, ix, ch), at(w.shape, o, ch, ky, kx)
								dx[xi] += d * w.v[wi]
								dw[wi] += d * x.v[xi]
							}
						}
					}
				}
			}
		}
	}
	want(t, "data gradient", out[0], 1e-5, dx...)
	want(t, "weights gradient", out[1], 1e-5, dw...)
}

func TestPoolGradients(t *testing.T) {
	g := open(t)
	x := f32(shape{1, 3, 3, 1}, 1, 2, 3, 4, 9, 5, 6, 7, 8)
	dy := f32(shape{1, 2, 2, 1}, 1, 10, 100, 1000)
	p := mpsgraph.Pool{Kernel: [2]int{2, 2}, Stride: [2]int{1, 1}}
	out, err := g.run([]array{x, dy}, func(m *graph, in values) values {
		return values{m.MaxPool2DGradient(in[1], in[0], p), m.AvgPool2DGradient(in[1], in[0], p), m.MaxPool2D(in[0], p), m.AvgPool2D(in[0], p)}
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "max gradient", out[0], 0, 0, 0, 0, 0, 1111, 0, 0, 0, 0)
	want(t, "avg gradient", out[1], 1e-6, .25, 2.75, 2.5, 25.25, 277.75, 252.5, 25, 275, 250)
	want(t, "max", out[2], 0, 9, 9, 9, 9)
	want(t, "avg", out[3], 1e-6, 4, 4.75, 6.5, 7.25)
}

// TestAttentionByHand holds the two attentions against each other and the
// definition, with a mask that broadcasts.
func TestAttentions(t *testing.T) {
	g := open(t)
	for _, d := range []tensor.DType{tensor.F32, tensor.F16} {
		q, k, v := ramp(d, 2, 3, 4, 8), ramp(d, 2, 3, 5, 8), ramp(d, 2, 3, 5, 8)
		mask := ramp(d, 1, 1, 4, 5)
		out, err := g.run([]array{q, k, v, mask}, func(m *graph, x values) values {
			return values{
				m.Cast(m.Attention(x[0], x[1], x[2], x[3], 0.25), tensor.F32), m.Cast(m.AttentionByHand(x[0], x[1], x[2], x[3], 0.25), tensor.F32),
				m.Cast(m.Attention(x[0], x[1], x[2], nil, 0.25), tensor.F32), m.Cast(m.AttentionByHand(x[0], x[1], x[2], nil, 0.25), tensor.F32),
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		limit := map[tensor.DType]float64{tensor.F32: 1e-6, tensor.F16: 4e-3}[d]
		for i, masked := range []bool{true, true, false, false} {
			var w []float64
			for bh := range 6 {
				for r := range 4 {
					p, sum := make([]float64, 5), 0.0
					for j := range p {
						for e := range 8 {
							p[j] += 0.25 * q.v[(bh*4+r)*8+e] * k.v[(bh*5+j)*8+e]
						}
						if masked {
							p[j] += mask.v[r*5+j]
						}
						p[j] = math.Exp(p[j])
						sum += p[j]
					}
					for e := range 8 {
						s := 0.0
						for j := range p {
							s += p[j] / sum * v.v[(bh*5+j)*8+e]
						}
						w = append(w, s)
					}
				}
			}
			want(t, d.String()+" attention "+string(rune('0'+i)), out[i], limit, w...)
		}
	}
}

// TestAttentionByHandIsNotRecognised: MPSGraph must not see softmax(q k^T) v and put its
// fused kernel there, which leaks: a number is added between, in any precision.
func TestAttentionByHandIsNotRecognised(t *testing.T) {
	s := metalsim.Open(t)
	g := open(t)
	for _, d := range []tensor.DType{tensor.F32, tensor.F16} {
		q := ramp(d, 1, 2, 4, 8)
		if _, err := g.run([]array{q}, func(m *graph, x values) values {
			return values{m.Cast(m.AttentionByHand(x[0], x[0], x[0], nil, 1), tensor.F32)}
		}); err != nil {
			t.Fatal(err)
		}
		text := s.Program()
		if strings.Count(text, "n addition") != 1 {
			t.Errorf("%v: nothing is added to the scores:\n%s", d, text)
		}
	}
}

// TestFeedsInAnyOrder has more feeds than MPSGraph keeps in order, and one that
// nothing reads.
func TestFeedsInAnyOrder(t *testing.T) {
	g := open(t)
	in := make([]array, 12)
	for i := range in {
		in[i] = f32(shape{1}, float64(i+1))
	}
	out, err := g.run(in, func(m *graph, x values) values {
		sum := x[0]
		var all values
		for i := 1; i < 11; i++ { // not the last one
			sum = m.Add(m.Mul(sum, m.Scalar(2, tensor.F32)), x[i])
			all = append(all, sum)
		}
		return all
	})
	if err != nil {
		t.Fatal(err)
	}
	s := 1.0
	for i, o := range out {
		s = 2*s + float64(i+2)
		want(t, "sum", o, 0, s)
	}
}

// TestDataAtOffset feeds a tensor from the middle of a buffer.
func TestDataAtOffset(t *testing.T) {
	g := open(t)
	b, err := g.NewBuffer(256)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	r, err := g.NewBuffer(24)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	copy(b.Bytes()[100:], f32(shape{2, 3}, 1, 2, 3, 4, 5, 6).encode())
	err = g.Do(func() error {
		m := mpsgraph.NewGraph()
		defer m.Release()
		x := m.Placeholder(shape{2, 3}, tensor.F32, "")
		exe, err := m.Compile(g.Device, values{x}, values{m.Neg(x)})
		if err != nil {
			return err
		}
		defer exe.Release()
		in, err := mpsgraph.NewData(b, 100, shape{2, 3}, tensor.F32)
		if err != nil {
			return err
		}
		defer in.Release()
		out, err := mpsgraph.NewData(r, 0, shape{2, 3}, tensor.F32)
		if err != nil {
			return err
		}
		defer out.Release()
		for name, bad := range map[string]func() error{
			"misaligned":   func() error { _, err := mpsgraph.NewData(b, 101, shape{2}, tensor.F32); return err },
			"beyond":       func() error { _, err := mpsgraph.NewData(b, 236, shape{2, 3}, tensor.F32); return err },
			"negative":     func() error { _, err := mpsgraph.NewData(b, -4, shape{1}, tensor.F32); return err },
			"no such type": func() error { _, err := mpsgraph.NewData(b, 0, shape{1}, tensor.F64); return err },
			"empty":        func() error { _, err := mpsgraph.NewData(b, 0, shape{0}, tensor.F32); return err },
		} {
			if bad() == nil {
				t.Errorf("%s data passed", name)
			}
		}
		cb, err := g.q.NewCommandBuffer("")
		if err != nil {
			return err
		}
		defer cb.Release()
		if exe.Encode(cb, nil, nil) == nil || exe.Encode(cb, []*mpsgraph.Data{nil}, []*mpsgraph.Data{out}) == nil ||
			exe.Encode(cb, []*mpsgraph.Data{in}, []*mpsgraph.Data{nil}) == nil {
			t.Error("missing data passed")
		}
		if err := exe.Encode(cb, []*mpsgraph.Data{in}, []*mpsgraph.Data{out}); err != nil {
			return err
		}
		if err := cb.Commit(); err != nil {
			return err
		}
		return cb.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	got := array{shape: shape{2, 3}, dtype: tensor.F32}
	got.decode(r.Bytes())
	want(t, "negated", got, 0, -1, -2, -3, -4, -5, -6)
	_ = device.ErrClosed
}
