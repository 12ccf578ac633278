// SPDX-License-Identifier: Apache-2.0

//go:build unix

package metal_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/ref"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
	"github.com/mast3r-runtime/mast3r-runtime/tests/go/optest"
)

// random makes packed elements of any type, small enough for all of them.
func random(seed uint64, d tensor.DType, shape ...int) []byte {
	r := rand.New(rand.NewPCG(seed, 11))
	var b []byte
	le := binary.LittleEndian
	for range tensor.Shape(shape).Numel() {
		v := float32(r.NormFloat64())
		switch d {
		case tensor.F32:
			b = le.AppendUint32(b, math.Float32bits(v))
		case tensor.F64:
			b = le.AppendUint64(b, math.Float64bits(float64(v)))
		case tensor.F16:
			b = le.AppendUint16(b, tensor.F16FromFloat32(v))
		case tensor.BF16:
			b = le.AppendUint16(b, tensor.BF16FromFloat32(v))
		case tensor.I32:
			b = le.AppendUint32(b, uint32(r.IntN(3)))
		case tensor.I64:
			b = le.AppendUint64(b, uint64(r.IntN(3)))
		case tensor.U8:
			b = append(b, byte(r.IntN(256)))
		}
	}
	return b
}

func weight(g *graph.Graph, name string, d tensor.DType, shape ...int) *graph.Node {
	return g.Param(graph.Param{Name: name, Shape: shape, DType: d, Data: random(uint64(len(name)), d, shape...)})
}

