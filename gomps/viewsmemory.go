// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/fault"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/memory"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/da3"
)

// manyCall is what a call with a network of many views asks for, as far as its memory
// goes: the size of its pictures, how many there are, how many are looked at together.
type manyCall struct {
	h, w, pictures, window int
	rays, given            bool
	// pairs says that the pictures are a sequence of pairs, whose points are kept.
	pairs bool
}

func (c manyCall) String() string {
	if c.pairs {
		return fmt.Sprintf("a sequence of %d pictures of %dx%d (height x width)", c.pictures, c.h, c.w)
	}
	what := fmt.Sprintf("a scene of %d pictures of %dx%d (height x width)", c.pictures, c.h, c.w)
	if c.window < c.pictures {
		what += fmt.Sprintf(", %d at a time,", c.window)
	}
	return what
}

// graphs are the programs of the call.
func (c manyCall) graphs(m model.Multiview) ([]*graph.Graph, error) {
	grid := m.Facts().GridOf(c.h, c.w)
	want := m.Outputs() &^ (da3.Rays | da3.RayConf)
	if c.rays {
		want = m.Outputs()
	}
	parts := []func() (*graph.Graph, error){
		func() (*graph.Graph, error) { return m.Encoder(min(together, c.pictures), c.h, c.w) },
		func() (*graph.Graph, error) { return m.Trunk(c.window, grid, c.given) },
		func() (*graph.Graph, error) { return m.Head(c.h, c.w, want) },
	}
	if m.Outputs()&da3.Conf != 0 {
		parts = append(parts, func() (*graph.Graph, error) { return m.Camera(c.window) })
	}
	list := make([]*graph.Graph, len(parts))
	for i, part := range parts {
		var err error
		if list[i], err = part(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// memory adds up what the call needs.
func (c manyCall) memory(ctx context.Context, count counter, m model.Multiview, opt backend.Options) (_ *Memory, err error) {
	defer fault.Guard(&err)()
	graphs, err := c.graphs(m)
	if err != nil {
		return nil, err
	}
	f, err := count(ctx, graphs, opt)
	if err != nil {
		return nil, err
	}
	bytes := func(g *graph.Graph) (sum int64) {
		for _, o := range g.Outputs {
			sum += int64(o.Node.Bytes())
		}
		return sum
	}
	out := &Memory{Precision: opt.Precision.String(), Height1: c.h, Width1: c.w, Height2: c.h, Width2: c.w, Pictures: c.pictures,
		Weights: int64(f.Weights), Activations: int64(f.Activations)}
	pixels, pictures, window := int64(c.h*c.w), int64(c.pictures), int64(c.window)
	features := bytes(graphs[0]) / int64(min(together, c.pictures))
	view := bytes(graphs[2]) + 3*4*pixels
	out.Buffers = pictures*(3*pixels+features) + bytes(graphs[1])
	out.Results = pictures * view
	switch {
	case c.pairs:
		out.Buffers = window*(3*pixels+features) + bytes(graphs[1])
		out.Results = window*view + (pictures-1)*2*4*4*pixels // points and confidence of both
	case c.window < c.pictures:
		out.Results += window * view
	}
	if c.given || c.window < c.pictures {
		// Depth that was brought to another unit stands beside the one before it for a moment.
		out.Results += window * 4 * pixels
	}
	planned := out.Weights + out.Activations + out.Buffers + out.Results
	out.Runtime = runtimeBytes + planned/runtimePart
	out.Total = planned + out.Runtime
	return out, nil
}

// leastWindow is the smallest window that is chosen for lack of memory: two views that were
// seen before, and two that were not.
const leastWindow = 4

// fit chooses how many views are looked at together, if the caller did not, and refuses
// what does not fit into what memory there is before anything is allocated for it. Only
// the CPU can plan its memory.
func (c *viewsCall) fit(n, height, width int) error {
	planner, ok := c.e.dev.(backend.Planner)
	if !ok || c.fits {
		return nil
	}
	call := manyCall{h: height, w: width, pictures: n, window: n, rays: c.opt.Rays, given: c.opt.Cameras != nil && !c.l.oneView()}
	switch {
	case c.l.oneView():
		call.window = 1
	case c.opt.Window > 0:
		call.window = min(c.opt.Window, n)
	}
	if window, ok := c.l.windows[call]; ok {
		c.chosen(n, window)
		return nil
	}
	asked := call
	for {
		lack, err := c.lacks(planner, call)
		if err != nil {
			return err
		}
		if lack == nil {
			break
		}
		if c.opt.Window > 0 || call.window <= leastWindow {
			return lack
		}
		call.window = max(call.window*3/4, leastWindow)
	}
	if c.l.windows == nil || len(c.l.windows) >= maxPrograms {
		c.l.windows = map[manyCall]int{}
	}
	c.l.windows[asked] = call.window
	c.chosen(n, call.window)
	return nil
}

// lacks is what a call lacks beside what may still be used and what the backend holds
// already; nil where it fits.
func (j *job) lacks(planner backend.Planner, call manyCall) (*MemoryError, error) {
	m, err := call.memory(j.ctx, planner.Footprint, j.l.views, j.l.programs.opt)
	if err != nil {
		return nil, j.planError(call.String(), err)
	}
	room := memory.Now()
	have := int64(room.Free) + int64(planner.Held())
	if room.By == "" || m.Total <= have {
		return nil, nil
	}
	return &MemoryError{What: call.String(), Need: m.Total, Free: have, Limit: room.By}, nil
}

// fitSequence refuses a sequence of pairs that does not fit.
func (j *job) fitSequence(n, height, width int) error {
	planner, ok := j.e.dev.(backend.Planner)
	if !ok {
		return nil
	}
	call := manyCall{h: height, w: width, pictures: n, window: 2, pairs: true}
	if j.l.oneView() {
		call.window = 1
	}
	lack, err := j.lacks(planner, call)
	if lack != nil {
		return lack
	}
	return err
}

// chosen keeps a window that was chosen for the caller.
func (c *viewsCall) chosen(n, window int) {
	c.fits = true
	if c.opt.Window == 0 && window < n && !c.l.oneView() {
		c.opt.Window, c.opt.Overlap = window, min(max(c.opt.Overlap, 0), window-1)
	}
}
