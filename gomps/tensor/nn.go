// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"fmt"
	"math/rand/v2"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	dt "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Softmax is exp(x - max)/sum along axis.
func (c *Context) Softmax(x *Tensor, axis int) (*Tensor, error) {
	return c.compute(keyOf("softmax", axis), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.Softmax{Axis: axis}, in[0])
	}, x)
}

// SoftmaxBackward is the gradient of Softmax along axis for the gradient gy of
// its result: with s = softmax(x), s (gy - sum(gy s)).
func (c *Context) SoftmaxBackward(gy, x *Tensor, axis int) (*Tensor, error) {
	return c.compute(keyOf("softmax_backward", axis), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		s := g.Add(graph.Softmax{Axis: axis}, in[1])
		along := g.Add(graph.Reduce{Axes: []int{axis}, Keep: true}, g.Binary(graph.Mul, in[0], s))
		return g.Binary(graph.Mul, s, g.Binary(graph.Sub, in[0], along))
	}, gy, x)
}

// LayerNorm normalises the last dimension with the biased variance.
func (c *Context) LayerNorm(x, gamma, beta *Tensor, eps float32) (*Tensor, error) {
	return c.compute(fmt.Sprintf("layer_norm%x", eps), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.LayerNorm(in[0], in[1], in[2], eps)
	}, x, gamma, beta)
}

// LayerNormBackward gives the gradients of LayerNorm for the gradient gy of its
// result: of the input, of gamma, of beta.
func (c *Context) LayerNormBackward(gy, x, gamma *Tensor, eps float32) (gx, ggamma, gbeta *Tensor, err error) {
	if err := given("layer_norm_backward", gy, x, gamma); err != nil {
		return nil, nil, nil, err
	}
	if len(x.shape) < 1 || !gy.shape.Equal(x.shape) || len(gamma.shape) != 1 || gamma.shape[0] != x.Dim(-1) {
		return nil, nil, nil, refuse(ErrShape, "layer_norm_backward of gy %v, x %v and gamma %v", gy.shape, x.shape, gamma.shape)
	}
	out, err := c.computeAll(fmt.Sprintf("layer_norm_backward%x", eps), func(g *graph.Graph, in []*graph.Node) []*graph.Node {
		gy, x, gamma := in[0], in[1], in[2]
		last := len(x.Shape) - 1
		mean := func(v *graph.Node) *graph.Node {
			return g.Add(graph.Reduce{Fn: graph.ReduceMean, Axes: []int{last}, Keep: true}, v)
		}
		mul := func(a, b *graph.Node) *graph.Node { return g.Binary(graph.Mul, a, b) }
		sub := func(a, b *graph.Node) *graph.Node { return g.Binary(graph.Sub, a, b) }
		d := sub(x, mean(x))
		r := g.Unary(graph.Rsqrt, g.Affine(mean(g.Unary(graph.Square, d)), 1, eps))
		h := mul(d, r) // the normalised input
		// With k = gamma gy: gx = r (k - mean(k) - h mean(k h)).
		k := mul(gy, gamma)
		dx := mul(r, sub(sub(k, mean(k)), mul(h, mean(mul(k, h)))))
		rows := make([]int, last)
		for i := range rows {
			rows[i] = i
		}
		sum := func(v *graph.Node) *graph.Node { return g.Add(graph.Reduce{Axes: rows}, v) }
		return []*graph.Node{dx, sum(mul(gy, h)), sum(gy)}
	}, gy, x, gamma)
	if err != nil {
		return nil, nil, nil, err
	}
	return out[0], out[1], out[2], nil
}

// RMSNorm is x/sqrt(mean(x^2)+eps)*gamma over the last dimension.
func (c *Context) RMSNorm(x, gamma *Tensor, eps float32) (*Tensor, error) {
	return c.compute(fmt.Sprintf("rms_norm%x", eps), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Add(graph.RMSNorm{Eps: eps}, in[0], in[1])
	}, x, gamma)
}

