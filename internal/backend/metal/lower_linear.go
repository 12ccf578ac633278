// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/mpsgraph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// matMul multiplies in the product type. A transposed factor is a node, never a
// strided view: see mpsgraph.MatMul.
//
// One matrix on the right makes it a product of two dimensions. Others stay
// batched and are float32 whatever the precision: in half precision GPUs of the
// M5 get products of more than two dimensions wrong (PyTorch issues 180776,
// 181466). The networks have such products in attention only.
func (l *lowering) matMul(n *graph.Node, o graph.MatMul) *mpsgraph.Tensor {
	g, d := l.out, l.product()
	ra, rb := len(n.In[0].Shape), len(n.In[1].Shape)
	if rb > 2 {
		d = tensor.F32
	}
	a, b := l.factor(n, 0, d), l.factor(n, 1, d)
	if o.TransB {
		perm := make([]int, len(n.In[1].Shape))
		for i := range perm {
			perm[i] = i
		}
		r := len(perm)
		perm[r-2], perm[r-1] = r-1, r-2
		b = g.Transpose(b, perm...)
	}
	if g.Err() != nil {
		return a
	}
	s := n.Shape
	switch {
	case rb == 2 && ra > 2:
		k := a.Shape()[ra-1]
		return g.MatMul(g.Reshape(a, a.Shape().Numel()/k, k), b) // node reshapes it back
	case max(ra, rb) > 4:
		// MPSGraph takes four dimensions: the leading ones become one.
		lead := s[:len(s)-2]
		flat := func(t *mpsgraph.Tensor) *mpsgraph.Tensor {
			m := t.Shape()[len(t.Shape())-2:].Clone()
			return g.Reshape(g.Broadcast(t, append(lead.Clone(), m...)...), append(tensor.Shape{lead.Numel()}, m...)...)
		}
		a, b = flat(a), flat(b)
	}
	return g.MatMul(a, b)
}

// linear is gamma*act(x W^T + b) + residual as one matrix product over all
// rows. W is [out,in] as PyTorch stores it and the file has it; its transpose is
// folded into the product by the compiler, as PyTorch's own Linear on MPS counts
// on. Stored [in,out] it would need no fold, and a rearranged copy of the model.
// With a residual the result is float32: it is the residual stream.
func (l *lowering) linear(n *graph.Node, o graph.Linear) *mpsgraph.Tensor {
	g, d := l.out, l.product()
	x := l.factor(n, 0, d)
	// One product over all rows: with the batch as a dimension of its own MPSGraph
	// would broadcast the weight.
	k := n.In[1].Shape[1]
	if k == 0 {
		return g.Fail("linear", fmt.Errorf("%w: no input features", ErrUnsupported))
	}
	y := g.MatMul(g.Reshape(x, x.Shape().Numel()/k, k), g.Transpose(l.factor(n, 1, d), 1, 0))
	// MPSGraph's product has no epilogue; what follows it elementwise is stitched to
	// it by the compiler.
	rest := n.In[2:]
	next := func(d tensor.DType) *mpsgraph.Tensor {
		t := l.value(rest[0], d)
		rest = rest[1:]
		return t
	}
	if o.Bias {
		y = g.Add(y, next(d))
	}
	y = l.activate(o.Act, y)
	if o.Gamma {
		y = g.Mul(y, next(d)) // layer scale of DINOv2 blocks
	}
	y = g.Reshape(y, shapeOf(n.Shape)...)
	if o.Residual {
		y = g.Add(l.cast(y, tensor.F32), next(tensor.F32))
	}
	return y
}

// activate is an activation that was fused into a product.
func (l *lowering) activate(act graph.Activation, x *mpsgraph.Tensor) *mpsgraph.Tensor {
	switch act {
	case graph.ActRelu:
		return l.out.ReLU(x)
	case graph.ActGelu:
		return l.out.Cast(l.activation(graph.Gelu, l.cast(x, tensor.F32)), x.DType())
	}
	return x
}
