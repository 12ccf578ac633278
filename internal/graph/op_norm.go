// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"math"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// LayerNorm is (x-mean)/sqrt(var+Eps)*gamma+beta over the last dimension with
// the biased variance. Operands: x, gamma, beta.
type LayerNorm struct{ Eps float32 }

func (LayerNorm) Kind() string { return "layer_norm" }

func (o LayerNorm) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 3); err != nil {
		return nil, 0, err
	}
	if err := vector(in[2], "beta", lastDim(in[0])); err != nil {
		return nil, 0, err
	}
	return normShape(in, o.Eps)
}

// RMSNorm is x/sqrt(mean(x^2)+Eps)*gamma over the last dimension.
// Operands: x, gamma.
type RMSNorm struct{ Eps float32 }

func (RMSNorm) Kind() string { return "rms_norm" }

func (o RMSNorm) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 2); err != nil {
		return nil, 0, err
	}
	return normShape(in, o.Eps)
}

// Softmax is exp(x-max)/sum along Axis.
type Softmax struct{ Axis int }

func (Softmax) Kind() string { return "softmax" }

func (o Softmax) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	a, err := axisIn(o.Axis, len(in[0].Shape))
	if err != nil {
		return nil, 0, err
	}
	if in[0].Shape[a] == 0 {
		return nil, 0, shapeErr("axis %d of %v is empty", o.Axis, in[0])
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}

// L2Normalize divides by the Euclidean norm of the last dimension, without an
// epsilon: a zero vector becomes NaN, as in the reference.
type L2Normalize struct{}

func (L2Normalize) Kind() string { return "l2_normalize" }

func (o L2Normalize) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	return vectors(in)
}

// ExpPoints is the output function of the points (network.md 8): for vectors p of
// the last dimension, p/max(d,1e-8)*expm1(d) with d = |p|.
type ExpPoints struct{}

func (ExpPoints) Kind() string { return "exp_points" }

func (o ExpPoints) infer(in []*Node) (tensor.Shape, tensor.DType, error) {
	return vectors(in)
}

func normShape(in []*Node, eps float32) (tensor.Shape, tensor.DType, error) {
	// MPSGraph ends the process over an epsilon that is not above zero.
	if !(eps > 0) || math.IsInf(float64(eps), 1) {
		return nil, 0, shapeErr("epsilon %v, want a finite number above 0", eps)
	}
	if lastDim(in[0]) < 1 {
		return nil, 0, shapeErr("x %v has no last dimension to normalise", in[0])
	}
	if err := vector(in[1], "gamma", lastDim(in[0])); err != nil {
		return nil, 0, err
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}

// vectors is the rule of operations on the vectors of the last dimension.
func vectors(in []*Node) (tensor.Shape, tensor.DType, error) {
	if err := arity(in, 1); err != nil {
		return nil, 0, err
	}
	if lastDim(in[0]) < 1 {
		return nil, 0, shapeErr("x %v has no vectors in its last dimension", in[0])
	}
	return in[0].Shape, in[0].DType, isFloat(in[0], "x")
}

var normOps = []Operation{
	{"layer_norm", "x, gamma, beta", "float", "Normalise the last dimension.", func(g *Graph) *Node {
		return g.LayerNorm(floats(g, 3, 8), floats(g, 8), floats(g, 8), 1e-6)
	}, nil},
	{"rms_norm", "x, gamma", "float", "x / sqrt(mean(x^2) + eps) gamma over the last dimension.", func(g *Graph) *Node {
		return g.Add(RMSNorm{Eps: 1e-6}, floats(g, 3, 8), floats(g, 8))
	}, nil},
	{"softmax", "x", "float", "exp(x - max) / sum along an axis.", func(g *Graph) *Node { return g.Add(Softmax{Axis: 1}, floats(g, 2, 5, 3)) }, nil},
	{"l2_normalize", "x", "float", "Divide vectors of the last dimension by their length.", func(g *Graph) *Node { return g.Add(L2Normalize{}, floats(g, 3, 6)) }, nil},
	{"exp_points", "x", "float", "x / |x| expm1(|x|) for vectors of the last dimension.", func(g *Graph) *Node { return g.Add(ExpPoints{}, floats(g, 5, 3)) }, nil},
}
