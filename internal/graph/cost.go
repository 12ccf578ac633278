// SPDX-License-Identifier: Apache-2.0

package graph

// Cost is the work of one value, counted from its shapes: what a perfect
// machine would have to do, not what some backend does.
type Cost struct {
	// FLOPs counts a multiply-add as 2; only products are counted, elementwise
	// work is seen in Bytes.
	FLOPs int64
	// Bytes are the operands read once and the result written once.
	Bytes int64
}

// Cost counts the work of n.
func (n *Node) Cost() Cost {
	var c Cost
	switch n.Op.(type) {
	case Input, Param, Reshape:
		return c
	}
	c.Bytes = int64(n.Bytes())
	for _, x := range n.In {
		c.Bytes += int64(x.Bytes())
	}
	out := int64(n.Numel())
	switch o := n.Op.(type) {
	case Linear:
		c.FLOPs = 2 * out * int64(n.In[1].Shape[1])
	case MatMul:
		c.FLOPs = 2 * out * int64(lastDim(n.In[0]))
	case Attention:
		q, k, v := n.In[0].Shape, n.In[1].Shape, n.In[2].Shape
		c.FLOPs = 2 * int64(q[0]) * int64(q[1]) * int64(k[1]) * int64(q[2]+v[2])
	case Conv2D:
		w := n.In[1].Shape
		c.FLOPs = 2 * out * int64(w[1]*w[2]*w[3])
	case ConvTranspose2D:
		w := n.In[1].Shape
		c.FLOPs = 2 * int64(n.In[0].Numel()) * int64(w[1]*w[2]*w[3])
	case Resize2D:
		if o.Mode == Bilinear {
			c.FLOPs = 6 * out
		}
	}
	return c
}

// Cost is the sum over all values.
func (g *Graph) Cost() Cost {
	var sum Cost
	for _, n := range g.Nodes {
		c := n.Cost()
		sum.FLOPs += c.FLOPs
		sum.Bytes += c.Bytes
	}
	return sum
}
