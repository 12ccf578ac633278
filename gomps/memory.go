// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/open"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
	"github.com/mast3r-runtime/mast3r-runtime/internal/memory"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/da3"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"
)

// MemoryOptions are the options of EstimateMemory.
type MemoryOptions struct {
	// Model is a model file or directory. Without one, Variant names a published
	// model: its dimensions are known, its weights are not needed.
	Model, Variant string
	// Height and Width of the pictures at network size; 0: the model's native long side
	// at 4:3 for the first, the first's size for the second.
	Height1, Width1, Height2, Width2 int
	// Pictures is how many pictures one call gets: 2 (or 0) for Infer, more for
	// InferSequence, whose results are all kept until it returns; with a network of many
	// views those of one window of InferViews.
	Pictures int
	// Symmetric is the estimate for InferSymmetric.
	Symmetric bool
	// Batch is how many pairs one call of InferBatch gets, whose results are all kept until
	// it returns; 0: it is another call.
	Batch int
	// Only names the outputs to compute; 0 means all. A network of many views computes
	// the same whatever is asked for.
	Only Outputs
	// Backend is "cpu" (or ""), "metal" or "cuda".
	Backend string
	// Precision and Threads are as in Config.
	Precision string
	Threads   int
}

// Memory is what one call needs at its peak, in bytes, the loaded model included. The
// pictures, and what the caller keeps of earlier results, are the caller's own.
//
// On the CPU it is what the engine plans to allocate, and measured: tests hold the peak
// of the process between 77 % and 100 % of Total. On a GPU it is counted from the shapes
// as if nothing were fused; what the system's compiler needs is not in it.
type Memory struct {
	Variant   string `json:"variant"`
	Backend   string `json:"backend"`
	Precision string `json:"precision"`
	Height1   int    `json:"height_1"`
	Width1    int    `json:"width_1"`
	Height2   int    `json:"height_2"`
	Width2    int    `json:"width_2"`
	Pictures  int    `json:"pictures"`
	Batch     int    `json:"batch"`
	// Weights are prepared for the backend. Activations live during a program, Buffers
	// (pixels, features, what the decoder hands to the heads) during the call, Results
	// as long as the caller keeps them. Runtime is what a process with an engine has
	// besides: heap, stacks, the pages of a file that are being read, and the ends of
	// large pages.
	Weights     int64 `json:"weights"`
	Activations int64 `json:"activations"`
	Buffers     int64 `json:"buffers"`
	Results     int64 `json:"results"`
	Runtime     int64 `json:"runtime"`
	Total       int64 `json:"total"`
	// Free is what this process may still use, and Limit says what sets that limit: the
	// machine, a control group, the address space. "" and 0: nobody knows.
	Free  int64  `json:"free"`
	Limit string `json:"limit"`
}

// Memory.Runtime, measured on Linux: so many bytes, a part of everything else, and so much
// more where pairs are computed side by side.
const runtimeBytes, runtimePart, runtimeLanes = 24 << 20, 12, 16 << 20

// unused is what the buffer of a result of n bytes takes besides: it is a power of two, of
// which whole large pages are in memory.
func unused(n int) int64 {
	const page = 2 << 20
	return int64(min(1<<bits.Len(uint(n-1)), (n+page-1)/page*page) - n)
}

// EstimateMemory says what a call needs. It runs nothing and allocates nothing of it.
func EstimateMemory(ctx context.Context, opt MemoryOptions) (*Memory, error) {
	return detached(ctx, func() (*Memory, error) { return estimateMemory(ctx, opt) }, func(*Memory) {})
}

