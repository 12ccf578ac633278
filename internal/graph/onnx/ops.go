// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// operation emits a node of the graph as ONNX nodes and returns the name of
// their result.
func (e *exporter) operation(n *graph.Node) (string, error) {
	in := make([]string, len(n.In))
	for i, x := range n.In {
		in[i] = e.names[x.ID]
	}
	switch o := n.Op.(type) {
	case graph.Unary:
		return e.unary(o.Fn, in[0])
	case graph.Binary:
		op := o.Fn.Names().ONNX
		if op == "" {
			return "", fmt.Errorf("%w: %s", ErrUnsupported, o.Kind())
		}
		return e.op(op, in), nil
	case graph.Affine:
		x := in[0]
		if o.Scale != 1 {
			x = e.op("Mul", []string{x, e.scalar(o.Scale)})
		}
		return e.op("Add", []string{x, e.scalar(o.Shift)}), nil
	case graph.Cast:
		return e.op("Cast", in, attribute{"to", dataType(o.To)}), nil
	case graph.Linear, graph.MatMul, graph.RoPE, graph.Attention:
		return e.products(n, in)
	case graph.LayerNorm, graph.RMSNorm, graph.Softmax, graph.L2Normalize, graph.ExpPoints:
		return e.vectors(n, in)
	case graph.Conv2D, graph.ConvTranspose2D, graph.Pool2D, graph.Resize2D, graph.PixelShuffle:
		return e.maps(n, in)
	}
	return e.shapes(n, in)
}

func (e *exporter) unary(fn graph.UnaryFn, x string) (string, error) {
	if op := fn.Names().ONNX; op != "" {
		return e.op(op, []string{x}), nil
	}
	switch fn {
	case graph.Square:
		return e.op("Mul", []string{x, x}), nil
	case graph.Rsqrt:
		return e.op("Reciprocal", []string{e.op("Sqrt", []string{x})}), nil
	case graph.GeluTanh:
		return e.op("Gelu", []string{x}, attribute{"approximate", "tanh"}), nil
	case graph.Expm1:
		return e.expm1(x), nil
	}
	return "", fmt.Errorf("%w: %v", ErrUnsupported, fn)
}

// expm1 is tanh(x/2)*(exp(x)+1), which unlike exp(x)-1 keeps its digits near 0.
func (e *exporter) expm1(x string) string {
	t := e.op("Tanh", []string{e.op("Mul", []string{x, e.scalar(0.5)})})
	return e.op("Mul", []string{t, e.op("Add", []string{e.op("Exp", []string{x}), e.scalar(1)})})
}

func (e *exporter) reshape(x string, shape ...int) string {
	return e.op("Reshape", []string{x, e.ints(shape...)})
}

func (e *exporter) transpose(x string, perm ...int) string {
	return e.op("Transpose", []string{x}, attribute{"perm", perm})
}

// slice takes [begin,end) on one axis.
func (e *exporter) slice(x string, axis, begin, end int) string {
	return e.op("Slice", []string{x, e.ints(begin), e.ints(end), e.ints(axis)})
}

func (e *exporter) products(n *graph.Node, in []string) (string, error) {
	switch o := n.Op.(type) {
	case graph.Linear:
		return e.linear(o, n, in)
	case graph.MatMul:
		if o.TransB {
			r := len(n.In[1].Shape)
			perm := make([]int, r)
			for i := range perm {
				perm[i] = i
			}
			perm[r-2], perm[r-1] = r-1, r-2
			in[1] = e.transpose(in[1], perm...)
		}
		return e.op("MatMul", in[:2]), nil
	case graph.RoPE:
		return e.rope(in[0], n.Shape, o.Heads, o.Rope)
	case graph.Attention:
		return e.attention(o, n, in)
	}
	return "", fmt.Errorf("%w: %s", ErrUnsupported, n.Op.Kind())
}

func isProduct(n *graph.Node) bool {
	switch n.Op.(type) {
	case graph.Linear, graph.MatMul, graph.Attention, graph.Conv2D, graph.ConvTranspose2D:
		return true
	}
	return false
}

// rounds says whether a product's factors are rounded: in the half-precision form
// all but those of the last layers are.
func (e *exporter) rounds(n *graph.Node) bool { return e.opt.HalfCompute && e.read[n.ID] }

// half is a value in float16, one cast for all that ask.
func (e *exporter) half(x string) string {
	h, ok := e.halves[x]
	if !ok {
		h = e.op("Cast", []string{x}, attribute{"to", dataType(tensor.F16)})
		e.halves[x] = h
	}
	return h
}

// factors are the operands of a product.
func (e *exporter) factors(n *graph.Node, in []string) []string {
	if !e.rounds(n) {
		return in
	}
	out := make([]string, len(in))
	for i, x := range in {
		out[i] = e.half(x)
	}
	return out
}

// widened is a product's result in float32.
func (e *exporter) widened(n *graph.Node, y string) string {
	if !e.rounds(n) {
		return y
	}
	return e.op("Cast", []string{y}, attribute{"to", dataType(tensor.F32)})
}