// BatchNorm normalises the channels of an NCHW map, or the features of rows
// [N,C], with running statistics.
func (c *Context) BatchNorm(x, gamma, beta, mean, variance *Tensor, eps float32) (*Tensor, error) {
	return c.compute(fmt.Sprintf("batch_norm%x", eps), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		if len(in[0].Shape) != 4 {
			return batchNorm(g, in[0], in[1], in[2], in[3], in[4], eps)
		}
		y := batchNorm(g, g.Transpose(in[0], 0, 2, 3, 1), in[1], in[2], in[3], in[4], eps)
		return g.Transpose(y, 0, 3, 1, 2)
	}, x, gamma, beta, mean, variance)
}

// batchNorm normalises the last dimension with given statistics.
func batchNorm(g *graph.Graph, x, gamma, beta, mean, variance *graph.Node, eps float32) *graph.Node {
	x = g.Binary(graph.Sub, x, mean)
	x = g.Binary(graph.Mul, x, g.Unary(graph.Rsqrt, g.Affine(variance, 1, eps)))
	return g.AddTo(g.Binary(graph.Mul, x, gamma), beta)
}

// Dropout zeroes each element with probability p and scales the rest by
// 1/(1-p). The choice follows from seed alone. The mask, of zeros and 1/(1-p), is
// returned for the gradient, which is gy times it.
func (c *Context) Dropout(x *Tensor, p float32, seed uint64) (y, mask *Tensor, err error) {
	if err := given("dropout", x); err != nil {
		return nil, nil, err
	}
	if mask, err = c.dropoutMask(x.shape, p, seed); err != nil {
		return nil, nil, err
	}
	y, err = c.maskedBy("dropout", x, mask, func(_ *graph.Graph, y *graph.Node, _ []*graph.Node) *graph.Node { return y })
	if err != nil {
		mask.Release()
		return nil, nil, err
	}
	return y, mask, nil
}

// DropoutLinear is dropout(x) W^T + b in one dispatch.
func (c *Context) DropoutLinear(x *Tensor, p float32, seed uint64, w, b *Tensor) (y, mask *Tensor, err error) {
	if err := given("dropout_linear", x, w, b); err != nil {
		return nil, nil, err
	}
	if mask, err = c.dropoutMask(x.shape, p, seed); err != nil {
		return nil, nil, err
	}
	y, err = c.maskedBy("dropout_linear", x, mask, func(g *graph.Graph, y *graph.Node, rest []*graph.Node) *graph.Node {
		return g.Linear(y, rest[0], rest[1])
	}, w, b)
	if err != nil {
		mask.Release()
		return nil, nil, err
	}
	return y, mask, nil
}

func (c *Context) dropoutMask(shape []int, p float32, seed uint64) (*Tensor, error) {
	if !(p >= 0 && p < 1) {
		return nil, refuse(ErrOption, "dropout probability %v, want 0 <= p < 1", p)
	}
	r := rand.New(rand.NewPCG(seed, 0x64726f706f7574))
	return c.host(dt.F32, shape, func(dst []byte) {
		keep := 1 / (1 - p)
		for i := range view[float32](dst) {
			view[float32](dst)[i] = 0
			if r.Float32() >= p {
				view[float32](dst)[i] = keep
			}
		}
	})
}

// maskedBy multiplies by a float32 mask, whatever the type of x.
func (c *Context) maskedBy(key string, x, mask *Tensor, after func(g *graph.Graph, y *graph.Node, rest []*graph.Node) *graph.Node, rest ...*Tensor) (*Tensor, error) {
	return c.move(key, func(g *graph.Graph, in []*graph.Node) *graph.Node {
		more := make([]*graph.Node, len(in)-2)
		for i, n := range in[2:] {
			more[i] = g.Cast(n, dt.F32)
		}
		y := g.Binary(graph.Mul, g.Cast(in[0], dt.F32), in[1])
		return g.Cast(after(g, y, more), in[0].DType)
	}, append([]*Tensor{x, mask}, rest...)...)
}

