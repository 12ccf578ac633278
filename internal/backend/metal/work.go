// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/device"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// maxFLOPs bounds the products of one command buffer: the slowest Apple silicon
// GPU does about 2.6 TFLOP/s, and the watchdog stops work of a few seconds. A
// variable for the tests.
var maxFLOPs = 2.6e12

// cutFLOPs is how much a command buffer holds before the next run begins another:
// the GPU works on the encoder while the host encodes the decoder. MPSGraph would
// cut by itself, inside a run, where nobody sees how the parts end; so it is told
// not to and the cuts are these. A variable for the tests.
var cutFLOPs = 5e10

// work is a backend.Work. It collects runs in command buffers and hands them over
// without waiting: a wait between the parts of a network would leave the GPU idle
// for the time of two thread switches each.
type work struct {
	b     *Backend
	queue *queue
	waits []*pending // to encode before the next run
	runs  []run
	// failed were refused in the middle of their encoding: no results, but the GPU
	// may be at work for them.
	failed []run
	cbs    []*device.CommandBuffer // the last one is open
	flops  float64                 // in the open one
	ended  bool                    // submitted or discarded
}

// run is one encoded run and what it holds until it is done: the GPU reads memory
// that the host might otherwise reuse or unmap.
type run struct {
	p    *Program
	bufs []*buffer
	cb   int // index of its command buffer
}

// Begin starts a Work.
func (b *Backend) Begin(q backend.Queue) (backend.Work, error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	if int(q) >= len(b.queues) {
		return nil, fmt.Errorf("mps: queue %d, want 0 to %d", q, len(b.queues)-1)
	}
	return &work{b: b, queue: b.queues[q]}, nil
}

var errEnded = errors.New("mps: work that was submitted or discarded takes no more runs")

// After makes what follows wait for done on the GPU. Work of the same queue is in
// order anyway. The host does not wait: an event's value is in the command
// buffer, which may be submitted before what it waits for.
func (w *work) After(done backend.Pending) error {
	if w.ended {
		return errEnded
	}
	p, ok := done.(*pending)
	if !ok || p.b != w.b {
		return fmt.Errorf("mps: %T is not work of this backend", done)
	}
	if p.queue != w.queue {
		w.waits = append(w.waits, p)
	}
	return nil
}

