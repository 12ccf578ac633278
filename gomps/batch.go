// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"
)

// batchPairs is how many pairs are computed at once. Other numbers would each want
// programs of their own, so what is left over is computed pair by pair.
const batchPairs = 8

// InferBatch reconstructs pairs that have nothing to do with each other, as many
// calls of Infer would, with the same results. CUDA computes eight pairs of equal
// sizes at once. The CPU computes small ones side by side, as many as it has threads and
// one thread each; eight pairs of 256x192 in one program took two threads 1.5 times as long
// as one after the other, which stay in its caches.
func (e *Engine) InferBatch(ctx context.Context, pairs [][2]Image, opt InferOptions) ([]*Result, error) {
	if len(pairs) == 0 {
		return nil, &ShapeError{"pairs of a batch", "0", "at least 1"}
	}
	l, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer e.turn.give()
	if err := l.pairable(opt); err != nil {
		return nil, err
	}
	out := make([]*Result, len(pairs))
	for done := 0; done < len(pairs); {
		n, err := e.batchStep(ctx, l, pairs, done, opt, out)
		if err != nil {
			for _, r := range out[:done] {
				r.Release()
			}
			return nil, err
		}
		done += n
	}
	return out, nil
}

// batchStep computes the pairs from number first on, as many as go together, and
// returns their number.
func (e *Engine) batchStep(ctx context.Context, l *loaded, pairs [][2]Image, first int, opt InferOptions, out []*Result) (int, error) {
	j := e.newJob(ctx, l, opt.Only)
	defer j.close()
	n := j.together(pairs[first:], opt)
	var images []Image
	for _, p := range pairs[first : first+n] {
		images = append(images, p[0], p[1])
	}
	if err := j.admitImages(images, opt, false); err != nil {
		return 0, err
	}
	pics, err := j.prepareAt(2*first, images, opt)
	if err != nil {
		return 0, err
	}
	for i := range n {
		out[first+i] = &Result{}
	}
	results := out[first : first+n]
	switch {
	case n == 1:
		err = j.pair(pics, results[0].View[:], &results[0].Timing)
	case j.lanes > 1:
		err = j.sideBySide(pics, results)
	default:
		err = j.manyPairs(pics, results)
	}
	if err != nil {
		return 0, err
	}
	for _, r := range results {
		j.keep(&r.Timing)
	}
	return n, nil
}

// smallPixels is how large a picture is whose pair is computed by one thread where there
// are enough others: a thread more for a pair gains less than a pair more.
const smallPixels = 256 * 192

// lanes is how many of so many pairs the CPU computes side by side where there is memory for
// it: one a thread, or none where a picture has more pixels than that or pairs are few. Many
// threads gain so little by one pair that three quarters as many pairs will do: 16 threads
// take a pair 6 or 7 times as fast as one.
func lanes(pairs, threads int, pixels ...int) int {
	least := threads
	if threads >= 8 {
		least = threads * 3 / 4
	}
	large := func(n int) bool { return n > smallPixels }
	if threads < 2 || pairs < least || slices.ContainsFunc(pixels, large) {
		return 0
	}
	return min(pairs, threads)
}

// divided is how many of the first pairs are computed side by side; see lanes.
func (j *job) divided(pairs [][2]Image, opt InferOptions) int {
	threads := j.e.pool.Threads()
	n := lanes(len(pairs), threads)
	dev, ok := j.e.dev.(backend.Divider)
	if !ok || n == 0 || j.l.pair == nil {
		return 0
	}
	var plans []preprocess.Transform
	var pixels []int
	for _, p := range pairs[:n] {
		for _, img := range p {
			t, err := j.transform(img, opt)
			if err != nil {
				return 0 // and let prepare say what is wrong
			}
			plans, pixels = append(plans, t), append(pixels, t.Height*t.Width)
		}
	}
	if lanes(len(pairs), threads, pixels...) == 0 {
		return 0
	}
	j.lanes = n
	if j.admit(plans, false) != nil {
		j.lanes = 0
		return 0
	}
	if made := len(j.l.lanes); made < n {
		for _, lane := range dev.Divide(n)[made:] {
			j.l.lanes = append(j.l.lanes, &programs{dev: lane, opt: j.l.programs.opt})
		}
	}
	return n
}

// sideBySide computes pairs, whose pictures take turns in pics, each by one thread.
func (j *job) sideBySide(pics []*picture, out []*Result) error {
	jobs, errs := make([]*job, len(out)), make([]error, len(out))
	for i := range jobs {
		jobs[i] = j.e.newJob(j.ctx, j.l, Outputs(j.want))
		jobs[i].on = j.l.lanes[i]
		defer jobs[i].close()
	}
	j.e.pool.Run(len(jobs), func(_, i int) {
		errs[i] = jobs[i].pair(pics[2*i:2*i+2], out[i].View[:], &out[i].Timing)
	})
	err := errors.Join(errs...)
	for _, k := range jobs {
		k.kept = err == nil
	}
	return err
}

