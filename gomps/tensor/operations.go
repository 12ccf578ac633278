// SPDX-License-Identifier: Apache-2.0

package tensor

// The table of operations by name. A signature is the whole description: Do checks
// calls against it, docs/tensor-ops.md prints it, and Python's functions are
// generated from it. That it is true is tested by a call of every entry.

// Forms of run for the common kinds of operations.

type runner = func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error)

func one(t *Tensor, err error) ([]*Tensor, error) {
	if err != nil {
		return nil, err
	}
	return []*Tensor{t}, nil
}

func two(t, u *Tensor, err error) ([]*Tensor, error) {
	if err != nil {
		return nil, err
	}
	return []*Tensor{t, u}, nil
}

func three(t, u, v *Tensor, err error) ([]*Tensor, error) {
	if err != nil {
		return nil, err
	}
	return []*Tensor{t, u, v}, nil
}

func map1(f func(*Context, *Tensor) (*Tensor, error)) runner {
	return func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) { return one(f(c, in[0])) }
}

func map2(f func(*Context, *Tensor, *Tensor) (*Tensor, error)) runner {
	return func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) { return one(f(c, in[0], in[1])) }
}

func fold(f func(*Context, *Tensor, ...int) (*Tensor, error)) runner {
	return func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(f(c, in[0], a.ints("axes")...))
	}
}

func inPlace(f func(t, u *Tensor) error) runner {
	return func(_ *Context, in []*Tensor, _ arguments) ([]*Tensor, error) { return nil, f(in[0], in[1]) }
}

// How the gradient is computed when no named operation does it.
const (
	own        = "its own operation"
	elementary = "of elementary operations"
)

// named are the operations by name, as docs/tensor-ops.md lists them.
var named = func() map[string]operation {
	all := map[string]operation{}
	for _, group := range [][]row{elementwiseOps, fusedOps, shapeOps, linearOps, layerOps, reduceOps, mapOps, trainOps} {
		for _, e := range group {
			s := parseSignature(e.signature)
			all[s.name] = operation{s, e.gradient, e.run}
		}
	}
	return all
}()

type row struct {
	signature, gradient string
	run                 runner
}

var elementwiseOps = []row{
	{"exp(x)", elementary, map1((*Context).Exp)},
	{"log(x)", elementary, map1((*Context).Log)},
	{"sqrt(x)", elementary, map1((*Context).Sqrt)},
	{"sin(x)", elementary, map1((*Context).Sin)},
	{"cos(x)", elementary, map1((*Context).Cos)},
	{"tan(x)", elementary, map1((*Context).Tan)},
	{"neg(x)", elementary, map1((*Context).Neg)},
	{"abs(x)", "", map1((*Context).Abs)},
	{"relu(x)", "activation_backward", map1((*Context).Relu)},
	{"gelu(x)", "activation_backward", map1((*Context).Gelu)},
	{"gelu_tanh(x)", "activation_backward", map1((*Context).GeluTanh)},
	{"sigmoid(x)", "activation_backward", map1((*Context).Sigmoid)},
	{"tanh(x)", "activation_backward", map1((*Context).Tanh)},
	{"add(a, b)", elementary, map2((*Context).Add)},
	{"sub(a, b)", elementary, map2((*Context).Sub)},
	{"mul(a, b)", elementary, map2((*Context).Mul)},
	{"div(a, b)", elementary, map2((*Context).Div)},
	{"pow(a, b)", elementary, map2((*Context).Pow)},
	{"maximum(a, b)", "", map2((*Context).Maximum)},
	{"minimum(a, b)", "", map2((*Context).Minimum)},
	{"add_bias(x, bias)", elementary, map2((*Context).AddBias)},
	{"add_scalar(x; value float)", elementary, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.AddScalar(in[0], a.float("value")))
	}},
	{"mul_scalar(x; value float)", elementary, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.MulScalar(in[0], a.float("value")))
	}},
	{"pow_scalar(x; value float)", elementary, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.PowScalar(in[0], a.float("value")))
	}},
	{"add_(t!, u) -> ", "", inPlace((*Tensor).AddInPlace)},
	{"sub_(t!, u) -> ", "", inPlace((*Tensor).SubInPlace)},
	{"mul_(t!, u) -> ", "", inPlace((*Tensor).MulInPlace)},
	{"div_(t!, u) -> ", "", inPlace((*Tensor).DivInPlace)},
	{"relu_(t!) -> ", "", func(_ *Context, in []*Tensor, _ arguments) ([]*Tensor, error) { return nil, in[0].ReluInPlace() }},
	{"zero_(t!) -> ", "", func(_ *Context, in []*Tensor, _ arguments) ([]*Tensor, error) { return nil, in[0].Zero() }},
}

