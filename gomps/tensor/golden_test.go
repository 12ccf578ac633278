// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"fmt"
	"math"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
)

// goldenRun is one case of golden/ops through the eager API.
type goldenRun struct {
	t      *testing.T
	c      *Context
	file   *golden.Case
	name   string // of the case
	params map[string]any
	limit  float64
	keep   func(x *Tensor, err error) *Tensor
}

// in is the input of that name as a tensor; nil when the case has none.
func (r *goldenRun) in(name string) *Tensor {
	full := r.name + ".in." + name
	if !r.file.Has(full) {
		return nil
	}
	if r.file.Tensor(r.t, full).DType.Float() {
		v, s := r.file.Floats(r.t, full)
		return r.keep(r.c.FromFloat32s(v, s...))
	}
	v, s := r.file.Ints(r.t, full)
	idx := make([]int32, len(v))
	for i, x := range v {
		idx[i] = int32(x)
	}
	return r.keep(r.c.FromInt32s(idx, s...))
}

func (r *goldenRun) number(key string) float64 { v, _ := r.params[key].(float64); return v }
func (r *goldenRun) integer(key string) int    { return int(r.number(key)) }
func (r *goldenRun) square(key string) [2]int  { return [2]int{r.integer(key), r.integer(key)} }
func (r *goldenRun) integers(key string) []int {
	list, _ := r.params[key].([]any)
	out := make([]int, len(list))
	for i, x := range list {
		out[i] = int(x.(float64))
	}
	return out
}

// out compares a result with the golden one.
func (r *goldenRun) out(name string, x *Tensor, err error) {
	r.t.Helper()
	x = r.keep(x, err)
	full := r.name + ".out." + name
	got := must[[]float32](r.t)(x.Float32s())
	if r.file.Tensor(r.t, full).DType.Float() {
		want, s := r.file.Floats(r.t, full)
		if scalar := len(x.shape) == 0 && s.Numel() == 1; !scalar && !x.shape.Equal(s) {
			r.t.Fatalf("%s: shape %v, want %v", full, x.shape, s)
		}
		if d := golden.Compare(got, want); !(d.RelL2 <= r.limit) {
			r.t.Errorf("%s: relative L2 %.3g, want <= %.3g", full, d.RelL2, r.limit)
		}
		return
	}
	want, _ := r.file.Ints(r.t, full)
	for i, w := range want {
		if int(got[i]) != w {
			r.t.Fatalf("%s: element %d is %v, want %d", full, i, got[i], w)
		}
	}
}

func (r *goldenRun) conv() ConvOptions {
	return ConvOptions{Stride: r.integer("stride"), Pad: r.integer("padding"), Dilation: r.integer("dilation"), Groups: r.integer("groups")}
}

// TestGolden runs the cases of golden/ops that the eager API has.
func TestGolden(t *testing.T) {
	dir := golden.Path(t, "golden", "ops")
	var index map[string]map[string]struct {
		Params map[string]any `json:"params"`
	}
	golden.ReadJSON(t, dir+"/index.json", &index)
	contexts(t, func(t *testing.T, c *Context) {
		for op, run := range goldenOps {
			file := golden.Load(t, dir+"/"+op+".safetensors")
			for name, x := range index[op] {
				t.Run(op+"/"+name, func(t *testing.T) {
					limit := 2e-6
					if op+"/"+name == "layer_norm/flat" {
						limit = 2e-3 // its data agree to no better, see tests/go/optest
					}
					run(&goldenRun{t: t, c: c, file: file, name: name, params: x.Params, limit: limit, keep: keeper(t)})
				})
			}
		}
	})
}

