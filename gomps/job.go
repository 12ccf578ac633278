// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/vit"
	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// job is one call of Infer and the like. It owns every buffer and program the
// call has taken and gives back, at the end, all that did not become part of a
// result.
type job struct {
	ctx context.Context
	e   *Engine
	l   *loaded
	on  *programs // compiled, and the device that runs them

	start      time.Time
	preprocess time.Duration
	buffers    []backend.Buffer
	results    []*Tensor
	works      []*work
	programs   []*program
	kept       bool
	// wait submits each program alone and waits for it, for Profile.
	wait bool
	// lanes is how many pairs are computed side by side; 0 is one.
	lanes int
	// fitViews looks at the memory of pictures of one size, before they are prepared for
	// a network of many views; nil for pairs of them.
	fitViews func(n, height, width int) error
	// want are the outputs of the heads.
	want mast3r.Outputs
}

func (e *Engine) newJob(ctx context.Context, l *loaded, want Outputs) *job {
	return &job{ctx: ctx, e: e, l: l, on: &l.programs, start: time.Now(), want: wanted(want)}
}

// wanted are the outputs that Only names; none are all.
func wanted(only Outputs) mast3r.Outputs {
	if only&AllOutputs == 0 {
		return mast3r.AllOutputs
	}
	return mast3r.Outputs(only & AllOutputs)
}

// keep lets the results outlive the job and completes a timing.
func (j *job) keep(t *Timing) {
	j.kept = true
	t.Preprocess = j.preprocess
	t.Inference = t.Encoder + t.Decoder + t.Heads
	t.Total = time.Since(j.start)
}

func (j *job) close() {
	for _, w := range j.works {
		w.discard()
	}
	for _, p := range j.programs {
		j.on.put(p)
	}
	for _, b := range j.buffers {
		b.Release()
	}
	if !j.kept {
		for _, t := range j.results {
			t.Release()
		}
	}
}

func (j *job) alloc(n int) (backend.Buffer, error) {
	b, err := j.on.dev.Alloc(n)
	if err != nil {
		return nil, deviceError(fmt.Sprintf("allocate %d bytes", n), err)
	}
	return b, nil
}

// temp is a buffer that lives no longer than the job.
func (j *job) temp(n int) (backend.Buffer, error) {
	b, err := j.alloc(n)
	if err == nil {
		j.buffers = append(j.buffers, b)
	}
	return b, err
}

// result is a buffer that becomes part of what the caller gets.
func (j *job) result(n *graph.Node) (*Tensor, backend.Buffer, error) {
	b, err := j.alloc(n.Bytes())
	if err != nil {
		return nil, nil, err
	}
	t := newTensor(n.Shape, b)
	j.results = append(j.results, t)
	return t, b, nil
}

func (j *job) program(key part, build func() (*graph.Graph, error)) (*program, error) {
	p, err := j.on.get(j.ctx, key, build)
	if err != nil {
		return nil, j.planError(key.what, err)
	}
	j.programs = append(j.programs, p)
	return p, nil
}

// planError is why a program cannot be made.
func (j *job) planError(what string, err error) error {
	if j.ctx.Err() != nil {
		return fmt.Errorf("gomps: %s: %w", what, j.ctx.Err())
	}
	var e *tensor.RangeError
	if errors.As(err, &e) {
		return &WeightsError{j.l.path, e}
	}
	return deviceError("compile "+what, err)
}

// picture is an image on its way through the network.
type picture struct {
	transform     Transform
	height, width int // network size
	pixels        backend.Buffer
	feat          backend.Buffer
}

func (p *picture) size() string { return fmt.Sprintf("%dx%d", p.height, p.width) }

func (p *picture) grid(f vit.Facts) vit.Grid { return f.GridOf(p.height, p.width) }

// The encoder of the next picture may fill the gaps between the decoder's smaller
// products.
const encoderQueue, decoderQueue = backend.First, backend.Second

// work is a backend.Work with what is needed to read its times.
type work struct {
	backend.Work
	j       *job
	queue   backend.Queue
	stages  []string // of the Runs, in order
	pending backend.Pending
	times   []time.Duration
	// timed are the times of Runs that were waited for one by one.
	timed []time.Duration
	// temps are only needed by this work's Runs: they go back at its Submit, which
	// is early, so that a long sequence does not pile them up.
	temps []backend.Buffer
	// outs are the results of this work; totals, see withTotal, those of its heads.
	outs   []*Tensor
	totals []backend.Buffer
}