var fusedOps = []row{
	{"add_relu(a, b)", "", map2((*Context).AddRelu)},
	{"sub_relu(a, b)", "", map2((*Context).SubRelu)},
	{"mul_relu(a, b)", "", map2((*Context).MulRelu)},
	{"div_relu(a, b)", "", map2((*Context).DivRelu)},
	{"affine(x; scale float, shift float)", elementary, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Affine(in[0], a.float("scale"), a.float("shift")))
	}},
	{"matmul_activation(a, b; activation string)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.MatMulActivation(in[0], in[1], a.activation()))
	}},
	{"matmul_bias(a, b, bias)", elementary, func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.MatMulBias(in[0], in[1], in[2]))
	}},
	{"linear_add(x, w, b?, r)", "linear_backward", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.LinearAdd(in[0], in[1], in[2], in[3]))
	}},
	{"linear_add_gelu(x, w, b?, r)", "", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.LinearAddGelu(in[0], in[1], in[2], in[3]))
	}},
	{"linear_residual_relu(x, w, b?, r)", "", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.LinearResidualRelu(in[0], in[1], in[2], in[3]))
	}},
	{"gelu_linear(x, w, b)", "", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.GeluLinear(in[0], in[1], in[2]))
	}},
	{"layer_norm_linear(x, gamma, beta, w, b; eps float = 1e-5)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.LayerNormLinear(in[0], in[1], in[2], a.float("eps"), in[3], in[4]))
	}},
	{"linear_batch_norm_relu(x, w, b, gamma, beta, mean, variance; eps float = 1e-5)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.LinearBatchNormRelu(in[0], in[1], in[2], in[3], in[4], in[5], in[6], a.float("eps")))
	}},
	{"dropout_linear(x, w, b; p float, seed int) -> y, mask", "mul with the mask", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return two(c.DropoutLinear(in[0], a.float("p"), uint64(a.int("seed")), in[1], in[2]))
	}},
	{"softmax_cross_entropy(x, label) -> loss, gx", own, func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return two(c.SoftmaxCrossEntropy(in[0], in[1]))
	}},
	{"attention_scores(q, k; scale float)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.AttentionScores(in[0], in[1], a.float("scale")))
	}},
}

var shapeOps = []row{
	{"copy(x)", "", func(_ *Context, in []*Tensor, _ arguments) ([]*Tensor, error) { return one(in[0].Copy()) }},
	{"cast(x; to string)", "cast", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		d, err := parseDType(a.text("to"))
		if err != nil {
			return nil, err
		}
		return one(c.Cast(in[0], d))
	}},
	{"reshape(x; shape ints)", "reshape", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Reshape(in[0], a.ints("shape")...))
	}},
	{"transpose(x)", "transpose", map1((*Context).Transpose)},
	{"permute(x; perm ints)", "permute", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Permute(in[0], a.ints("perm")...))
	}},
	{"nhwc_to_nchw(x)", "nchw_to_nhwc", map1((*Context).NHWCToNCHW)},
	{"nchw_to_nhwc(x)", "nhwc_to_nchw", map1((*Context).NCHWToNHWC)},
	{"concat(x...; axis int)", "split", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Concat(a.int("axis"), in...))
	}},
	{"split(x; axis int, sizes ints) -> parts...", "concat", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return c.Split(in[0], a.int("axis"), a.ints("sizes")...)
	}},
	{"chunk(x; axis int, n int) -> parts...", "concat", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return c.Chunk(in[0], a.int("axis"), a.int("n"))
	}},
	{"slice(x; begin ints, end ints, step ints)", "pad", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Slice(in[0], a.ints("begin"), a.ints("end"), a.ints("step")))
	}},
	{"broadcast(x; shape ints)", "sum", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Broadcast(in[0], a.ints("shape")...))
	}},
	{"pad(x; before ints, after ints, value float = 0)", "slice", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Pad(in[0], a.ints("before"), a.ints("after"), a.float("value")))
	}},
	{"gather(x, index; axis int)", "scatter_add", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Gather(in[0], in[1], a.int("axis")))
	}},
	{"embedding(table, index)", "scatter_add", map2((*Context).Embedding)},
	{"scatter(x, index, src)", "gather", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return one(c.Scatter(in[0], in[1], in[2]))
	}},
	{"scatter_add(x, index; rows int)", "gather", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.ScatterAdd(in[0], in[1], a.int("rows")))
	}},
}

var linearOps = []row{
	{"matmul(a, b)", "matmul, matmul_transposed", map2((*Context).MatMul)},
	{"matmul_transposed(a, b)", "matmul", map2((*Context).MatMulTransposed)},
	{"einsum(x...; spec string)", "einsum", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Einsum(a.text("spec"), in...))
	}},
	{"linear(x, w, b?; activation string = none)", "linear_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Linear(in[0], in[1], in[2], a.activation()))
	}},
	{"linear_backward(gy, y, x, w, gw!, gb!; activation string = none) -> gx", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.LinearBackward(in[0], in[1], in[2], in[3], in[4], in[5], a.activation()))
	}},
	{"activation_backward(gy, x; activation string)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.ActivationBackward(a.activation(), in[0], in[1]))
	}},
}

