// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"fmt"
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	dt "github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// MSEGrad is scale*(p - t), the gradient of a squared error.
func (c *Context) MSEGrad(p, t *Tensor, scale float32) (*Tensor, error) {
	return c.compute(fmt.Sprintf("mse_grad%x", scale), func(g *graph.Graph, in []*graph.Node) *graph.Node {
		return g.Affine(g.Binary(graph.Sub, in[0], in[1]), scale, 0)
	}, p, t)
}

// SoftmaxCrossEntropy is the mean of -log softmax(x)[label] over rows x [N,K]
// with int32 labels [N], and its gradient with respect to x. A label outside 0 to K-1 is
// an error.
func (c *Context) SoftmaxCrossEntropy(x, label *Tensor) (loss, gx *Tensor, err error) {
	if err := given("softmax_cross_entropy", x, label); err != nil {
		return nil, nil, err
	}
	if len(x.shape) != 2 {
		return nil, nil, refuse(ErrShape, "softmax_cross_entropy of %v and labels %v, want scores [N,K]", x.shape, label.shape)
	}
	if err := checkIndices("softmax_cross_entropy", label, x.shape[1]); err != nil {
		return nil, nil, err
	}
	out, err := c.computeAll("softmax_cross_entropy", func(g *graph.Graph, in []*graph.Node) []*graph.Node {
		n, k := in[0].Shape[0], in[0].Shape[1]
		hot := g.Add(graph.OneHot{Depth: k}, in[1])
		top := g.Add(graph.Reduce{Fn: graph.ReduceMax, Axes: []int{1}, Keep: true}, in[0])
		z := g.Binary(graph.Sub, in[0], top)
		logSum := g.Unary(graph.Log, g.Add(graph.Reduce{Axes: []int{1}, Keep: true}, g.Unary(graph.Exp, z)))
		logP := g.Binary(graph.Sub, z, logSum)
		loss := g.Affine(g.Add(graph.Reduce{Axes: []int{0, 1}}, g.Binary(graph.Mul, hot, logP)), -1/float32(n), 0)
		grad := g.Affine(g.Binary(graph.Sub, g.Unary(graph.Exp, logP), hot), 1/float32(n), 0)
		return []*graph.Node{loss, grad}
	}, x, label)
	if err != nil {
		return nil, nil, err
	}
	return out[0], out[1], nil
}

// Adam are the constants of an Adam step with decoupled weight decay.
type Adam struct {
	LearningRate, Beta1, Beta2, Eps, WeightDecay float32
}

// DefaultAdam are the customary constants.
func DefaultAdam() Adam { return Adam{LearningRate: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8} }

// AdamStep updates a parameter w and its moments m and v, in place, for gradient
// grad at step t = 1, 2, ...:
//
//	m = b1 m + (1-b1) g,  v = b2 v + (1-b2) g^2
//	w -= lr wd w + lr (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps)
func (c *Context) AdamStep(w, grad, m, v *Tensor, a Adam, t int) error {
	if t < 1 {
		return refuse(ErrOption, "adam step %d, want at least 1", t)
	}
	// What changes with t is an input, so that no step compiles anything.
	b1, b2 := float64(a.Beta1), float64(a.Beta2)
	k, err := c.FromFloat32s([]float32{
		float32(float64(a.LearningRate) / (1 - math.Pow(b1, float64(t)))),
		float32(1 / (1 - math.Pow(b2, float64(t)))),
		1 - a.LearningRate*a.WeightDecay,
	}, 3)
	if err != nil {
		return err
	}
	defer k.Release()
	key := fmt.Sprintf("adam%x/%x/%x", a.Beta1, a.Beta2, a.Eps)
	out, err := c.run(key, func(g *graph.Graph, in []*graph.Node) []*graph.Node {
		return adamGraph(g, in, a)
	}, w, grad, m, v, k)
	if err != nil {
		return err
	}
	for i, p := range []*Tensor{w, m, v} {
		if err := p.become(out[i], nil); err != nil {
			release(out)
			return err
		}
	}
	return nil
}

func adamGraph(g *graph.Graph, in []*graph.Node, a Adam) []*graph.Node {
	f := make([]*graph.Node, 4)
	for i := range f {
		f[i] = g.Cast(in[i], dt.F32)
	}
	w, grad, m, v := f[0], f[1], f[2], f[3]
	k := func(i int) *graph.Node { return g.SliceAxis(in[4], 0, i, i+1) }
	mul := func(a, b *graph.Node) *graph.Node { return g.Binary(graph.Mul, a, b) }
	m = g.AddTo(g.Affine(m, a.Beta1, 0), g.Affine(grad, 1-a.Beta1, 0))
	v = g.AddTo(g.Affine(v, a.Beta2, 0), g.Affine(g.Unary(graph.Square, grad), 1-a.Beta2, 0))
	// The moments are kept flat where w has several dimensions: k is [1] and
	// broadcasts to any shape.
	root := g.Affine(g.Unary(graph.Sqrt, mul(v, k(1))), 1, a.Eps)
	w = g.Binary(graph.Sub, mul(w, k(2)), g.Binary(graph.Div, mul(m, k(0)), root))
	return []*graph.Node{g.Cast(w, in[0].DType), g.Cast(m, in[2].DType), g.Cast(v, in[3].DType)}
}

var trainOps = []row{
	{"mse_grad(p, t; scale float)", "scale (p - t).", own, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.MSEGrad(in[0], in[1], a.float("scale")))
	}},
	{"adam_step(w!, g, m!, v!; lr float, step int, beta1 float = 0.9, beta2 float = 0.999, eps float = 1e-8, weight_decay float = 0) -> ", "One step of Adam with decoupled weight decay, for step = 1, 2, ...", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		o := Adam{LearningRate: a.float("lr"), Beta1: a.float("beta1"), Beta2: a.float("beta2"), Eps: a.float("eps"), WeightDecay: a.float("weight_decay")}
		return nil, c.AdamStep(in[0], in[1], in[2], in[3], o, a.int("step"))
	}},
}
