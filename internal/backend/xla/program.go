// SPDX-License-Identifier: Apache-2.0

package xla

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/pjrt"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/stablehlo"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// Program is a compiled graph.
type Program struct {
	b       *Backend
	g       *graph.Graph // as it was given to Compile
	exe     *pjrt.Executable
	weights []*weight
	flights backend.Flights
}

// Compile writes g as text, uploads its weights and has XLA compile it.
func (b *Backend) Compile(ctx context.Context, g *graph.Graph, opt backend.Options) (_ backend.Program, err error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	o, err := b.options(opt.Precision)
	if err != nil {
		return nil, err
	}
	simple, err := passes.Simplify(g)
	if err != nil {
		return nil, fmt.Errorf("xla: %w", err)
	}
	p := &Program{b: b, g: g}
	err = p.compile(ctx, simple, o)
	if err != nil && o.FusedAttention && ctx.Err() == nil {
		b.log.Warn("attention is computed unfused: the program with cuDNN's does not compile", "graph", g.Name, "error", err)
		p.free()
		o.FusedAttention = false
		err = p.compile(ctx, simple, o)
	}
	if err != nil {
		p.free()
		return nil, fmt.Errorf("xla: graph %q: %w", g.Name, b.account(err))
	}
	return p, nil
}

// compile fills in a program. Weights are uploaded while XLA compiles.
func (p *Program) compile(ctx context.Context, g *graph.Graph, o stablehlo.Options) error {
	m, err := stablehlo.Write(g, o)
	if err != nil {
		return err
	}
	b := p.b
	var cached bool
	start := time.Now()
	var program time.Duration
	done := make(chan error, 1)
	par.Go(func() {
		var err error
		p.exe, cached, err = b.cache.compile(b.dev, m.Text, b.cfg.Flags)
		program = time.Since(start)
		done <- err
	}, func(p *par.Panic) { done <- p })
	p.weights, err = b.weights.takeAll(ctx, m.Weights)
	weights := time.Since(start)
	if err := errors.Join(<-done, err); err != nil {
		return err
	}
	b.log.Debug("program ready", "graph", g.Name, "cached", cached, "program", program, "weights", weights)
	b.count(func() {
		if cached {
			b.stats.FromCache++
		} else {
			b.stats.Compiled++
		}
	})
	return nil
}

// options are those of the text for a precision. An unknown one must not run as
// another.
func (b *Backend) options(p backend.Precision) (stablehlo.Options, error) {
	o := stablehlo.Options{}
	switch p {
	case backend.FP32:
		o.Exact = true
	case backend.TF32:
	case backend.FP16:
		o.Half = tensor.F16
	case backend.BF16:
		o.Half = tensor.BF16
	default:
		return o, fmt.Errorf("%w: %v", ErrUnsupported, p)
	}
	o.FusedAttention = b.cfg.Attention == Fused && o.Half != tensor.Invalid
	return o, nil
}

// Graph is the graph that was compiled.
func (p *Program) Graph() *graph.Graph { return p.g }

// Close frees the program. XLA keeps what a run in flight needs, but not the
// executable itself: Close waits.
func (p *Program) Close() error {
	if p.flights.Close() {
		p.free()
	}
	return nil
}

func (p *Program) free() {
	p.exe.Close()
	p.exe = nil
	for _, w := range p.weights {
		p.b.weights.drop(w)
	}
	p.weights = nil
}

// Begin starts a Work. Queues make no difference: the plugin sees what runs need.
func (b *Backend) Begin(backend.Queue) (backend.Work, error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	return &work{b: b}, nil
}

// work is a backend.Work and, once submitted, a backend.Pending.
type work struct {
	b         *Backend
	runs      []*run
	submitted bool
	discarded bool
}

// run is one execution. A goroutine waits for it, so that its end is seen when
// it happens.
type run struct {
	start time.Time
	end   time.Time
	err   error
	done  chan struct{}
}

// After has nothing to do: a run waits, on the device, for what it reads.
func (w *work) After(backend.Pending) error { return w.usable() }

func (w *work) usable() error {
	if w.submitted || w.discarded {
		return fmt.Errorf("xla: work that was submitted or discarded takes no more runs")
	}
	return nil
}