var layerOps = []row{
	{"softmax(x; axis int = -1)", "softmax_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Softmax(in[0], a.int("axis")))
	}},
	{"softmax_backward(gy, x; axis int = -1)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.SoftmaxBackward(in[0], in[1], a.int("axis")))
	}},
	{"layer_norm(x, gamma, beta; eps float = 1e-5)", "layer_norm_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.LayerNorm(in[0], in[1], in[2], a.float("eps")))
	}},
	{"layer_norm_backward(gy, x, gamma; eps float = 1e-5) -> gx, ggamma, gbeta", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return three(c.LayerNormBackward(in[0], in[1], in[2], a.float("eps")))
	}},
	{"rms_norm(x, gamma; eps float = 1e-5)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.RMSNorm(in[0], in[1], a.float("eps")))
	}},
	{"batch_norm(x, gamma, beta, mean, variance; eps float = 1e-5)", elementary, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.BatchNorm(in[0], in[1], in[2], in[3], in[4], a.float("eps")))
	}},
	{"dropout(x; p float, seed int) -> y, mask", "mul with the mask", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return two(c.Dropout(in[0], a.float("p"), uint64(a.int("seed"))))
	}},
	{"rope(x; heads int, rows int, cols int, base float = 100)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.RoPE(in[0], a.int("heads"), a.int("rows"), a.int("cols"), a.float("base")))
	}},
	{"attention(q, k, v, mask?; scale float)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Attention(in[0], in[1], in[2], in[3], a.float("scale")))
	}},
}

var reduceOps = []row{
	{"sum(x; axes ints = [])", "broadcast", fold((*Context).Sum)},
	{"mean(x; axes ints = [])", "broadcast", fold((*Context).Mean)},
	{"max(x; axes ints = [])", "", fold((*Context).Max)},
	{"min(x; axes ints = [])", "", fold((*Context).Min)},
	{"argmax(x; axis int)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.ArgMax(in[0], a.int("axis")))
	}},
	{"argmin(x; axis int)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.ArgMin(in[0], a.int("axis")))
	}},
	{"argmax_all(x)", "", map1((*Context).ArgMaxAll)},
	{"argmin_all(x)", "", map1((*Context).ArgMinAll)},
	{"topk(x; k int) -> values, index", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) { return two(c.TopK(in[0], a.int("k"))) }},
	{"update_confusion_matrix(preds, targets, cm!) -> ", "", func(c *Context, in []*Tensor, _ arguments) ([]*Tensor, error) {
		return nil, c.UpdateConfusionMatrix(in[0], in[1], in[2])
	}},
}

// convAttributes are those of the convolution and its gradient, which must agree.
const convAttributes = "stride int = 1, padding int = 0, dilation int = 1, groups int = 1"

var mapOps = []row{
	{"conv2d(x, w, b?; " + convAttributes + ", activation string = none)", "conv2d_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		o := a.convolution()
		o.Activation = a.activation()
		return one(c.Conv2D(in[0], in[1], in[2], o))
	}},
	{"conv2d_backward(gy, x, w; " + convAttributes + ") -> gx, gw, gb", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return three(c.Conv2DBackward(in[0], in[1], in[2], a.convolution()))
	}},
	{"max_pool2d(x; kernel int, stride int) -> y, argmax", "max_pool2d_backward", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return two(c.MaxPool2D(in[0], a.int("kernel"), a.int("stride")))
	}},
	{"max_pool2d_backward(gy, x; kernel int, stride int)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.MaxPool2DBackward(in[0], in[1], a.int("kernel"), a.int("stride")))
	}},
	{"avg_pool2d(x; kernel int, stride int)", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.AvgPool2D(in[0], a.int("kernel"), a.int("stride")))
	}},
	{"im2col(x; kernel int, stride int = 1, padding int = 0)", "col2im", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Im2Col(in[0], a.int("kernel"), a.int("stride"), a.int("padding")))
	}},
	{"col2im(cols; channels int, height int, width int, kernel int, stride int = 1, padding int = 0)", "im2col", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.Col2Im(in[0], a.int("channels"), a.int("height"), a.int("width"), a.int("kernel"), a.int("stride"), a.int("padding")))
	}},
}

var trainOps = []row{
	{"mse_grad(p, t; scale float)", own, func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		return one(c.MSEGrad(in[0], in[1], a.float("scale")))
	}},
	{"adam_step(w!, g, m!, v!; lr float, step int, beta1 float = 0.9, beta2 float = 0.999, eps float = 1e-8, weight_decay float = 0) -> ", "", func(c *Context, in []*Tensor, a arguments) ([]*Tensor, error) {
		o := Adam{LearningRate: a.float("lr"), Beta1: a.float("beta1"), Beta2: a.float("beta2"), Eps: a.float("eps"), WeightDecay: a.float("weight_decay")}
		return nil, c.AdamStep(in[0], in[1], in[2], in[3], o, a.int("step"))
	}},
}