// linear is a Gemm, which takes the weight as the checkpoint has it, between
// reshapes to two dimensions.
func (e *exporter) linear(o graph.Linear, n *graph.Node, in []string) (string, error) {
	if o.Gamma || o.Residual || o.Act != graph.ActNone {
		return "", fmt.Errorf("%w: a fused linear", ErrUnsupported)
	}
	x := n.In[0].Shape
	k := x[len(x)-1]
	in = e.factors(n, in)
	in[0] = e.reshape(in[0], x.Numel()/k, k)
	y := e.op("Gemm", in, attribute{"transB", 1})
	return e.widened(n, e.reshape(y, n.Shape...)), nil
}

// rope splits each head into (row, column) halves of (u, v) quarters and turns
// the pairs by tables.
func (e *exporter) rope(x string, s tensor.Shape, heads int, r graph.Rope) (string, error) {
	hd := s[2] / heads
	q := hd / 4
	turnCos, turnSin := r.Rotations(hd)
	var cos, sin []float32
	for t := range s[1] {
		for _, pos := range []int{t / r.Cols, t % r.Cols} {
			for j := range q {
				cos, sin = append(cos, float32(turnCos[pos*q+j])), append(sin, float32(turnSin[pos*q+j]))
			}
		}
	}
	table := tensor.Shape{1, s[1], 1, 2, 1, q}
	c, err := e.floats(table, cos...)
	if err != nil {
		return "", err
	}
	d, err := e.floats(table, sin...)
	if err != nil {
		return "", err
	}
	x = e.reshape(x, s[0], s[1], heads, 2, 2, q)
	u, v := e.slice(x, 4, 0, 1), e.slice(x, 4, 1, 2)
	mul := func(a, b string) string { return e.op("Mul", []string{a, b}) }
	u2 := e.op("Sub", []string{mul(u, c), mul(v, d)})
	v2 := e.op("Add", []string{mul(v, c), mul(u, d)})
	return e.reshape(e.op("Concat", []string{u2, v2}, attribute{"axis", 4}), s...), nil
}

func (e *exporter) attention(o graph.Attention, n *graph.Node, in []string) (string, error) {
	if o.QRope != nil || o.KRope != nil {
		return "", fmt.Errorf("%w: attention with fused rope", ErrUnsupported)
	}
	in = e.factors(n, in)
	if e.opt.Attention {
		// Softmax in float32 whatever the factors are.
		y := e.op("Attention", in, attribute{"q_num_heads", o.Heads}, attribute{"kv_num_heads", o.Heads},
			attribute{"scale", o.Scale}, attribute{"softmax_precision", dataType(tensor.F32)})
		return e.widened(n, y), nil
	}
	split := func(i int, perm ...int) string {
		s := n.In[i].Shape
		return e.transpose(e.reshape(in[i], s[0], s[1], o.Heads, s[2]/o.Heads), perm...)
	}
	q, k, v := split(0, 0, 2, 1, 3), split(1, 0, 2, 3, 1), split(2, 0, 2, 1, 3)
	// The scale goes to q: fewer products than on the scores.
	scale := e.scalar(o.Scale)
	if e.rounds(n) {
		scale = e.half(scale)
	}
	q = e.op("Mul", []string{q, scale})
	s := e.op("MatMul", []string{q, k})
	if o.Mask {
		s = e.op("Add", []string{s, in[3]})
	}
	p := e.op("Softmax", []string{e.widened(n, s)}, attribute{"axis", -1})
	if e.rounds(n) {
		p = e.half(p)
	}
	y := e.transpose(e.op("MatMul", []string{p, v}), 0, 2, 1, 3)
	return e.widened(n, e.reshape(y, n.Shape...)), nil
}

func (e *exporter) vectors(n *graph.Node, in []string) (string, error) {
	norm := func(x string) string { return e.op("ReduceL2", []string{x, e.ints(-1)}, attribute{"keepdims", 1}) }
	switch o := n.Op.(type) {
	case graph.LayerNorm:
		return e.op("LayerNormalization", in, attribute{"axis", -1}, attribute{"epsilon", o.Eps}), nil
	case graph.RMSNorm:
		m := e.op("ReduceMean", []string{e.op("Mul", []string{in[0], in[0]}), e.ints(-1)}, attribute{"keepdims", 1})
		r := e.op("Sqrt", []string{e.op("Add", []string{m, e.scalar(o.Eps)})})
		return e.op("Mul", []string{e.op("Div", []string{in[0], r}), in[1]}), nil
	case graph.Softmax:
		return e.op("Softmax", in, attribute{"axis", o.Axis}), nil
	case graph.L2Normalize:
		return e.op("Div", []string{in[0], norm(in[0])}), nil
	case graph.ExpPoints:
		d := norm(in[0])
		unit := e.op("Div", []string{in[0], e.op("Max", []string{d, e.scalar(1e-8)})})
		return e.op("Mul", []string{unit, e.expm1(d)}), nil
	}
	return "", fmt.Errorf("%w: %s", ErrUnsupported, n.Op.Kind())
}
