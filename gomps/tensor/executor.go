// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Array is a value on the host.
type Array struct {
	Data  []float32
	Shape []int
}

// Op is an operation of a Graph.
type Op struct {
	Kind OpKind
	// Eps is LayerNorm's, Scale Attention's.
	Eps, Scale float32
}

// OpKind names an operation.
type OpKind string

// The operations. Operands in order:
//
//	MatMul              a, b
//	Add                 a, b
//	Gelu, GeluTanh      x (by erf; by the approximation with tanh)
//	Softmax             x (along the last dimension)
//	LayerNorm           x, gamma, beta
//	Attention           q, k, v [B,H,N,d]
//	FusedLinearAdd      x, w, r: x w + r
//	FusedLinearGelu     x, w: gelu(x w)
//	FusedLinearAddGelu  x, w, r: gelu(x w + r)
//
// The fused ones multiply as MatMul does, w [in,out]; Optimize makes them.
const (
	OpMatMul             OpKind = "MatMul"
	OpAdd                OpKind = "Add"
	OpGelu               OpKind = "Gelu"
	OpGeluTanh           OpKind = "GeluTanh"
	OpLayerNorm          OpKind = "LayerNorm"
	OpSoftmax            OpKind = "Softmax"
	OpAttention          OpKind = "Attention"
	OpFusedLinearAdd     OpKind = "FusedLinearAdd"
	OpFusedLinearGelu    OpKind = "FusedLinearGelu"
	OpFusedLinearAddGelu OpKind = "FusedLinearAddGelu"
)

var operandCount = map[OpKind]int{
	OpMatMul: 2, OpAdd: 2, OpGelu: 1, OpGeluTanh: 1, OpLayerNorm: 3, OpSoftmax: 1, OpAttention: 3,
	OpFusedLinearAdd: 3, OpFusedLinearGelu: 2, OpFusedLinearAddGelu: 3,
}

// Graph is a list of named operations. An operand that names no node is an
// input.
type Graph struct {
	nodes   map[string]graphNode
	order   []string // as added
	outputs []string
}

type graphNode struct {
	op Op
	in []string
}

// NewGraph starts an empty graph.
func NewGraph() *Graph { return &Graph{nodes: map[string]graphNode{}} }

// AddNode adds an operation. Its operands may be added later.
func (g *Graph) AddNode(name string, op Op, operands ...string) error {
	want, ok := operandCount[op.Kind]
	switch {
	case !ok:
		return refuse(ErrOption, "node %q: operation %q", name, op.Kind)
	case len(operands) != want:
		return refuse(ErrOption, "node %q: %s with %d operands, want %d", name, op.Kind, len(operands), want)
	case name == "":
		return refuse(ErrOption, "a node without a name")
	}
	if _, ok := g.nodes[name]; ok {
		return refuse(ErrOption, "two nodes are called %q", name)
	}
	g.nodes[name] = graphNode{op, slices.Clone(operands)}
	g.order = append(g.order, name)
	return nil
}

// SetOutput names a node whose value Execute returns; it may be called for
// several.
func (g *Graph) SetOutput(name string) error {
	if _, ok := g.nodes[name]; !ok {
		return refuse(ErrOption, "output %q is no node", name)
	}
	if !slices.Contains(g.outputs, name) {
		g.outputs = append(g.outputs, name)
	}
	return nil
}