func (j *job) begin(queue backend.Queue) (*work, error) {
	b, err := j.on.dev.Begin(queue)
	if err != nil {
		return nil, deviceError("begin work", err)
	}
	w := &work{Work: b, j: j, queue: queue}
	j.works = append(j.works, w)
	return w, nil
}

func (w *work) run(p *program, in, out []backend.Buffer) error {
	err := w.Run(w.j.ctx, p.Program, in, out)
	if err != nil {
		return w.wrap(p.what, err)
	}
	w.stages = append(w.stages, p.what)
	if w.j.wait {
		return w.flush()
	}
	return nil
}

// flush waits for what has been collected and starts afresh.
func (w *work) flush() error {
	p, err := w.Submit()
	if err != nil {
		return w.wrap("submit", err)
	}
	times, err := p.Wait(w.j.ctx)
	if err != nil {
		_, _ = p.Wait(context.WithoutCancel(w.j.ctx)) // the buffers go back now
		return w.wrap("wait for the device", err)
	}
	w.timed = append(w.timed, times...)
	next, err := w.j.on.dev.Begin(w.queue)
	if err != nil {
		return deviceError("begin work", err)
	}
	w.Work = next
	return nil
}

func (w *work) wrap(what string, err error) error {
	if cause := w.j.ctx.Err(); cause != nil {
		return fmt.Errorf("gomps: %s: %w", what, cause)
	}
	return deviceError(what, err)
}

// encode fills in the features of the pictures, all at once when their sizes
// agree.
func (w *work) encode(pics ...*picture) error {
	m := w.j.l.model
	for len(pics) > 0 {
		n := 1
		for n < len(pics) && pics[n].height == pics[0].height && pics[n].width == pics[0].width {
			n++
		}
		h, wd := pics[0].height, pics[0].width
		p, err := w.j.program(part{what: "encoder", images: n, h1: h, w1: wd}, func() (*graph.Graph, error) {
			return m.Encoder(n, h, wd)
		})
		if err != nil {
			return err
		}
		var in, out []backend.Buffer
		for i, pic := range pics[:n] {
			if pic.feat, err = w.j.temp(p.Graph().Outputs[i].Node.Bytes()); err != nil {
				return err
			}
			in, out = append(in, pic.pixels), append(out, pic.feat)
		}
		w.temps = append(w.temps, in...)
		if err := w.run(p, in, out); err != nil {
			return err
		}
		w.j.l.counts.encodes.Add(uint64(n))
		pics = pics[n:]
	}
	return nil
}

// decode runs the decoders and both heads for the pair (a, b).
func (w *work) decode(a, b *picture, va, vb *View) error {
	f := w.j.l.facts
	p, err := w.j.program(part{what: "decoder", h1: a.height, w1: a.width, h2: b.height, w2: b.width}, func() (*graph.Graph, error) {
		return w.j.l.pair.Decoder(1, a.grid(f), b.grid(f))
	})
	if err != nil {
		return err
	}
	hooks := make([]backend.Buffer, len(p.Graph().Outputs))
	for i, o := range p.Graph().Outputs {
		if hooks[i], err = w.j.temp(o.Node.Bytes()); err != nil {
			return err
		}
	}
	w.temps = append(w.temps, hooks...)
	if err := w.run(p, []backend.Buffer{a.feat, b.feat}, hooks); err != nil {
		return err
	}
	w.j.l.counts.decodes.Add(1)
	half := len(hooks) / 2
	if err := w.head(1, a, hooks[:half], va); err != nil {
		return err
	}
	return w.head(2, b, hooks[half:], vb)
}

func (w *work) head(view int, pic *picture, hooks []backend.Buffer, v *View) error {
	want := w.j.want
	p, err := w.j.program(part{what: fmt.Sprintf("head%d", view), h1: pic.height, w1: pic.width, want: want}, func() (*graph.Graph, error) {
		g, err := w.j.l.pair.Head(view, 1, pic.height, pic.width, want)
		if err != nil || !w.j.l.apart {
			return g, err
		}
		return withTotal(g)
	})
	if err != nil {
		return err
	}
	out, err := w.maps(p, 0, v)
	if err != nil {
		return err
	}
	v.Transform = pic.transform
	if out, err = w.total(out); err != nil {
		return err
	}
	if err := w.run(p, append([]backend.Buffer{pic.feat}, hooks...), out); err != nil {
		return err
	}
	w.j.l.counts.heads.Add(1)
	return nil
}