func estimateMemory(ctx context.Context, opt MemoryOptions) (_ *Memory, err error) {
	cfg := Config{Backend: cmp.Or(opt.Backend, BackendCPU), Precision: opt.Precision, Threads: opt.Threads}
	if cfg.Backend != BackendCPU && cfg.Backend != BackendMetal && cfg.Backend != BackendCUDA {
		return nil, &ConfigError{"Backend", opt.Backend, "cpu, metal or cuda"}
	}
	precision, err := cfg.precision(cfg.Backend)
	if err != nil {
		return nil, err
	}
	const most = 1 << 24
	if opt.Pictures == 0 {
		opt.Pictures = 2
	}
	if opt.Pictures < 2 || opt.Pictures > most || opt.Symmetric && opt.Pictures != 2 {
		return nil, &ConfigError{"Pictures", fmt.Sprint(opt.Pictures), fmt.Sprintf("2 to %d, and 2 for a symmetric pair", most)}
	}
	if opt.Batch < 0 || opt.Batch > most || opt.Batch > 0 && (opt.Symmetric || opt.Pictures != 2) {
		return nil, &ConfigError{"Batch", fmt.Sprint(opt.Batch), fmt.Sprintf("0 to %d, and 0 for a sequence or a symmetric pair", most)}
	}
	size := Cost{Height1: opt.Height1, Width1: opt.Width1, Height2: opt.Height2, Width2: opt.Width2}
	set, err := CostOptions{Model: opt.Model, Variant: opt.Variant}.weights()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	name := cmp.Or(opt.Model, opt.Variant)
	net, err := model.Open(set)
	if err != nil {
		return nil, &WeightsError{name, err}
	}
	if err := size.sizes(net.Facts()); err != nil {
		return nil, err
	}
	count, threads := byShapes, 0
	if cfg.Backend == BackendCPU {
		dev, _, err := open.Device(open.Config{Backend: BackendCPU, Threads: opt.Threads, Precision: cfg.precision})
		if err != nil {
			return nil, openError(err)
		}
		defer dev.Close()
		if p, ok := dev.(backend.Planner); ok {
			count = p.Footprint
		}
		threads = dev.Device().Threads
	}
	var out *Memory
	room := memory.Now()
	if m, ok := net.(model.Multiview); ok {
		if opt.Batch > 0 {
			return nil, &UnsupportedError{net.Facts().Variant, "batch", "its calls are of many views"}
		}
		if err := viewOutputs(net.Facts().Variant, opt.Only); err != nil {
			return nil, err
		}
		c := manyCall{h: size.Height1, w: size.Width1, pictures: opt.Pictures, window: opt.Pictures}
		if m.Outputs()&da3.Sky != 0 {
			c.window = 1
		}
		out, err = c.memory(ctx, count, m, backend.Options{Precision: precision})
	} else {
		c := call{h1: size.Height1, w1: size.Width1, h2: size.Height2, w2: size.Width2, pictures: opt.Pictures, symmetric: opt.Symmetric, batch: opt.Batch, want: wanted(opt.Only)}
		if cfg.Backend == BackendCUDA && opt.Batch >= batchPairs {
			c.lanes = batchPairs
		} else if threads > 0 {
			c.lanes = lanes(opt.Batch, threads, c.h1*c.w1, c.h2*c.w2)
		}
		out, err = c.memory(ctx, count, net, backend.Options{Precision: precision})
		if err == nil && threads > 0 && c.lanes > 1 && room.By != "" && out.Total > int64(room.Free) {
			c.lanes = 0
			out, err = c.memory(ctx, count, net, backend.Options{Precision: precision})
		}
	}
	if err != nil {
		return nil, loadError(name, err)
	}
	out.Variant, out.Backend = cmp.Or(opt.Variant, net.Facts().Variant), cfg.Backend
	out.Free, out.Limit = int64(room.Free), room.By
	return out, nil
}

// call is what a call asks for, as far as its memory goes: the network sizes of its two
// largest pictures, and how many there are.
type call struct {
	h1, w1, h2, w2 int
	pictures       int
	symmetric      bool
	lanes          int // pairs side by side; 0 is one
	batch          int // pairs whose results are kept; 0: those side by side
	want           mast3r.Outputs
}

func (c call) String() string {
	switch {
	case c.lanes > 1:
		return fmt.Sprintf("%d pairs of pictures of up to %dx%d (height x width) side by side", c.lanes, c.h1, c.w1)
	case c.pictures == 1:
		return fmt.Sprintf("a picture of %dx%d (height x width)", c.h1, c.w1)
	case c.pictures > 2:
		return fmt.Sprintf("a sequence of %d pictures, the largest of %dx%d (height x width),", c.pictures, c.h1, c.w1)
	}
	return fmt.Sprintf("a pair of %dx%d and %dx%d pictures (height x width)", c.h1, c.w1, c.h2, c.w2)
}

// memory adds up what the call needs.
func (c call) memory(ctx context.Context, count counter, net model.Network, opt backend.Options) (_ *Memory, err error) {
	defer fault.Guard(&err)()
	var graphs []*graph.Graph
	if m, ok := net.(model.Pairwise); ok && c.pictures > 1 {
		graphs, err = pairGraphs(m, c.h1, c.w1, c.h2, c.w2, c.want)
	} else {
		g, e := net.Encoder(1, c.h1, c.w1)
		graphs, err = []*graph.Graph{g}, e
	}
	if err != nil {
		return nil, err
	}
	f, err := count(ctx, graphs, opt)
	if err != nil {
		return nil, err
	}
	out := &Memory{Precision: opt.Precision.String(), Height1: c.h1, Width1: c.w1, Height2: c.h2, Width2: c.w2, Pictures: c.pictures, Batch: c.batch,
		Weights: int64(f.Weights), Activations: int64(f.Activations)}
	var features, hooks, ends int64
	pixels := 3 * int64(c.h1*c.w1+c.h2*c.w2)
	for _, g := range graphs {
		var bytes, rest int64
		for _, o := range g.Outputs {
			bytes += int64(o.Node.Bytes())
			rest += unused(o.Node.Bytes())
		}
		switch g.Name {
		case "head1", "head2":
			out.Results += bytes
			ends += rest
		case "decoder":
			hooks = bytes
		default:
			features += bytes
		}
	}
	one := out.Results
	switch n := int64(max(c.lanes, 1)); {
	case c.lanes > 1 || c.batch > 0:
		pixels, features, hooks = n*pixels, n*features, n*hooks
		arenas := n
		if n > 1 && int64(c.batch)%n > 0 {
			arenas++ // for what is left over
		}
		out.Activations, out.Results = arenas*out.Activations, max(n, int64(c.batch))*out.Results
	case c.symmetric:
		hooks, out.Results = 2*hooks, 2*out.Results
	case c.pictures > 2:
		// One more picture is encoded before the pair that is under way has ended.
		pixels, features, hooks = pixels*3/2, features*3/2, 2*hooks
		out.Results *= int64(c.pictures - 1)
	}
	if one > 0 { // those of one pair are in runtimeBytes
		ends *= out.Results/one - 1
	}
	out.Buffers = pixels + features + hooks
	planned := out.Weights + out.Activations + out.Buffers + out.Results
	out.Runtime = runtimeBytes + planned/runtimePart + ends
	if c.lanes > 1 {
		out.Runtime += runtimeLanes
	}
	out.Total = planned + out.Runtime
	return out, nil
}