var goldenOps = map[string]func(r *goldenRun){
	"matmul": func(r *goldenRun) {
		a, b := r.in("a"), r.in("b")
		if r.params["transpose_b"] == true {
			y, err := r.c.MatMulTransposed(a, b)
			r.out("y", y, err)
			return
		}
		y, err := r.c.MatMul(a, b)
		r.out("y", y, err)
	},
	"linear": goldenLinear,
	"unary": func(r *goldenRun) {
		f := map[string]func(*Tensor) (*Tensor, error){
			"exp": r.c.Exp, "gelu_erf": r.c.Gelu, "gelu_tanh": r.c.GeluTanh, "sigmoid": r.c.Sigmoid, "tanh": r.c.Tanh,
			"relu": r.c.Relu, "sin": r.c.Sin, "cos": r.c.Cos, "abs": r.c.Abs, "neg": r.c.Neg, "log": r.c.Log, "sqrt": r.c.Sqrt,
		}[r.name]
		if f != nil {
			y, err := f(r.in("x"))
			r.out("y", y, err)
		}
	},
	"activation_bwd": func(r *goldenRun) {
		act := map[string]Activation{"relu": Relu, "sigmoid": Sigmoid, "tanh": Tanh, "gelu_erf": Gelu}[r.name]
		y, err := r.c.ActivationBackward(act, r.in("gy"), r.in("x"))
		r.out("gx", y, err)
	},
	"softmax": func(r *goldenRun) {
		y, err := r.c.Softmax(r.in("x"), r.integer("axis"))
		r.out("y", y, err)
	},
	"layer_norm": func(r *goldenRun) {
		x, w, b, eps := r.in("x"), r.in("w"), r.in("b"), float32(r.number("eps"))
		y, err := r.c.LayerNorm(x, w, b, eps)
		r.out("y", y, err)
		if gy := r.in("gy"); gy != nil {
			gx, gw, gb, err := r.c.LayerNormBackward(gy, x, w, eps)
			r.out("gx", gx, err)
			r.out("gw", gw, err)
			r.out("gb", gb, err)
		}
	},
	"rms_norm": func(r *goldenRun) {
		y, err := r.c.RMSNorm(r.in("x"), r.in("w"), float32(r.number("eps")))
		r.out("y", y, err)
	},
	"batch_norm": func(r *goldenRun) {
		y, err := r.c.BatchNorm(r.in("x"), r.in("w"), r.in("b"), r.in("mean"), r.in("var"), float32(r.number("eps")))
		r.out("y", y, err)
	},
	"sdpa": func(r *goldenRun) {
		y, err := r.c.Attention(r.in("q"), r.in("k"), r.in("v"), r.in("mask"), float32(r.number("scale")))
		r.out("y", y, err)
	},
	"conv2d": func(r *goldenRun) {
		x, w, gy := r.in("x"), r.in("w"), r.in("gy")
		y, err := r.c.Conv2D(x, w, r.in("b"), r.conv())
		r.out("y", y, err)
		gx, gw, gb, err := r.c.Conv2DBackward(gy, x, w, r.conv())
		r.out("gx", gx, err)
		r.out("gw", gw, err)
		if r.file.Has(r.name + ".out.gb") {
			r.out("gb", gb, err)
		} else {
			r.keep(gb, err)
		}
	},
	"maxpool2d": func(r *goldenRun) {
		x := r.in("x")
		y, at, err := r.c.MaxPool2D(x, r.square("kernel"), r.square("stride"))
		r.out("y", y, err)
		r.out("argmax", at, err)
		gx, err := r.c.MaxPool2DBackward(r.in("gy"), x, r.square("kernel"), r.square("stride"))
		r.out("gx", gx, err)
	},
	"avgpool2d": func(r *goldenRun) {
		y, err := r.c.AvgPool2D(r.in("x"), r.square("kernel"), r.square("stride"))
		r.out("y", y, err)
	},
	"permute": func(r *goldenRun) {
		y, err := r.c.Permute(r.in("x"), r.integers("perm")...)
		r.out("y", y, err)
	},
	"slice": func(r *goldenRun) {
		end := r.integers("end")
		for i, s := range r.integers("step") {
			if s < 0 && end[i] > r.integers("begin")[i] {
				r.t.Fatalf("slice: end %v", end)
			}
		}
		y, err := r.c.Slice(r.in("x"), r.integers("begin"), end, r.integers("step"))
		r.out("y", y, err)
	},
	"concat": func(r *goldenRun) {
		y, err := r.c.Concat(r.integer("axis"), r.in("a"), r.in("b"))
		r.out("y", y, err)
	},
	"pad": func(r *goldenRun) {
		y, err := r.c.Pad(r.in("x"), r.integers("before"), r.integers("after"), float32(r.number("value")))
		r.out("y", y, err)
	},
	"gather": func(r *goldenRun) {
		y, err := r.c.Gather(r.in("x"), r.in("index"), r.integer("axis"))
		r.out("y", y, err)
	},
	"scatter_add": func(r *goldenRun) {
		y, err := r.c.ScatterAdd(r.in("src"), r.in("index"), r.integer("rows"))
		r.out("y", y, err)
	},
	"reduce": goldenReduce,
	"argmax": func(r *goldenRun) {
		y, err := r.c.ArgMax(r.in("x"), r.integer("axis"))
		r.out("y", y, err)
	},
	"argmin": func(r *goldenRun) {
		y, err := r.c.ArgMin(r.in("x"), r.integer("axis"))
		r.out("y", y, err)
	},
	"topk": func(r *goldenRun) {
		v, i, err := r.c.TopK(r.in("x"), r.integer("k"))
		r.out("values", v, err)
		r.out("index", i, err)
	},
	"adam_step": goldenAdam,
	"softmax_cross_entropy": func(r *goldenRun) {
		loss, gx, err := r.c.SoftmaxCrossEntropy(r.in("x"), r.in("label"))
		r.out("loss", loss, err)
		r.out("gx", gx, err)
	},
	"mse_grad": func(r *goldenRun) {
		y, err := r.c.MSEGrad(r.in("p"), r.in("t"), float32(r.number("scale")))
		r.out("y", y, err)
	},
	"rope2d": func(r *goldenRun) {
		y, err := r.c.RoPE(r.in("x"), 1, 4, 6, float32(r.number("base")))
		r.out("y", y, err)
	},
}

