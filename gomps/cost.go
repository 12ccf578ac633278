// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// CostOptions are the options of EstimateCost.
type CostOptions struct {
	// Model is a model file or directory. Without one, Variant names a published
	// model: its dimensions are known, its weights are not needed.
	Model, Variant string
	// Height and Width of the two pictures at network size; 0: the model's native
	// long side at 4:3 for the first, the first's size for the second.
	Height1, Width1, Height2, Width2 int
	// Precision is "fp32" or "fp16" ("", what Metal takes by default).
	Precision string
	// TFLOPS and GBps are what the machine can do; 0: 7.5 and 273, an M4 Pro with
	// 20 GPU cores.
	TFLOPS, GBps float64
}

// Cost is the work of one pair of pictures, counted from the shapes.
type Cost struct {
	Variant   string  `json:"variant"`
	Precision string  `json:"precision"`
	Height1   int     `json:"height_1"`
	Width1    int     `json:"width_1"`
	Height2   int     `json:"height_2"`
	Width2    int     `json:"width_2"`
	TFLOPS    float64 `json:"tflops"`
	GBps      float64 `json:"gb_per_s"`
	// Graphs are the programs of a pair in the order they run, Ops the same work
	// by kind of operation, the most expensive first.
	Graphs []CostPart `json:"graphs"`
	Ops    []CostPart `json:"ops"`
	Total  CostPart   `json:"total"`
}

// CostPart is the work of a graph or of a kind of operation.
type CostPart struct {
	Name string `json:"name"`
	// Dispatches are the operations after simplification; a device may fuse more.
	Dispatches int `json:"dispatches"`
	// Transposes move data only: the graph's own, and what splits and joins the
	// heads of attention and rotary embedding. Those of weights cost nothing.
	Transposes int `json:"transposes"`
	// FLOPs counts a multiply-add as 2.
	FLOPs int64 `json:"flops"`
	// Bytes are operands read once and results written once, weights included.
	Bytes   int64 `json:"bytes"`
	Weights int64 `json:"weight_bytes"`
	// PredictedMS is the sum over operations of the longer of computing and moving.
	PredictedMS float64 `json:"predicted_ms"`
}

func (c *CostPart) add(d CostPart) {
	c.Dispatches += d.Dispatches
	c.Transposes += d.Transposes
	c.FLOPs += d.FLOPs
	c.Bytes += d.Bytes
	c.Weights += d.Weights
	c.PredictedMS += d.PredictedMS
}

// EstimateCost counts the work of a pair. It runs nothing and needs no device.
func EstimateCost(ctx context.Context, opt CostOptions) (*Cost, error) {
	return detached(ctx, func() (*Cost, error) { return estimateCost(opt) }, func(*Cost) {})
}

func estimateCost(opt CostOptions) (_ *Cost, err error) {
	c := &Cost{
		Height1: opt.Height1, Width1: opt.Width1, Height2: opt.Height2, Width2: opt.Width2,
		Precision: cmp.Or(opt.Precision, "fp16"), TFLOPS: cmp.Or(opt.TFLOPS, 7.5), GBps: cmp.Or(opt.GBps, 273),
	}
	if c.Precision != "fp16" && c.Precision != "fp32" {
		return nil, &ConfigError{"Precision", c.Precision, "fp32 or fp16"}
	}
	if !(c.TFLOPS > 0 && c.GBps > 0) {
		return nil, &ConfigError{"TFLOPS, GBps", fmt.Sprint(c.TFLOPS, ", ", c.GBps), "numbers above 0"}
	}
	set, err := opt.weights()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	m, err := pairwise(set, cmp.Or(opt.Model, opt.Variant))
	if err != nil {
		return nil, err
	}
	facts := m.Facts()
	c.Variant = cmp.Or(opt.Variant, facts.Variant)
	if err := c.sizes(facts); err != nil {
		return nil, err
	}
	return c, c.count(m)
}

// pairwise opens a set as a network of pairs.
func pairwise(set *weights.Set, name string) (model.Pairwise, error) {
	net, err := model.Open(set)
	if err != nil {
		return nil, &WeightsError{name, err}
	}
	m, ok := net.(model.Pairwise)
	if !ok {
		return nil, &UnsupportedError{net.Facts().Variant, "estimate", "only networks of pairs are counted"}
	}
	return m, nil
}

// weights opens the model, or makes a set of the variant's shapes whose elements
// are all the same zeros: graphs are built from shapes.
func (o CostOptions) weights() (*weights.Set, error) {
	if o.Model != "" {
		set, err := weights.OpenSet(o.Model)
		if err != nil {
			return nil, loadError(o.Model, err)
		}
		return set, nil
	}
	d, err := published(o.Variant)
	if err != nil {
		return nil, err
	}
	var specs []weights.Spec
	largest, count := 0, 0
	for _, f := range d.Files() {
		for _, s := range f.Specs {
			specs = append(specs, s)
			largest = max(largest, s.Shape.Numel()*tensor.F32.Size())
			count++
		}
	}
	// Never touched, so never in memory. Each tensor begins at a place of its own, as
	// addresses tell weights apart.
	size := tensor.F32.Size()
	zeros := make([]byte, largest+count*size)
	list := make([]weights.Tensor, len(specs))
	for i, s := range specs {
		list[i] = weights.Tensor{Name: s.Name, DType: tensor.F32, Shape: s.Shape, Data: zeros[i*size:][:s.Shape.Numel()*size]}
	}
	return weights.NewSetTensors(list, d.Metadata(o.Variant)), nil
}