// counter counts the memory of programs, as backend.Planner does.
type counter = func(context.Context, []*graph.Graph, backend.Options) (backend.Footprint, error)

// byShapes knows no device.
func byShapes(_ context.Context, graphs []*graph.Graph, opt backend.Options) (f backend.Footprint, err error) {
	width := 2
	if opt.Precision == backend.FP32 || opt.Precision == backend.TF32 {
		width = 4
	}
	seen := map[string]bool{}
	for _, g := range graphs {
		simple, err := passes.Simplify(g)
		if err != nil {
			return f, err
		}
		f.Activations = max(f.Activations, passes.Live(simple, width))
		for _, n := range simple.Nodes {
			if p, ok := n.Op.(graph.Param); ok && (p.Name == "" || !seen[p.Name]) {
				seen[p.Name] = true
				f.Weights += n.Numel() * width
			}
		}
	}
	return f, nil
}

// admit refuses work on pictures that does not fit into what memory there is, before
// anything is allocated for it. Only the CPU can plan its memory, and only that of pairs
// is counted.
func (j *job) admit(pictures []preprocess.Transform, symmetric bool) error {
	if j.l.views != nil {
		if j.fitViews == nil {
			return nil
		}
		return j.fitViews(len(pictures), pictures[0].Height, pictures[0].Width)
	}
	planner, ok := j.e.dev.(backend.Planner)
	if !ok {
		return nil
	}
	c := call{pictures: len(pictures), symmetric: symmetric, lanes: j.lanes, want: j.want}
	if j.lanes > 1 {
		c.pictures = 2 // of each
	}
	for _, t := range pictures {
		switch n := t.Height * t.Width; {
		case n > c.h1*c.w1:
			c.h1, c.w1, c.h2, c.w2 = t.Height, t.Width, c.h1, c.w1
		case n > c.h2*c.w2:
			c.h2, c.w2 = t.Height, t.Width
		}
	}
	return j.fits(planner, c)
}

// admitImages is admit before anything is known of the pictures. Those that cannot be
// used are left to prepare, which names them.
func (j *job) admitImages(images []Image, opt InferOptions, symmetric bool) error {
	plans, err := j.plans(0, images, opt)
	if err != nil {
		return nil
	}
	return j.admit(plans, symmetric)
}

// fits compares what a call needs with what may still be used, and with what the
// backend holds already. What has been let in once is not looked at again: its memory
// is kept.
func (j *job) fits(planner backend.Planner, c call) error {
	if j.l.admitted[c] {
		return nil
	}
	m, err := c.memory(j.ctx, planner.Footprint, j.l.model, j.l.programs.opt)
	if err != nil {
		return j.planError(c.String(), err)
	}
	room := memory.Now()
	if have := int64(room.Free) + int64(planner.Held()); room.By != "" && m.Total > have {
		return &MemoryError{What: c.String(), Need: m.Total, Free: have, Limit: room.By}
	}
	if j.l.admitted == nil || len(j.l.admitted) >= maxPrograms {
		j.l.admitted = map[call]bool{}
	}
	j.l.admitted[c] = true
	return nil
}

// pairGraphs are the programs of a pair in the order they run, named after their part.
func pairGraphs(m model.Pairwise, h1, w1, h2, w2 int, want mast3r.Outputs) ([]*graph.Graph, error) {
	g1, g2 := m.Facts().GridOf(h1, w1), m.Facts().GridOf(h2, w2)
	var all []*graph.Graph
	var errs []error
	add := func(name string, g *graph.Graph, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("gomps: %s: %w", name, err))
			return
		}
		g.Name = name
		all = append(all, g)
	}
	if g1 == g2 {
		g, err := m.Encoder(2, h1, w1)
		add("encoder", g, err)
	} else {
		g, err := m.Encoder(1, h1, w1)
		add("encoder1", g, err)
		g, err = m.Encoder(1, h2, w2)
		add("encoder2", g, err)
	}
	g, err := m.Decoder(1, g1, g2)
	add("decoder", g, err)
	g, err = m.Head(1, 1, h1, w1, want)
	add("head1", g, err)
	g, err = m.Head(2, 1, h2, w2, want)
	add("head2", g, err)
	return all, errors.Join(errs...)
}