// Run encodes p.
func (w *work) Run(ctx context.Context, prog backend.Program, in, out []backend.Buffer) (err error) {
	if w.ended {
		return errEnded
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p, ok := prog.(*Program)
	if !ok || p.b != w.b {
		return fmt.Errorf("mps: program %T belongs to another backend", prog)
	}
	ins, err := w.buffers("input", in, p.g.Inputs)
	if err != nil {
		return fmt.Errorf("mps: graph %q: %w", p.g.Name, err)
	}
	outs, err := w.buffers("output", out, outputNodes(p.g))
	if err != nil {
		return fmt.Errorf("mps: graph %q: %w", p.g.Name, err)
	}
	if !p.flights.Start() {
		return fmt.Errorf("mps: graph %q: %w", p.g.Name, ErrClosed)
	}
	r := run{p: p}
	landed := true // on an error, unless something was encoded
	defer func() {
		switch {
		case err != nil && landed:
			r.land()
		case err != nil:
			w.failed = append(w.failed, r)
		}
	}()
	// From here on the buffers may be released by the caller, not reused by the pool.
	for _, x := range append(ins[:len(ins):len(ins)], outs...) {
		if err := x.buf.Fly(); err != nil {
			return fmt.Errorf("mps: graph %q: %w", p.g.Name, err)
		}
		r.bufs = append(r.bufs, x)
	}
	defer recovered(&err)
	landed = false
	defer p.firstRun()()
	if err := w.b.dev.Do(func() error { return w.encode(p, ins, outs) }); err != nil {
		return fmt.Errorf("mps: graph %q: %w", p.g.Name, err)
	}
	r.cb = len(w.cbs) - 1
	w.runs = append(w.runs, r)
	return nil
}

func outputNodes(g *graph.Graph) []*graph.Node {
	nodes := make([]*graph.Node, len(g.Outputs))
	for i, o := range g.Outputs {
		nodes[i] = o.Node
	}
	return nodes
}

// buffers checks the buffers of a run.
func (w *work) buffers(what string, list []backend.Buffer, nodes []*graph.Node) ([]*buffer, error) {
	if len(list) != len(nodes) {
		return nil, fmt.Errorf("%d %ss, want %d", len(list), what, len(nodes))
	}
	out := make([]*buffer, len(list))
	for i, x := range list {
		b, ok := x.(*buffer)
		if !ok || b.b != w.b {
			return nil, fmt.Errorf("%s %d is a %T, want a buffer of this backend", what, i, x)
		}
		if b.Len() != nodes[i].Bytes() {
			return nil, fmt.Errorf("%s %d has %d bytes, want %d for %v", what, i, b.Len(), nodes[i].Bytes(), nodes[i])
		}
		out[i] = b
	}
	return out, nil
}

func (r *run) land() {
	for _, x := range r.bufs {
		x.buf.Land()
	}
	r.p.flights.End()
}

// encode appends a run, first starting a fresh command buffer when the open one
// would become too long. Owner thread.
func (w *work) encode(p *Program, in, out []*buffer) error {
	f := float64(p.cost.FLOPs)
	// Only between runs: a part of a network is far below the watchdog's limit, a
	// long batch of pairs is not.
	if w.flops > 0 && (w.flops+f > maxFLOPs || w.flops >= cutFLOPs) {
		if err := w.commit(); err != nil {
			return err
		}
		if err := w.start(); err != nil {
			return err
		}
	}
	cb, err := w.open()
	if err != nil {
		return err
	}
	if err := p.encode(cb, in, out); err != nil {
		return err
	}
	w.flops += f
	w.b.count(func(s *Stats) { s.Runs++ })
	return nil
}

// open is the command buffer that takes commands, with the waits encoded.
func (w *work) open() (*device.CommandBuffer, error) {
	if len(w.cbs) == 0 {
		if err := w.start(); err != nil {
			return nil, err
		}
	}
	cb := w.cbs[len(w.cbs)-1]
	for len(w.waits) > 0 {
		p := w.waits[0]
		if err := cb.WaitFor(p.queue.event, p.value); err != nil {
			return nil, err
		}
		w.waits = w.waits[1:]
	}
	return cb, nil
}

// start opens a command buffer. A queue allows 64 that are not done and then
// blocks; a pair has three at most.
func (w *work) start() error {
	cb, err := w.queue.commands.NewCommandBuffer("mast3r")
	if err != nil {
		return err
	}
	w.cbs, w.flops = append(w.cbs, cb), 0
	return nil
}

func (w *work) commit() error {
	if err := w.cbs[len(w.cbs)-1].Commit(); err != nil {
		return err
	}
	w.b.count(func(s *Stats) { s.CommandBuffers++ })
	return nil
}

// Submit hands the work to the GPU and signals the queue's event behind it.
func (w *work) Submit() (backend.Pending, error) {
	if w.ended {
		return nil, errEnded
	}
	w.ended = true
	p := &pending{b: w.b, queue: w.queue, done: make(chan struct{})}
	err := w.b.dev.Do(func() error {
		cb, err := w.open()
		if err != nil {
			return err
		}
		w.queue.submits++
		p.value = w.queue.submits
		// Last in the last command buffer: a queue runs them in order.
		if err := cb.Signal(w.queue.event, p.value); err != nil {
			return err
		}
		return w.commit()
	})
	if err != nil {
		w.drop()
		return nil, fmt.Errorf("mps: submit: %w", err)
	}
	// A goroutine waits, and no completion handler calls: a handler is a block, and
	// purego's callbacks are 2000 for the life of the process.
	w.b.pending.Add(1)
	par.Go(func() { p.complete(w) }, func(e *par.Panic) { panic(e) }) // complete reports its own
	return p, nil
}

// Discard drops work that was not submitted. After Submit it does nothing, so that
// callers may defer it.
func (w *work) Discard() {
	if w.ended {
		return
	}
	w.ended = true
	w.drop()
}

// drop waits for all that the GPU may be doing and gives everything back: what is
// committed cannot be recalled, and uses the buffers and the weights.
func (w *work) drop() {
	for _, cb := range w.cbs {
		if cb.Busy() && !cb.Committed() {
			_ = w.b.dev.Do(cb.Commit) // or its committed parts could not be waited for
		}
		if cb.Committed() {
			_ = cb.Wait() // nobody reads the results
		}
		cb.Release()
	}
	for _, list := range [][]run{w.runs, w.failed} {
		for i := range list {
			list[i].land()
		}
	}
	w.cbs, w.runs, w.failed = nil, nil, nil
}

// pending is a backend.Pending.
type pending struct {
	b     *Backend
	queue *queue
	value uint64 // of the queue's event when it is done
	done  chan struct{}

	// Set before done is closed.
	times []time.Duration
	err   error
}

// complete waits for the GPU and gives back what the runs held. One goroutine a
// submit, so that buffers return even if nobody waits.
func (p *pending) complete(w *work) {
	defer p.b.pending.Done()
	defer close(p.done)
	// Whatever happens, what the runs hold goes back: Program.Close waits for it.
	defer func() {
		defer recovered(&p.err)
		w.drop()
	}()
	defer recovered(&p.err)
	gpu := make([]time.Duration, len(w.cbs))
	// Every one: an error is told by its own command buffer and by no other, and what
	// a failed one has written is garbage.
	for i, cb := range w.cbs {
		if err := cb.Wait(); err != nil && p.err == nil {
			p.err = fmt.Errorf("mps: %w", err)
		}
		gpu[i] = cb.GPUTime()
	}
	if p.err != nil && p.queue.event.Value() < p.value {
		// An errored command buffer signals nothing, and a wait for an event has no
		// time limit: the other queue would wait forever. Earlier work of the queue is
		// done, it is in order.
		p.queue.event.Set(p.value)
	}
	p.times = split(w.runs, gpu)
}

// split divides the measured time of each command buffer among its runs by
// their estimated cost: a GPU has one pair of timestamps per command buffer.
func split(runs []run, gpu []time.Duration) []time.Duration {
	weight := func(r run) float64 {
		// Reading a byte costs about as much as 25 operations on these GPUs.
		return float64(r.p.cost.FLOPs) + 25*float64(r.p.cost.Bytes) + 1
	}
	sums := make([]float64, len(gpu))
	for _, r := range runs {
		sums[r.cb] += weight(r)
	}
	times := make([]time.Duration, len(runs))
	for i, r := range runs {
		times[i] = time.Duration(float64(gpu[r.cb]) * weight(r) / sums[r.cb])
	}
	return times
}

// Wait blocks until the GPU is done, or ctx is. Work cannot be taken back from a
// GPU: after a cancelled wait it runs on, and its buffers return when it ends.
func (p *pending) Wait(ctx context.Context) ([]time.Duration, error) {
	select {
	case <-p.done:
		return p.times, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
