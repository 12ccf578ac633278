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
var named = func() map[string]*operation {
	all := map[string]*operation{}
	for _, group := range [][]row{unaryOps(), binaryOps(), elementwiseOps, fusedOps, shapeOps, linearOps, layerOps, reduceOps, mapOps, trainOps} {
		for _, e := range group {
			s := parseSignature(e.signature)
			all[s.name] = &operation{s, e.doc, e.gradient, e.run}
		}
	}
	return all
}()

// row is an entry: the signature (see Operation), one sentence for the documents
// and Python's docstring, how the gradient is computed, and the operation itself.
type row struct {
	signature, doc, gradient string
	run                      runner
}