// maps makes the results of a view, whose program gives them from output number
// first on.
func (w *work) maps(p *program, first int, v *View) (out []backend.Buffer, err error) {
	for i, t := range []**Tensor{&v.Points, &v.Conf, &v.Desc, &v.DescConf} {
		if w.j.want&(1<<i) == 0 {
			continue
		}
		var buf backend.Buffer
		if *t, buf, err = w.j.result(p.Graph().Outputs[first+len(out)].Node); err != nil {
			return nil, err
		}
		w.outs = append(w.outs, *t)
		// The graph has a leading batch of one that a user does not want to see.
		(*t).shape = (*t).shape[1:]
		out = append(out, buf)
	}
	return out, nil
}

// total adds to a head's results the place for what withTotal computes.
func (w *work) total(out []backend.Buffer) ([]backend.Buffer, error) {
	if !w.j.l.apart {
		return out, nil
	}
	b, err := w.j.temp(4)
	if err != nil {
		return nil, err
	}
	w.totals = append(w.totals, b)
	return append(out, b), nil
}

// withTotal is g with one more output: a number that is 0 where all results are
// finite, and none otherwise. So the device looks at them where they are.
func withTotal(g *graph.Graph) (*graph.Graph, error) {
	return rearranged(g, func(out *graph.Graph, results []*graph.Node) {
		var total *graph.Node
		for i, x := range results {
			out.Output(g.Outputs[i].Name, x)
			axes := make([]int, len(x.Shape))
			for k := range axes {
				axes[k] = k
			}
			sum := out.Add(graph.Reduce{Fn: graph.ReduceSum, Axes: axes}, out.Binary(graph.Sub, x, x))
			if total != nil {
				sum = out.Binary(graph.Add, total, sum)
			}
			total = sum
		}
		out.Output("total", total)
	})
}

func (w *work) submit() (backend.Pending, error) {
	p, err := w.Submit()
	if err != nil {
		return nil, w.wrap("submit", err)
	}
	w.pending = p
	for _, b := range w.temps {
		b.Release()
	}
	w.temps = nil
	return p, nil
}

// finish submits what is not submitted, waits, and adds the device times.
func (w *work) finish(t *Timing) error {
	if w.j.wait { // nothing is left to submit
		w.Discard()
		w.times = w.timed
		w.timing(t)
		return nil
	}
	if w.pending == nil {
		if _, err := w.submit(); err != nil {
			return err
		}
	}
	times, err := w.pending.Wait(w.j.ctx)
	if err != nil {
		return w.wrap("wait for the device", err)
	}
	w.times = times
	w.timing(t)
	return w.finite()
}

// finite wants the results to be numbers: NaN would match nothing and say nothing. It
// looks at every value of small maps and at some of large ones, which a broken weight
// fills as a whole. A few that are none, as an overflow in half precision makes, are a
// warning.
func (w *work) finite() error {
	const most = 1 << 16
	if fine, err := w.summed(); fine || err != nil {
		return err
	}
	for _, t := range w.outs {
		if err := t.Fetch(); err != nil {
			return w.wrap("results", err)
		}
		v := t.Float32s()
		step := len(v)/most | 1 // odd: not always the same channel
		bad, seen := 0, 0
		for i := 0; i < len(v); i += step {
			seen++
			if d := v[i] - v[i]; d != 0 { // NaN for NaN and infinities
				bad++
			}
		}
		switch {
		case 2*bad > seen:
			return &DeviceError{"results", fmt.Errorf("%d of %d numbers of a map of %v are not finite: the weights are broken, or too large for precision %v", bad, seen, t.Shape(), w.j.l.precision)}
		case bad > 0:
			w.j.e.log.Warn("results hold numbers that are not finite", "share", float64(bad)/float64(seen), "shape", t.Shape())
		}
	}
	return nil
}

// summed says that the device has found all results finite.
func (w *work) summed() (bool, error) {
	for _, t := range w.totals {
		if err := t.Fetch(); err != nil {
			return false, w.wrap("results", err)
		}
		if binary.LittleEndian.Uint32(t.Bytes())<<1 != 0 {
			return false, nil
		}
	}
	return len(w.totals) > 0, nil
}

// timing adds the times known by now.
func (w *work) timing(t *Timing) {
	for i, d := range w.times {
		switch w.stages[i] {
		case "encoder":
			t.Encoder += d
		case "decoder", "trunk":
			t.Decoder += d
		default:
			t.Heads += d
		}
	}
}

// discard drops unsubmitted work and waits for what the device still has: its
// buffers are about to be given back.
func (w *work) discard() {
	w.Discard()
	if w.pending != nil && w.times == nil {
		// The caller may have gone; the device has not.
		_, _ = w.pending.Wait(context.WithoutCancel(w.j.ctx))
	}
}