// goldenLinear checks the forward pass, and the gradients added to what was
// there before.
func goldenLinear(r *goldenRun) {
	act := Activation(r.params["activation"].(string))
	x, w, b, gy := r.in("x"), r.in("w"), r.in("b"), r.in("gy")
	y := r.keep(r.c.Linear(x, w, b, act))
	r.out("y", y, nil)
	from := y
	if act == Gelu {
		from = r.keep(r.c.Linear(x, w, b, None))
	}
	gw, gb := r.keep(r.c.Zeros(F32, w.Shape()...)), r.keep(r.c.Zeros(F32, b.Shape()...))
	gx, err := r.c.LinearBackward(gy, from, x, w, gw, gb, act)
	r.out("gx", gx, err)
	r.out("gw", gw, nil)
	r.out("gb", gb, nil)
	// A second call adds the same once more.
	once := must[[]float32](r.t)(gw.Float32s())
	r.keep(r.c.LinearBackward(gy, from, x, w, gw, gb, act))
	twice := must[[]float32](r.t)(gw.Float32s())
	for i := range once {
		if math.Abs(float64(twice[i]-2*once[i])) > 1e-5*math.Abs(float64(once[i]))+1e-6 {
			r.t.Fatalf("gW does not accumulate: element %d is %v after %v", i, twice[i], once[i])
		}
	}
}

func goldenReduce(r *goldenRun) {
	x := r.in("x")
	var y *Tensor
	var err error
	switch r.name {
	case "sum":
		y, err = r.c.Sum(x, 1)
	case "mean":
		y, err = r.c.Mean(x, 1)
	case "max":
		y, err = r.c.Max(x, -1)
	case "min":
		y, err = r.c.Min(x, 1)
	case "sum_all":
		y, err = r.c.Sum(x)
	case "sum_axis0":
		y, err = r.c.Sum(x, 0)
	default:
		return // l2 and variance are sums of other operations
	}
	r.out("y", y, err)
}

func goldenAdam(r *goldenRun) {
	a := Adam{LearningRate: float32(r.number("lr")), Beta1: float32(r.number("beta1")), Beta2: float32(r.number("beta2")),
		Eps: float32(r.number("eps")), WeightDecay: float32(r.number("weight_decay"))}
	w := r.in("w")
	if g := r.in("g"); g != nil {
		m, v := r.in("m"), r.in("v")
		if err := r.c.AdamStep(w, g, m, v, a, r.integer("t")); err != nil {
			r.t.Fatal(err)
		}
		r.out("w", w, nil)
		r.out("m", m, nil)
		r.out("v", v, nil)
		return
	}
	m, v := r.keep(r.c.Zeros(F32, w.Shape()...)), r.keep(r.c.Zeros(F32, w.Shape()...))
	for i := range r.integer("steps") {
		if err := r.c.AdamStep(w, r.in(fmt.Sprintf("g%d", i)), m, v, a, i+1); err != nil {
			r.t.Fatal(err)
		}
		r.out(fmt.Sprintf("w%d", i), r.keep(w.Copy()), nil)
	}
}