// edges are the graphs that the conformance suite does not draw: other types,
// values without dimensions, results that are nobody's.
var edges = map[string]func(g *graph.Graph){
	"result is an input": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32, 2, 3)
		g.Output("y", x)
		g.Output("z", x)
	},
	"result is a weight": func(g *graph.Graph) {
		g.Input("unused", tensor.F32, 4)
		g.Output("y", weight(g, "w", tensor.F32, 2, 3))
		g.Output("h", weight(g, "half", tensor.F16, 3))
	},
	"one value, two results": func(g *graph.Graph) {
		y := g.Unary(graph.Exp, g.Input("x", tensor.F32, 5))
		g.Output("y", y)
		g.Output("z", y)
	},
	"no dimensions": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32)
		y := g.AddTo(g.Binary(graph.Mul, x, g.Scalar(3)), g.Input("v", tensor.F32))
		y = g.Add(graph.Slice{}, g.Add(graph.Pad{}, g.Transpose(y)))
		g.Output("y", g.Affine(y, 2, 1))
		g.Output("sum", g.Add(graph.Reduce{Axes: []int{0, 1}}, g.Input("m", tensor.F32, 3, 4)))
		g.Output("wide", g.Add(graph.Broadcast{Shape: tensor.Shape{2, 2}}, y))
	},
	"stored types": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32, 4, 8)
		for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.F64} {
			n := d.String()
			y := g.Linear(x, weight(g, "w"+n, d, 8, 8), weight(g, "b"+n, d, 8))
			y = g.LayerNorm(y, weight(g, "g"+n, d, 8), weight(g, "t"+n, d, 8), 1e-5)
			g.Output("n"+n, g.AddTo(y, weight(g, "r"+n, d, 1, 8)))
		}
	},
	"half values": func(g *graph.Graph) {
		x := g.Input("x", tensor.F16, 3, 8)
		y := g.Unary(graph.Gelu, g.Linear(x, weight(g, "w", tensor.F16, 8, 8), nil))
		g.Output("y", y)
		g.Output("f", g.Cast(g.Add(graph.Softmax{Axis: 1}, y), tensor.F32))
	},
	"casts": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32, 9)
		g.Output("h", g.Cast(x, tensor.F16))
		g.Output("b", g.Cast(g.Cast(x, tensor.BF16), tensor.F32))
		g.Output("i", g.Cast(g.Affine(x, 10, 0), tensor.I32))
		g.Output("p", g.Affine(g.Cast(g.Input("pixels", tensor.U8, 2, 3), tensor.F32), 1./255, 0))
	},
	"indices": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32, 3, 4)
		g.Output("a", g.Add(graph.Gather{Axis: 0}, x, g.Input("i", tensor.I64, 2, 2)))
		g.Output("b", g.Add(graph.Gather{Axis: -1}, x, weight(g, "i", tensor.I32, 5)))
		g.Output("top", g.Add(graph.TopK{K: 2, Index: true}, x))
		g.Output("last", g.Add(graph.ArgReduce{Axis: -1}, x))
	},
	"mixed concat": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32, 2, 4)
		y := g.Linear(x, weight(g, "w", tensor.F32, 4, 4), nil)
		g.Output("y", g.Linear(g.Concat(0, x, y, g.Unary(graph.Exp, x)), weight(g, "v", tensor.F32, 3, 4), nil))
	},
	"one pixel": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32, 1, 4, 3, 5)
		g.Output("y", g.Bilinear(x, 1, 7))
		g.Output("s", g.Add(graph.Resize2D{H: 6, W: 2, Mode: graph.Bilinear, ScaleH: 0.9, ScaleW: 1.7}, x))
		g.Output("c", g.Add(graph.Resize2D{H: 3, W: 4, Mode: graph.Bicubic, AlignCorners: true}, x))
		g.Output("k", g.Add(graph.ConvTranspose2D{Stride: 2, Bias: true}, x, weight(g, "w", tensor.F32, 5, 3, 2, 3), weight(g, "b", tensor.F32, 3)))
	},
	"vectors": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32, 6)
		g.Output("l", g.Linear(x, weight(g, "w", tensor.F32, 4, 6), weight(g, "b", tensor.F32, 4)))
		g.Output("s", g.Add(graph.Softmax{Axis: -1}, x))
		g.Output("n", g.Add(graph.L2Normalize{}, x))
	},
	"mask of two dimensions": func(g *graph.Graph) {
		q, m := g.Input("q", tensor.F32, 2, 3, 8), g.Input("m", tensor.F32, 3, 3)
		g.Output("y", g.Add(graph.Attention{Heads: 2, Scale: 0.5, Mask: true}, q, q, q, m))
	},
	// Heads that are split at once, and what looks like it: a third with another
	// reader, thirds in another order, of another width, of two projections.
	"thirds": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32, 2, 6, 8)
		qkv := func(name string) *graph.Node { return g.Linear(x, weight(g, name, tensor.F32, 24, 8), nil) }
		cut := func(n *graph.Node, from, to int) *graph.Node { return g.SliceAxis(n, 2, from, to) }
		a, b := qkv("a"), qkv("bb")
		rope := graph.Rope{Rows: 2, Cols: 3, Base: 100}
		g.Output("plain", g.Attention(cut(a, 0, 8), cut(a, 8, 16), cut(a, 16, 24), 2, 0.5))
		q, k := g.RoPE(cut(b, 0, 8), 2, rope), g.RoPE(cut(b, 8, 16), 2, rope)
		g.Output("turned", g.Attention(q, k, cut(b, 16, 24), 2, 0.3))
		v := cut(a, 16, 24)
		g.Output("v", v)
		g.Output("shared", g.Attention(cut(a, 0, 8), cut(a, 8, 16), v, 2, 0.3))
		g.Output("swapped", g.Attention(cut(a, 8, 16), cut(a, 0, 8), cut(a, 16, 24), 2, 0.5))
		g.Output("one", g.Attention(cut(a, 0, 8), cut(a, 0, 8), cut(a, 0, 8), 2, 0.5))
		g.Output("two", g.Attention(cut(a, 0, 8), cut(b, 8, 16), cut(b, 16, 24), 2, 0.5))
		g.Output("off", g.Attention(cut(a, 0, 8), cut(a, 4, 12), cut(a, 8, 16), 2, 0.5))
	},
	// One value in three layer norms: its mean and variance are made once.
	"norms of one value": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32, 3, 8)
		n := func(name string) *graph.Node {
			return g.LayerNorm(x, weight(g, name, tensor.F32, 8), weight(g, name+"b", tensor.F32, 8), 1e-5)
		}
		g.Output("y", g.Linear(g.AddTo(n("a"), n("cc")), weight(g, "w", tensor.F32, 4, 8), nil))
		g.Output("z", n("eeee"))
	},
	// MPSGraph multiplies and sorts values of at most four dimensions.
	"five dimensions": func(g *graph.Graph) {
		x := g.Input("x", tensor.F32, 2, 1, 3, 4, 5)
		g.Output("matmul", g.Add(graph.MatMul{}, x, g.Input("y", tensor.F32, 2, 1, 5, 6)))
		g.Output("matrix", g.Add(graph.MatMul{TransB: true}, x, g.Input("z", tensor.F32, 3, 5)))
		g.Output("top", g.Add(graph.TopK{K: 2}, x))
		g.Output("index", g.Add(graph.TopK{K: 2, Index: true}, x))
	},
	"constants only": func(g *graph.Graph) {
		g.Output("y", g.AddTo(weight(g, "a", tensor.F32, 3), weight(g, "b", tensor.F32, 2, 1)))
	},
}

func TestEdges(t *testing.T) {
	b, _ := open(t, metal.Config{})
	for name, build := range edges {
		for _, c := range []struct {
			opt   backend.Options
			limit float64
		}{{fp32, 2e-6}, {fp16, 6e-3}, {bf16, 2e-2}} {
			t.Run(name+"/"+c.opt.Precision.String(), func(t *testing.T) {
				g := graph.New(name)
				build(g)
				if _, err := g.Build(); err != nil {
					t.Fatal(err)
				}
				edge(t, optest.Backend(b, c.opt), g, c.limit)
			})
		}
	}
}