// RoPE turns the heads of x [B,rows*cols,heads*hd] by their tokens' positions on
// a grid (rotary embedding in two dimensions, pairs inside each half of a head).
func (c *Context) RoPE(x *Tensor, heads, rows, cols int, base float32) (*Tensor, error) {
	return c.compute(fmt.Sprintf("rope%d/%dx%d/%x", heads, rows, cols, base), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.RoPE(in[0], heads, graph.Rope{Rows: rows, Cols: cols, Base: base})
	}, x)
}

// Attention is softmax(scale q k^T + mask) v for q [B,H,N,d], k and v [B,H,M,d];
// mask, additive, broadcasts to [B,H,N,M] and may be nil.
func (c *Context) Attention(q, k, v, mask *Tensor, scale float32) (*Tensor, error) {
	if err := wantRank("attention", 4, q, k, v); err != nil {
		return nil, err
	}
	in := []*Tensor{q, k, v}
	if mask != nil {
		in = append(in, mask)
	}
	return c.compute(fmt.Sprintf("attention%x", scale), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		join := func(n *graph.Node) *graph.Node {
			s := n.Shape
			return g.Reshape(g.Transpose(n, 0, 2, 1, 3), s[0], s[2], s[1]*s[3])
		}
		h := in[0].Shape[1]
		o := graph.Attention{Heads: h, Scale: scale, Mask: len(in) == 4}
		y := g.Add(o, append([]*graph.Node{join(in[0]), join(in[1]), join(in[2])}, in[3:]...)...)
		return g.Transpose(g.Reshape(y, y.Shape[0], y.Shape[1], h, y.Shape[2]/h), 0, 2, 1, 3)
	}, in...)
}

// AttentionScores is softmax(scale q k^T) for q [...,N,d], k [...,M,d].
func (c *Context) AttentionScores(q, k *Tensor, scale float32) (*Tensor, error) {
	return c.compute(fmt.Sprintf("attention_scores%x", scale), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		s := g.Affine(g.Add(graph.MatMul{TransB: true}, in[0], in[1]), scale, 0)
		return g.Add(graph.Softmax{Axis: -1}, s)
	}, q, k)
}

var layerOps = []row{
	{"softmax(x; axis int = -1)", "exp(x - max) / sum along an axis.", "softmax_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Softmax(in[0], a.int("axis")))
	}},
	{"softmax_backward(gy, x; axis int = -1)", "Gradient of softmax at its input x.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.SoftmaxBackward(in[0], in[1], a.int("axis")))
	}},
	{"layer_norm(x, gamma, beta; eps float = 1e-5)", "Normalise the last dimension.", "layer_norm_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.LayerNorm(in[0], in[1], in[2], a.float("eps")))
	}},
	{"layer_norm_backward(gy, x, gamma; eps float = 1e-5) -> gx, ggamma, gbeta", "Gradients of layer_norm: input, gamma, beta.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return three(c.LayerNormBackward(in[0], in[1], in[2], a.float("eps")))
	}},
	{"rms_norm(x, gamma; eps float = 1e-5)", "x / sqrt(mean(x^2) + eps) gamma over the last dimension.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.RMSNorm(in[0], in[1], a.float("eps")))
	}},
	{"batch_norm(x, gamma, beta, mean, variance; eps float = 1e-5)", "Normalise channels (NCHW), or features of rows, with running statistics.", elementary, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.BatchNorm(in[0], in[1], in[2], in[3], in[4], a.float("eps")))
	}},
	{"dropout(x; p float, seed int) -> y, mask", "Zero elements with probability p, scale the rest by 1/(1-p); also the mask.", "mul with the mask", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return two(c.Dropout(in[0], a.float("p"), uint64(a.int("seed"))))
	}},
	{"rope(x; heads int, rows int, cols int, base float = 100)", "Rotary position embedding of x [B,rows*cols,heads*d] on a grid.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.RoPE(in[0], a.int("heads"), a.int("rows"), a.int("cols"), a.float("base")))
	}},
	{"attention(q, k, v, mask?; scale float)", "softmax(scale q k^T + mask) v for q, k, v [B,H,N,d]; the mask is added.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Attention(in[0], in[1], in[2], in[3], a.float("scale")))
	}},
}