// sorted lists the nodes that the outputs need, operands first. A cycle is an
// error that names one of its nodes.
func (g *Graph) sorted() ([]string, error) {
	if len(g.outputs) == 0 {
		return nil, refuse(ErrOption, "the graph has no output")
	}
	const visiting, done = 1, 2
	state := map[string]int{}
	var list []string
	var visit func(name string) error
	visit = func(name string) error {
		n, ok := g.nodes[name]
		if !ok || state[name] == done {
			return nil
		}
		if state[name] == visiting {
			return refuse(ErrOption, "node %q depends on itself", name)
		}
		state[name] = visiting
		for _, x := range n.in {
			if err := visit(x); err != nil {
				return err
			}
		}
		state[name] = done
		list = append(list, name)
		return nil
	}
	for _, o := range g.outputs {
		if err := visit(o); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Optimize returns a graph in which a MatMul that only an Add reads is one
// operation with it, likewise a Gelu after either.
func (g *Graph) Optimize() (*Graph, error) {
	list, err := g.sorted()
	if err != nil {
		return nil, err
	}
	uses := map[string]int{}
	for _, name := range list {
		for _, x := range g.nodes[name].in {
			uses[x]++
		}
	}
	for _, o := range g.outputs {
		uses[o] += 2 // an output's value is needed as it is
	}
	out := NewGraph()
	dropped := map[string]bool{}
	for _, name := range list {
		out.nodes[name] = fuse(out, g.nodes[name], uses, dropped)
	}
	for _, name := range list {
		if dropped[name] {
			delete(out.nodes, name)
			continue
		}
		out.order = append(out.order, name)
	}
	out.outputs = slices.Clone(g.outputs)
	return out, nil
}

// fuse is n, joined with the node before it where one may be.
func fuse(g *Graph, n graphNode, uses map[string]int, dropped map[string]bool) graphNode {
	switch n.op.Kind {
	case OpAdd:
		for i, x := range n.in {
			if p := g.nodes[x]; p.op.Kind == OpMatMul && uses[x] == 1 {
				dropped[x] = true
				return graphNode{Op{Kind: OpFusedLinearAdd}, []string{p.in[0], p.in[1], n.in[1-i]}}
			}
		}
	case OpGelu:
		p := g.nodes[n.in[0]]
		to := map[OpKind]OpKind{OpMatMul: OpFusedLinearGelu, OpFusedLinearAdd: OpFusedLinearAddGelu}[p.op.Kind]
		if to != "" && uses[n.in[0]] == 1 {
			dropped[n.in[0]] = true
			return graphNode{Op{Kind: to}, p.in}
		}
	}
	return n
}

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

// ExecutorStats count where operations ran.
type ExecutorStats struct {
	CPU, GPU int
	// Fallbacks are the reasons why the CPU ran what was routed to the GPU, with
	// how often.
	Fallbacks map[string]int
}

// Executor runs graphs on a CPU and, where there is one, a GPU. It serves one
// goroutine at a time.
type Executor struct {
	cpu, gpu   *Context
	noGPU      string
	Thresholds Thresholds
	stats      ExecutorStats
}

// NewExecutor opens the devices. Without a GPU everything runs on the CPU, and
// the statistics say why.
func NewExecutor(threads int) (*Executor, error) {
	cpu, err := Open(Config{Backend: "cpu", Threads: threads})
	if err != nil {
		return nil, err
	}
	e := &Executor{cpu: cpu, Thresholds: DefaultThresholds(), stats: ExecutorStats{Fallbacks: map[string]int{}}}
	if e.gpu, err = Open(Config{Backend: "metal"}); err != nil {
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
func (e *Executor) Stats() ExecutorStats {
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
				return nil, refuse(ErrOption, "node %q needs input %q, which was not given", name, x)
			}
			if err := checkLength(len(a.Data), a.Shape); err != nil {
				return nil, fmt.Errorf("input %q: %w", x, err)
			}
			r.values[x] = &placed{host: &a}
		}
		if err := r.run(name, n); err != nil {
			return nil, fmt.Errorf("tensor: node %q: %w", name, err)
		}
	}
	out := map[string]Array{}
	for _, name := range g.outputs {
		a, err := r.values[name].array()
		if err != nil {
			return nil, fmt.Errorf("tensor: output %q: %w", name, err)
		}
		out[name] = *a
	}
	return out, nil
}

// placed is a value and where copies of it are.
type placed struct {
	host *Array
	on   map[*Context]*Tensor
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
func (p *placed) at(c *Context) (*Tensor, error) {
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
		p.on = map[*Context]*Tensor{}
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
			if errors.Is(err, ErrShape) || errors.Is(err, ErrDType) || errors.Is(err, ErrOption) {
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

func (r *execution) on(c *Context, name string, n graphNode) error {
	in := make([]*Tensor, len(n.in))
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
	r.values[name] = &placed{on: map[*Context]*Tensor{c: y}}
	return nil
}

func apply(c *Context, op Op, in []*Tensor) (*Tensor, error) {
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
		return c.MatMulActivation(in[0], in[1], Gelu)
	case OpFusedLinearAddGelu:
		return c.matMulAddGelu(in[0], in[1], in[2])
	}
	return nil, refuse(ErrOption, "operation %q", op.Kind)
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
func timeMatMul(c *Context, n int) (time.Duration, error) {
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
