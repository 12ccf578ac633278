// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// step does one piece of a program. It may keep state between runs, since runs
// take turns, and must not allocate in its steady state.
type step interface {
	run(e *exec) error
}

// planned is a step and what a profile says about it.
type planned struct {
	step
	node *graph.Node
	kind string
	cost graph.Cost
}

// Program is a compiled graph.
type Program struct {
	b             *Backend
	g             *graph.Graph // as it was given to Compile
	inputs        []*graph.Node
	outputs       []*graph.Node
	outputStorage []int
	steps         []planned
	storages      []storage
	weights       []*weight
	arenaSize     int
	scratchSize   int
	closed        bool // under b.mu
}

// Graph is the graph that was compiled.
func (p *Program) Graph() *graph.Graph { return p.g }

// Close ends the program's use of its weights.
func (p *Program) Close() error {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.dropWeights()
	}
	return nil
}

// dropWeights ends the program's use of its packed weights, which stay in the
// cache for the next program.
func (p *Program) dropWeights() {
	for _, w := range p.weights {
		p.b.weights.drop(w)
	}
	p.weights = nil
}

// exec is what steps see of a run. scratch is memory that only the running step
// uses; what it holds before and after is nobody's business.
type exec struct {
	p       *Program
	pool    *par.Pool
	scratch []byte
}

// Begin starts a Work. On the CPU each Run has happened when it returns; queues
// make no difference.
func (b *Backend) Begin(backend.Queue) (backend.Work, error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	return &work{b: b}, nil
}

// work is a backend.Work and, once submitted, a backend.Pending.
type work struct {
	b         *Backend
	times     []time.Duration
	submitted bool
	discarded bool
}

// After has nothing to wait for: what was submitted has been done.
func (w *work) After(backend.Pending) error { return w.usable() }

// usable reports work that has ended.
func (w *work) usable() error {
	if w.submitted || w.discarded {
		return fmt.Errorf("cpu: work that was submitted or discarded takes no more runs")
	}
	return nil
}

// Run executes p.
func (w *work) Run(ctx context.Context, prog backend.Program, in, out []backend.Buffer) error {
	if err := w.usable(); err != nil {
		return err
	}
	p, ok := prog.(*Program)
	if !ok || p.b != w.b {
		return fmt.Errorf("cpu: program %T belongs to another backend", prog)
	}
	t, err := p.run(ctx, in, out)
	if err != nil {
		return err
	}
	w.times = append(w.times, t)
	return nil
}

// Submit ends the work.
func (w *work) Submit() (backend.Pending, error) {
	if err := w.usable(); err != nil {
		return nil, err
	}
	w.submitted = true
	return w, nil
}

// Discard drops the work; what has run has run.
func (w *work) Discard() {
	if !w.submitted {
		w.discarded = true
	}
}

// Wait returns the times of the runs.
func (w *work) Wait(context.Context) ([]time.Duration, error) { return w.times, nil }

// started is what run measures from: the monotonic clock alone takes half as long as time.Now.
var started = time.Now()

// run executes the steps in order. It looks at ctx between them and between their
// tiles.
func (p *Program) run(ctx context.Context, in, out []backend.Buffer) (d time.Duration, err error) {
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || p.closed {
		return 0, ErrClosed
	}
	if err := fly(in); err != nil {
		return 0, err
	}
	defer land(in)
	if err := fly(out); err != nil {
		return 0, err
	}
	defer land(out)
	if err := p.bind(in, out); err != nil {
		return 0, err
	}
	defer p.unbind()
	defer recovered(p.g, &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	start := time.Since(started)
	err = b.pool.With(ctx, func(pool *par.Pool) error {
		return p.execute(ctx, exec{p: p, pool: pool, scratch: b.scratch.b})
	})
	return time.Since(started) - start, err
}

func (p *Program) execute(ctx context.Context, e exec) error {
	b := p.b
	for i := range p.steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := &p.steps[i]
		var begin time.Time
		if b.cfg.Profile != nil {
			begin = time.Now() // which a step of small tensors would notice
		}
		if err := s.run(&e); err != nil {
			return fmt.Errorf("cpu: graph %q: %s %%%d: %w", p.g.Name, s.kind, s.node.ID, err)
		}
		if b.cfg.Profile != nil {
			b.cfg.Profile(backend.Sample{Graph: p.g.Name, Op: s.kind, Node: s.node.ID, Shape: s.node.String(),
				Time: time.Since(begin), FLOPs: s.cost.FLOPs, Bytes: s.cost.Bytes})
		}
	}
	return nil
}

// bind points the storages at the caller's buffers and at the arena, which may
// have moved since the last run.
func (p *Program) bind(in, out []backend.Buffer) error {
	if err := p.ensureArena(); err != nil {
		return err
	}
	if err := checkBuffers("input", p.inputs, in); err != nil {
		return fmt.Errorf("cpu: graph %q: %w", p.g.Name, err)
	}
	if err := checkBuffers("output", p.outputs, out); err != nil {
		return fmt.Errorf("cpu: graph %q: %w", p.g.Name, err)
	}
	for i := range p.storages {
		s := &p.storages[i]
		switch s.kind {
		case inArena:
			s.data = p.b.arena.b[s.offset:][:s.size]
		case fromInput:
			s.data = in[s.io].Bytes()
		case toOutput:
			s.data = out[s.io].Bytes()
		}
	}
	return nil
}

// unbind forgets the caller's buffers, so that a program keeps none of them.
func (p *Program) unbind() {
	for i := range p.storages {
		if k := p.storages[i].kind; k == fromInput || k == toOutput {
			p.storages[i].data = nil
		}
	}
}

// ensureArena maps the arena again after Trim.
func (p *Program) ensureArena() error {
	b := p.b
	for _, r := range []struct {
		at   **region
		size int
	}{{&b.arena, p.arenaSize}, {&b.scratch, p.scratchSize}} {
		if len((*r.at).b) >= r.size {
			continue
		}
		n, err := newRegion(r.size)
		if err != nil {
			return err
		}
		(*r.at).release()
		*r.at = n
	}
	return nil
}

// checkBuffers refuses what would make a step read or write outside a buffer.
func checkBuffers(what string, nodes []*graph.Node, bufs []backend.Buffer) error {
	if len(bufs) != len(nodes) {
		return fmt.Errorf("got %d %s buffers, want %d", len(bufs), what, len(nodes))
	}
	for i, n := range nodes {
		if bufs[i] == nil {
			return fmt.Errorf("%s %d: no buffer", what, i)
		}
		data := bufs[i].Bytes()
		if len(data) != n.Bytes() {
			return fmt.Errorf("%s %d: buffer of %d bytes, want %d for %v", what, i, len(data), n.Bytes(), n)
		}
		if !aligned(data, max(n.DType.Size(), 1)) {
			return fmt.Errorf("%s %d: buffer is not aligned to its elements", what, i)
		}
	}
	return nil
}