// together is how many of the first pairs are computed at once.
func (j *job) together(pairs [][2]Image, opt InferOptions) int {
	if n := j.divided(pairs, opt); n > 1 {
		return n
	}
	if len(pairs) < batchPairs || j.l.pair == nil || !j.l.apart {
		return 1
	}
	a, err := j.transform(pairs[0][0], opt)
	if err != nil {
		return 1 // and let prepare say so
	}
	b, err := j.transform(pairs[0][1], opt)
	if err != nil {
		return 1
	}
	for _, p := range pairs[1:batchPairs] {
		c, err1 := j.transform(p[0], opt)
		d, err2 := j.transform(p[1], opt)
		if err1 != nil || err2 != nil || c.Height != a.Height || c.Width != a.Width || d.Height != b.Height || d.Width != b.Width {
			return 1
		}
	}
	return batchPairs
}

// manyPairs computes pairs of equal sizes, whose pictures take turns in pics, as
// one batch. Times are each pair's share.
func (j *job) manyPairs(pics []*picture, out []*Result) error {
	w, err := j.begin(decoderQueue)
	if err != nil {
		return err
	}
	n, l := len(out), j.l
	var feats [2]backend.Buffer
	for v := range feats {
		var in []backend.Buffer
		for i := range n {
			in = append(in, pics[2*i+v].pixels)
		}
		at := pics[v]
		made, err := w.step(part{what: "encoder", images: n, pairs: n, h1: at.height, w1: at.width}, func() (*graph.Graph, error) {
			g, err := l.model.Encoder(n, at.height, at.width)
			if err != nil {
				return nil, err
			}
			return rearranged(g, func(out *graph.Graph, x []*graph.Node) {
				out.Output("features", out.Concat(0, x...))
			})
		}, in)
		if err != nil {
			return err
		}
		feats[v] = made[0]
		l.counts.encodes.Add(uint64(n))
	}
	a, b := pics[0], pics[1]
	hooks, err := w.step(part{what: "decoder", pairs: n, h1: a.height, w1: a.width, h2: b.height, w2: b.width}, func() (*graph.Graph, error) {
		return l.pair.Decoder(n, a.grid(l.facts), b.grid(l.facts))
	}, feats[:])
	if err != nil {
		return err
	}
	l.counts.decodes.Add(uint64(n))
	half := len(hooks) / 2
	for v := range 2 {
		if err := w.heads(v, pics[v], append([]backend.Buffer{feats[v]}, hooks[v*half:(v+1)*half]...), out); err != nil {
			return err
		}
	}
	var all Timing
	if err := w.finish(&all); err != nil {
		return err
	}
	for i, r := range out {
		share := func(d *time.Duration) { *d /= time.Duration(n) }
		r.Timing = all
		share(&r.Timing.Encoder)
		share(&r.Timing.Decoder)
		share(&r.Timing.Heads)
		for v := range 2 {
			r.View[v].Transform = pics[2*i+v].transform
		}
	}
	return nil
}

// step runs a program on in, into buffers that go with the work.
func (w *work) step(key part, build func() (*graph.Graph, error), in []backend.Buffer) (out []backend.Buffer, err error) {
	p, err := w.j.program(key, build)
	if err != nil {
		return nil, err
	}
	for _, o := range p.Graph().Outputs {
		b, err := w.j.temp(o.Node.Bytes())
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, w.run(p, in, out)
}

// heads runs the head of one view for all pairs; each pair's maps are tensors of
// their own.
func (w *work) heads(view int, pic *picture, in []backend.Buffer, results []*Result) error {
	n, want := len(results), w.j.want
	key := part{what: fmt.Sprintf("head%d", view+1), pairs: n, h1: pic.height, w1: pic.width, want: want}
	p, err := w.j.program(key, func() (*graph.Graph, error) {
		g, err := w.j.l.pair.Head(view+1, n, pic.height, pic.width, want)
		if err != nil {
			return nil, err
		}
		g, err = rearranged(g, func(out *graph.Graph, x []*graph.Node) {
			for i := range n {
				for k, m := range x {
					out.Output(fmt.Sprintf("%s_%d", g.Outputs[k].Name, i), out.SliceAxis(m, 0, i, i+1))
				}
			}
		})
		if err != nil || !w.j.l.apart {
			return g, err
		}
		return withTotal(g)
	})
	if err != nil {
		return err
	}
	var out []backend.Buffer
	for _, r := range results {
		maps, err := w.maps(p, len(out), &r.View[view])
		if err != nil {
			return err
		}
		out = append(out, maps...)
	}
	if out, err = w.total(out); err != nil {
		return err
	}
	if err := w.run(p, in, out); err != nil {
		return err
	}
	w.j.l.counts.heads.Add(uint64(n))
	return nil
}

// rearranged is g with other outputs, which f makes of its own.
func rearranged(g *graph.Graph, f func(out *graph.Graph, x []*graph.Node)) (*graph.Graph, error) {
	out := graph.New(g.Name)
	in := make([]*graph.Node, len(g.Inputs))
	for i, n := range g.Inputs {
		in[i] = out.Input(n.Op.(graph.Input).Name, n.DType, n.Shape...)
	}
	f(out, out.Inline(g, in...))
	return out.Build()
}
