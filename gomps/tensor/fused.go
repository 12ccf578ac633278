// SPDX-License-Identifier: Apache-2.0

package tensor

var fusedOps = []row{
	{"add_relu(a, b)", "relu(a + b) in one dispatch.", "", map2((*Context).AddRelu)},
	{"sub_relu(a, b)", "relu(a - b) in one dispatch.", "", map2((*Context).SubRelu)},
	{"mul_relu(a, b)", "relu(a * b) in one dispatch.", "", map2((*Context).MulRelu)},
	{"div_relu(a, b)", "relu(a / b) in one dispatch.", "", map2((*Context).DivRelu)},
	{"affine(x; scale float, shift float)", "x * scale + shift in one dispatch.", elementary, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Affine(in[0], a.float("scale"), a.float("shift")))
	}},
	{"mul_add(x, scale, shift)", "x * scale + shift in one dispatch; all are tensors, which broadcast.", elementary, func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.MulAdd(in[0], in[1], in[2]))
	}},
	{"matmul_activation(a, b; activation string)", "activation(a b) in one dispatch.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.MatMulActivation(in[0], in[1], a.activation()))
	}},
	{"matmul_bias(a, b, bias)", "a b + bias in one dispatch.", elementary, func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.MatMulBias(in[0], in[1], in[2]))
	}},
	{"linear_add(x, w, b?, r)", "x w^T + b + r in one dispatch.", "linear_backward", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.LinearAdd(in[0], in[1], in[2], in[3]))
	}},
	{"linear_add_gelu(x, w, b?, r)", "gelu(x w^T + b + r) in one dispatch.", "", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.LinearAddGelu(in[0], in[1], in[2], in[3]))
	}},
	{"linear_residual_relu(x, w, b?, r)", "relu(x w^T + b + r) in one dispatch.", "", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.LinearResidualRelu(in[0], in[1], in[2], in[3]))
	}},
	{"gelu_linear(x, w, b)", "gelu(x) w^T + b in one dispatch.", "", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.GeluLinear(in[0], in[1], in[2]))
	}},
	{"layer_norm_linear(x, gamma, beta, w, b; eps float = 1e-5)", "layer_norm(x) w^T + b in one dispatch.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.LayerNormLinear(in[0], in[1], in[2], a.float("eps"), in[3], in[4]))
	}},
	{"linear_batch_norm_relu(x, w, b, gamma, beta, mean, variance; eps float = 1e-5)", "relu(batch_norm(x w^T + b)) in one dispatch.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.LinearBatchNormRelu(in[0], in[1], in[2], in[3], in[4], in[5], in[6], a.float("eps")))
	}},
	{"dropout_linear(x, w, b; p float, seed int) -> y, mask", "dropout(x) w^T + b in one dispatch; also the mask.", "mul with the mask", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return two(c.DropoutLinear(in[0], a.float("p"), uint64(a.int("seed")), in[1], in[2]))
	}},
	{"softmax_cross_entropy(x, label) -> loss, gx", "Mean loss of scores [N,K] and labels [N]; also the gradient.", own, func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return two(c.SoftmaxCrossEntropy(in[0], in[1]))
	}},
	{"attention_scores(q, k; scale float)", "softmax(scale q k^T) in one dispatch.", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.AttentionScores(in[0], in[1], a.float("scale")))
	}},
}