func edge(t *testing.T, run optest.Runner, g *graph.Graph, limit float64) {
	t.Helper()
	var in [][]byte
	var values []ref.Tensor
	for i, n := range g.Inputs {
		data := random(uint64(i)+100, n.DType, n.Shape...)
		v, err := ref.Decode(n.DType, n.Shape, data)
		if err != nil {
			t.Fatal(err)
		}
		in, values = append(in, data), append(values, v)
	}
	want, err := ref.Run(g, values)
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(g, in)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range g.Outputs {
		got, err := ref.Decode(o.Node.DType, o.Node.Shape, out[i])
		if err != nil {
			t.Fatal(err)
		}
		l := limit
		if slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.DType == tensor.F16 }) {
			l = max(l, 1e-3) // the reference does not round them
		}
		var d, n float64
		for j, w := range want[i].Data {
			d += (got.Data[j] - w) * (got.Data[j] - w)
			n += w * w
		}
		if e := math.Sqrt(d / max(n, 1e-30)); !(e <= l) {
			t.Errorf("output %s: relative L2 %.3g, want <= %.3g\ngot  %v\nwant %v", o.Name, e, l, head(got.Data), head(want[i].Data))
		}
	}
}

func head(v []float64) []float64 { return v[:min(len(v), 8)] }

// TestUnsupported are graphs that MPSGraph cannot run: an error, not an abort.
func TestUnsupported(t *testing.T) {
	b, _ := open(t, metal.Config{})
	for name, build := range map[string]func(g *graph.Graph){
		"float64 input": func(g *graph.Graph) { g.Output("y", g.Unary(graph.Neg, g.Input("x", tensor.F64, 3))) },
		"empty value":   func(g *graph.Graph) { g.Output("y", g.Unary(graph.Neg, g.Input("x", tensor.F32, 0, 3))) },
		"long product": func(g *graph.Graph) {
			g.Output("y", g.Add(graph.MatMul{}, g.Input("a", tensor.F32, 1, 40000), g.Input("b", tensor.F32, 40000, 1)))
		},
		"too many dimensions": func(g *graph.Graph) {
			g.Output("y", g.Unary(graph.Neg, g.Input("x", tensor.F32, slices.Repeat([]int{1}, 17)...)))
		},
		"huge scores": func(g *graph.Graph) {
			q := g.Input("q", tensor.F32, 1, 50000, 4)
			g.Output("y", g.Attention(q, q, q, 1, 1))
		},
	} {
		g := graph.New(name)
		build(g)
		if _, err := g.Build(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p, err := b.Compile(background, g, fp32)
		if err == nil {
			t.Errorf("%s compiled", name)
			p.Close()
		}
	}
}

// TestEveryAllocationMayFail lets the n-th allocation of a small network's life
// fail, for every n: each time a typed error and nothing left behind.
func TestEveryAllocationMayFail(t *testing.T) {
	b, s := open(t, metal.Config{})
	g := graph.New("network")
	x := g.Input("x", tensor.F32, 1, 6, 16)
	q := g.RoPE(g.Linear(x, weight(g, "q", tensor.F32, 16, 16), weight(g, "qb", tensor.F32, 16)), 2, graph.Rope{Rows: 2, Cols: 3, Base: 100})
	y := g.Attention(q, q, x, 2, 0.3)
	g.Output("y", g.LayerNorm(g.AddTo(x, y), weight(g, "g", tensor.F32, 16), weight(g, "b", tensor.F32, 16), 1e-5))
	if _, err := g.Build(); err != nil {
		t.Fatal(err)
	}
	in := [][]byte{random(1, tensor.F32, 1, 6, 16)}
	failures := 0
	for n := 1; n < 100; n++ {
		b.Trim()
		s.Set("fail_alloc", string('0'+byte(n/10))+string('0'+byte(n%10)))
		_, err := optest.Backend(b, fp16)(g, in)
		s.Set("fail_alloc", "0")
		if err == nil {
			break
		}
		failures++
		if !errors.Is(err, device.ErrOutOfMemory) {
			t.Errorf("allocation %d: %v", n, err)
		}
		if st := b.Stats(); st.MappedBytes+st.CopiedBytes+st.TableBytes != 0 || b.Device().LiveBuffers != 0 {
			t.Errorf("allocation %d left %+v, %d buffers", n, st, b.Device().LiveBuffers)
		}
	}
	if failures < 8 {
		t.Errorf("only %d allocations failed", failures)
	}
}
