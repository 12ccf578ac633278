// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"fmt"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/gomps/tensor"
)

// Thresholds say from how many elements of its operands on an operation goes to
// the GPU; an operation that is not listed stays on the CPU.
type Thresholds map[OpKind]int

// DefaultThresholds are estimates; Calibrate measures.
func DefaultThresholds() Thresholds {
	return Thresholds{OpFusedLinearAddGelu: 1000, OpFusedLinearAdd: 1000, OpFusedLinearGelu: 500, OpMatMul: 500}
}

// products are the operations that Calibrate sets, with how many operands of n x n
// elements each reads.
var products = map[OpKind]int{OpMatMul: 2, OpFusedLinearGelu: 2, OpFusedLinearAdd: 3, OpFusedLinearAddGelu: 3}

// Stats count where operations ran.
type Stats struct {
	CPU, GPU int
	// Fallbacks are the reasons why the CPU ran what was routed to the GPU, with
	// how often.
	Fallbacks map[string]int
}

// Executor runs graphs on a CPU and, where there is one, a GPU. It serves one
// goroutine at a time.
type Executor struct {
	cpu, gpu   *tensor.Context
	noGPU      string
	Thresholds Thresholds
	stats      Stats
}

// New opens the devices. Without a GPU everything runs on the CPU, and
// the statistics say why.
func New(threads int) (*Executor, error) {
	cpu, err := tensor.Open(tensor.Config{Backend: "cpu", Threads: threads})
	if err != nil {
		return nil, err
	}
	e := &Executor{cpu: cpu, Thresholds: DefaultThresholds(), stats: Stats{Fallbacks: map[string]int{}}}
	if e.gpu, err = tensor.Open(tensor.Config{Backend: "metal"}); err != nil {
		e.gpu, e.noGPU = nil, err.Error()
	}
	return e, nil
}

// Close frees the devices.
func (e *Executor) Close() error {
	err := e.cpu.Close()
	if e.gpu != nil {
		err = errors.Join(err, e.gpu.Close())
	}
	return err
}

// Stats are the counts since the executor was made.
func (e *Executor) Stats() Stats {
	s := e.stats
	s.Fallbacks = map[string]int{}
	for k, v := range e.stats.Fallbacks {
		s.Fallbacks[k] = v
	}
	return s
}

// Execute runs the graph on inputs by name and returns its outputs by name.
func (e *Executor) Execute(g *Graph, inputs map[string]Array) (map[string]Array, error) {
	list, err := g.sorted()
	if err != nil {
		return nil, err
	}
	r := &execution{e: e, values: map[string]*placed{}}
	defer r.release()
	for _, name := range list {
		n := g.nodes[name]
		for _, x := range n.in {
			if r.values[x] != nil {
				continue
			}
			a, ok := inputs[x]
			if !ok {
				return nil, refuse(tensor.ErrOption, "node %q needs input %q, which was not given", name, x)
			}
			if err := a.check(); err != nil {
				return nil, fmt.Errorf("input %q: %w", x, err)
			}
			r.values[x] = &placed{host: &a}
		}
		if err := r.run(name, n); err != nil {
			return nil, fmt.Errorf("executor: node %q: %w", name, err)
		}
	}
	out := map[string]Array{}
	for _, name := range g.outputs {
		a, err := r.values[name].array()
		if err != nil {
			return nil, fmt.Errorf("executor: output %q: %w", name, err)
		}
		out[name] = *a
	}
	return out, nil
}

// placed is a value and where copies of it are.
type placed struct {
	host *Array
	on   map[*tensor.Context]*tensor.Tensor
}

func (p *placed) numel() int {
	for _, t := range p.on {
		return t.Numel()
	}
	return len(p.host.Data)
}

func (p *placed) array() (*Array, error) {
	if p.host == nil {
		for _, t := range p.on {
			v, err := t.Float32s()
			if err != nil {
				return nil, err
			}
			p.host = &Array{v, t.Shape()}
		}
	}
	return p.host, nil
}

// at is the value on a device, copied there when it is not.
func (p *placed) at(c *tensor.Context) (*tensor.Tensor, error) {
	if t := p.on[c]; t != nil {
		return t, nil
	}
	a, err := p.array()
	if err != nil {
		return nil, err
	}
	t, err := c.FromFloat32s(a.Data, a.Shape...)
	if err != nil {
		return nil, err
	}
	if p.on == nil {
		p.on = map[*tensor.Context]*tensor.Tensor{}
	}
	p.on[c] = t
	return t, nil
}