// published are the dimensions of the published models.
func published(variant string) (synth.Dims, error) {
	known := map[string]struct {
		name string
		grid int // of the position table
	}{
		"mast3r_vit_large":   {"mast3r_vit_large", 0},
		"dune_vit_small_336": {"dune_vit_small_14", 24}, "dune_vit_small_448": {"dune_vit_small_14", 32},
		"da3_small": {"da3_small", 37}, "da3_base": {"da3_base", 37}, "da3_large": {"da3_large", 37}, "da3_giant": {"da3_giant", 37},
		"dune_vit_base_336": {"dune_vit_base_14", 24}, "dune_vit_base_448": {"dune_vit_base_14", 32},
	}
	k, ok := known[plainVariant(variant)]
	if !ok {
		return synth.Dims{}, &ConfigError{"Variant", variant, fmt.Sprintf("a Model, or one of %v", slices.Sorted(maps.Keys(known)))}
	}
	d, err := synth.Variant(k.name)
	d.PosGrid = k.grid
	return d, err
}

func (c *Cost) sizes(m vit.Facts) error {
	if c.Height1 == 0 && c.Width1 == 0 {
		c.Width1 = m.Resolution / m.Patch * m.Patch
		c.Height1 = max(c.Width1*3/4/m.Patch*m.Patch, m.Patch)
	}
	if c.Height2 == 0 && c.Width2 == 0 {
		c.Height2, c.Width2 = c.Height1, c.Width1
	}
	for _, s := range []int{c.Height1, c.Width1, c.Height2, c.Width2} {
		if s < m.Patch || s > maxResolution || s%m.Patch != 0 {
			return &ShapeError{"picture", fmt.Sprintf("%dx%d and %dx%d (height x width)", c.Height1, c.Width1, c.Height2, c.Width2),
				fmt.Sprintf("multiples of the patch size %d, up to %d", m.Patch, maxResolution)}
		}
	}
	return nil
}

// count adds up the programs that a pair runs.
func (c *Cost) count(m model.Pairwise) (err error) {
	defer fault.Guard(&err)()
	ops := map[string]*CostPart{}
	graphs, err := pairGraphs(m, c.Height1, c.Width1, c.Height2, c.Width2, mast3r.AllOutputs)
	if err != nil {
		return err
	}
	for _, g := range graphs {
		simple, err := passes.Simplify(g)
		if err != nil {
			return fmt.Errorf("gomps: cost of %s: %w", g.Name, err)
		}
		part := CostPart{Name: g.Name}
		for _, n := range simple.Nodes {
			d, counted := c.node(n)
			if !counted {
				continue
			}
			part.add(d)
			kind := n.Op.Kind()
			if ops[kind] == nil {
				ops[kind] = &CostPart{Name: kind}
			}
			ops[kind].add(d)
		}
		c.Graphs = append(c.Graphs, part)
		c.Total.add(part)
	}
	c.Total.Name = "pair"
	for _, p := range ops {
		c.Ops = append(c.Ops, *p)
	}
	slices.SortFunc(c.Ops, func(a, b CostPart) int {
		return cmp.Or(cmp.Compare(b.PredictedMS, a.PredictedMS), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// node is the cost of one operation; inputs, weights and changes of shape cost
// nothing.
func (c *Cost) node(n *graph.Node) (CostPart, bool) {
	switch n.Op.(type) {
	case graph.Input, graph.Param, graph.Reshape:
		return CostPart{}, false
	}
	size := func(x *graph.Node) int64 {
		if x.DType == tensor.F32 && c.Precision == "fp16" {
			return int64(x.Numel()) * 2
		}
		return int64(x.Bytes())
	}
	p := CostPart{Dispatches: 1, FLOPs: n.Cost().FLOPs, Bytes: size(n)}
	for _, x := range n.In {
		p.Bytes += size(x)
		if _, ok := x.Op.(graph.Param); ok {
			p.Weights += size(x)
		}
	}
	switch n.Op.(type) {
	case graph.Transpose:
		p.Transposes = 1
	case graph.Attention:
		p.Transposes = 4
		if metal.PackedQKV(n) != nil {
			p.Transposes = 2 // q, k and v in one
		}
	case graph.RoPE:
		p.Transposes = 2
	}
	p.PredictedMS = 1e3 * max(float64(p.FLOPs)/(c.TFLOPS*1e12), float64(p.Bytes)/(c.GBps*1e9))
	return p, true
}