// Run starts p.
func (w *work) Run(ctx context.Context, prog backend.Program, in, out []backend.Buffer) error {
	if err := w.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p, ok := prog.(*Program)
	if !ok || p.b != w.b {
		return fmt.Errorf("xla: program %T belongs to another backend", prog)
	}
	ins, outs, err := w.b.check(p.g, in, out)
	if err != nil {
		return fmt.Errorf("xla: graph %q: %w", p.g.Name, err)
	}
	args := make([]*pjrt.Buffer, 0, len(ins)+len(p.weights))
	for i, x := range ins {
		a, err := x.input(p.g.Inputs[i].DType)
		if err != nil {
			return fmt.Errorf("xla: graph %q: input %d: %w", p.g.Name, i, err)
		}
		args = append(args, a)
	}
	for _, x := range p.weights {
		args = append(args, x.buf)
	}
	if !p.flights.Start() {
		return fmt.Errorf("xla: graph %q: %w", p.g.Name, ErrClosed)
	}
	for _, x := range outs {
		if !slices.Contains(ins, x) {
			x.forget() // its memory may serve the new result
		}
	}
	r := &run{start: time.Now(), done: make(chan struct{})}
	results, done, err := p.exe.Execute(args)
	if err != nil {
		p.flights.End()
		return fmt.Errorf("xla: graph %q: %w", p.g.Name, w.b.account(err))
	}
	if len(results) != len(outs) {
		p.flights.End()
		return fmt.Errorf("xla: graph %q: the program gave %d results, want %d", p.g.Name, len(results), len(outs))
	}
	for i, x := range outs {
		x.output(results[i])
	}
	w.runs = append(w.runs, r)
	end := func(err error) {
		r.err, r.end = err, time.Now()
		p.flights.End()
		close(r.done)
	}
	par.Go(func() { end(done.Await()) }, func(p *par.Panic) { end(p) })
	w.b.count(func() { w.b.stats.Runs++ })
	return nil
}

// check refuses buffers that do not fit the graph.
func (b *Backend) check(g *graph.Graph, in, out []backend.Buffer) (ins, outs []*buffer, err error) {
	one := func(what string, i int, x backend.Buffer, n *graph.Node) (*buffer, error) {
		y, ok := x.(*buffer)
		if !ok || y.b != b {
			return nil, fmt.Errorf("%s %d: a %T of another backend", what, i, x)
		}
		if y.n != n.Bytes() {
			return nil, fmt.Errorf("%s %d: buffer of %d bytes, want %d for %v", what, i, y.n, n.Bytes(), n)
		}
		return y, nil
	}
	if len(in) != len(g.Inputs) || len(out) != len(g.Outputs) {
		return nil, nil, fmt.Errorf("got %d inputs and %d outputs, want %d and %d", len(in), len(out), len(g.Inputs), len(g.Outputs))
	}
	for i, x := range in {
		y, err := one("input", i, x, g.Inputs[i])
		if err != nil {
			return nil, nil, err
		}
		ins = append(ins, y)
	}
	for i, x := range out {
		y, err := one("output", i, x, g.Outputs[i].Node)
		if err != nil {
			return nil, nil, err
		}
		outs = append(outs, y)
	}
	return ins, outs, nil
}

// Submit ends the work, which has started already.
func (w *work) Submit() (backend.Pending, error) {
	if err := w.usable(); err != nil {
		return nil, err
	}
	w.submitted = true
	return w, nil
}

// Discard drops the work; what has started goes on, into buffers that nobody
// reads.
func (w *work) Discard() {
	if !w.submitted {
		w.discarded = true
	}
}

// Wait blocks until every run has ended. A run's time begins when the one before
// it has ended, for the device does one at a time.
func (w *work) Wait(ctx context.Context) ([]time.Duration, error) {
	times := make([]time.Duration, 0, len(w.runs))
	var before time.Time
	for _, r := range w.runs {
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if r.err != nil {
			return nil, fmt.Errorf("xla: run: %w", w.b.account(r.err))
		}
		start := r.start
		if before.After(start) {
			start = before
		}
		times = append(times, r.end.Sub(start))
		before = r.end
	}
	return times, nil
}