type execution struct {
	e      *Executor
	values map[string]*placed
}

func (r *execution) release() {
	for _, p := range r.values {
		for _, t := range p.on {
			t.Release()
		}
	}
}

// run routes one node; what fails on the GPU for the device's sake is done again
// on the CPU.
func (r *execution) run(name string, n graphNode) error {
	size := 0
	for _, x := range n.in {
		size += r.values[x].numel()
	}
	if least, ok := r.e.Thresholds[n.op.Kind]; ok && size > least {
		if r.e.gpu == nil {
			r.e.stats.Fallbacks[r.e.noGPU]++
		} else {
			err := r.on(r.e.gpu, name, n)
			if err == nil {
				r.e.stats.GPU++
				return nil
			}
			if errors.Is(err, tensor.ErrShape) || errors.Is(err, tensor.ErrDType) || errors.Is(err, tensor.ErrOption) {
				return err // the graph's fault: the CPU would say the same
			}
			r.e.stats.Fallbacks[err.Error()]++
		}
	}
	if err := r.on(r.e.cpu, name, n); err != nil {
		return err
	}
	r.e.stats.CPU++
	return nil
}

func (r *execution) on(c *tensor.Context, name string, n graphNode) error {
	in := make([]*tensor.Tensor, len(n.in))
	for i, x := range n.in {
		t, err := r.values[x].at(c)
		if err != nil {
			return err
		}
		in[i] = t
	}
	y, err := apply(c, n.op, in)
	if err == nil {
		// A device that failed says so when it is waited for.
		if err = c.Sync(); err != nil {
			y.Release()
		}
	}
	if err != nil {
		return err
	}
	r.values[name] = &placed{on: map[*tensor.Context]*tensor.Tensor{c: y}}
	return nil
}

func apply(c *tensor.Context, op Op, in []*tensor.Tensor) (*tensor.Tensor, error) {
	switch op.Kind {
	case OpMatMul:
		return c.MatMul(in[0], in[1])
	case OpAdd:
		return c.Add(in[0], in[1])
	case OpGelu:
		return c.Gelu(in[0])
	case OpGeluTanh:
		return c.GeluTanh(in[0])
	case OpSoftmax:
		return c.Softmax(in[0], -1)
	case OpLayerNorm:
		return c.LayerNorm(in[0], in[1], in[2], op.Eps)
	case OpAttention:
		return c.Attention(in[0], in[1], in[2], nil, op.Scale)
	case OpFusedLinearAdd:
		return c.MatMulBias(in[0], in[1], in[2])
	case OpFusedLinearGelu:
		return c.MatMulActivation(in[0], in[1], tensor.Gelu)
	case OpFusedLinearAddGelu:
		return c.MatMulBiasActivation(in[0], in[1], in[2], tensor.Gelu)
	}
	return nil, refuse(tensor.ErrOption, "operation %q", op.Kind)
}

// Calibrate measures MatMul on both devices at growing sizes and sets the
// thresholds of the products to where the GPU begins to win; those of other
// operations stay. Without a GPU it changes nothing.
func (e *Executor) Calibrate() error {
	if e.gpu == nil {
		return nil
	}
	for n := 16; n <= 1024; n *= 2 {
		cpu, err := timeMatMul(e.cpu, n)
		if err != nil {
			return err
		}
		gpu, err := timeMatMul(e.gpu, n)
		if err != nil {
			return err
		}
		if gpu < cpu || n == 1024 {
			if e.Thresholds == nil {
				e.Thresholds = Thresholds{}
			}
			for kind, operands := range products {
				e.Thresholds[kind] = operands*n*n - 1
			}
			return nil
		}
	}
	return nil
}

// timeMatMul is the shortest of a few products of n x n, with the wait.
func timeMatMul(c *tensor.Context, n int) (time.Duration, error) {
	x, err := c.Full(1, n, n)
	if err != nil {
		return 0, err
	}
	defer x.Release()
	best := time.Duration(1<<63 - 1)
	for range 4 { // the first compiles
		start := time.Now()
		y, err := c.MatMul(x, x)
		if err != nil {
			return 0, err
		}
		err = c.Sync()
		y.Release()
		if err != nil {
			return 0, err
		}
		best = min(best, time.Since(start))
	}
	return best, nil
}
