// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph/passes"
)

// ProfileOptions are the options of Profile.
type ProfileOptions struct {
	InferOptions
	// Iterations are measured, after Warmup iterations that are not; 0: 5 and 1.
	Iterations, Warmup int
	// Wait submits every program alone and waits for it. A GPU times command
	// buffers only, so this gives each stage its own time instead of a part of the
	// pair's, but without overlap.
	Wait bool
}

// maxIterations bounds ProfileOptions.
const maxIterations = 100000

// Profile says where the time of a pair goes. Times are medians in milliseconds.
type Profile struct {
	Backend   string `json:"backend"`
	Device    string `json:"device"`
	Variant   string `json:"variant"`
	Precision string `json:"precision"`
	Height1   int    `json:"height_1"`
	Width1    int    `json:"width_1"`
	Height2   int    `json:"height_2"`
	Width2    int    `json:"width_2"`
	// Iterations were measured, CommandBuffers committed for each of them.
	Iterations     int  `json:"iterations"`
	Wait           bool `json:"wait"`
	CommandBuffers int  `json:"command_buffers"`
	// Wall is the whole call, Preprocess its part before the device.
	WallMS       float64 `json:"wall_ms"`
	PreprocessMS float64 `json:"preprocess_ms"`
	DeviceMS     float64 `json:"device_ms"`
	// Stages are the programs in the order they run. Their times are measured on
	// the CPU and with Wait; else they are shares, by cost, of a measured time.
	Stages   []Stage `json:"stages"`
	Measured bool    `json:"measured"`
	// Ops are the kinds of operation, the slowest first. A GPU cannot time them:
	// their time is estimated from the time of their stage, by cost.
	Ops         []OpTime `json:"ops"`
	OpsMeasured bool     `json:"ops_measured"`
}

// Stage is one program.
type Stage struct {
	Name   string  `json:"name"`
	MS     float64 `json:"ms"`
	TFLOPS float64 `json:"tflops"` // achieved
	FLOPs  int64   `json:"flops"`
}

// OpTime is a kind of operation.
type OpTime struct {
	Name  string  `json:"name"`
	Count int     `json:"count"` // in one pair
	MS    float64 `json:"ms"`    // in one pair
	FLOPs int64   `json:"flops"`
	Bytes int64   `json:"bytes"`
}

// Profile infers the pair several times and reports where the time goes.
func (e *Engine) Profile(ctx context.Context, img1, img2 Image, opt ProfileOptions) (*Profile, error) {
	opt.Iterations, opt.Warmup = cmp.Or(opt.Iterations, 5), cmp.Or(opt.Warmup, 1)
	for name, n := range map[string]int{"Iterations": opt.Iterations, "Warmup": opt.Warmup} {
		if n < 0 || n > maxIterations {
			return nil, &ConfigError{name, fmt.Sprint(n), fmt.Sprintf("0 to %d", maxIterations)}
		}
	}
	l, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer e.turn.give()
	if err := l.pairOnly("profile", "the Timing of InferViews says where its time went"); err != nil {
		return nil, err
	}
	r := &profiler{e: e, l: l, stages: map[string]*stage{}, ops: map[string]*OpTime{}}
	host, measuredOps := e.dev.(backend.Profiler)
	for i := range opt.Warmup + opt.Iterations {
		if i == opt.Warmup && measuredOps {
			host.SetProfile(r.sample)
			defer host.SetProfile(nil)
		}
		if err := r.pair(ctx, img1, img2, opt, i >= opt.Warmup); err != nil {
			return nil, err
		}
	}
	p := r.report(opt)
	p.Measured, p.OpsMeasured = measuredOps || opt.Wait, measuredOps
	return p, nil
}

// profiler collects what several pairs took.
type profiler struct {
	e *Engine
	l *loaded

	pics             [2]*picture
	wall, preprocess []time.Duration
	device           []time.Duration
	stages           map[string]*stage
	order            []string
	ops              map[string]*OpTime // MS summed over iterations
	buffers          int
}

type stage struct {
	times []time.Duration
	flops int64
}

// pair runs once and, when counted, keeps the times.
func (r *profiler) pair(ctx context.Context, img1, img2 Image, opt ProfileOptions, counted bool) error {
	before := r.e.Info().CommandBuffers
	j := r.e.newJob(ctx, r.l, opt.Only)
	defer j.close()
	j.wait = opt.Wait
	pics, err := j.prepare([]Image{img1, img2}, opt.InferOptions)
	if err != nil {
		return err
	}
	w, err := j.begin(decoderQueue)
	if err != nil {
		return err
	}
	if err := w.encode(pics...); err != nil {
		return err
	}
	var out Result
	if err := w.decode(pics[0], pics[1], &out.View[0], &out.View[1]); err != nil {
		return err
	}
	if err := w.finish(&out.Timing); err != nil {
		return err
	}
	if !counted {
		return nil
	}
	t := &out.Timing
	r.pics = [2]*picture{pics[0], pics[1]}
	r.wall, r.preprocess = append(r.wall, time.Since(j.start)), append(r.preprocess, j.preprocess)
	r.device = append(r.device, t.Encoder+t.Decoder+t.Heads)
	r.buffers = r.e.Info().CommandBuffers - before
	first := len(r.order) == 0
	for i, name := range w.stages {
		if i > 0 && name == w.stages[i-1] {
			name += "2" // two encoder passes, of two sizes
		}
		s := r.stages[name]
		if s == nil {
			s = &stage{}
			r.stages[name], r.order = s, append(r.order, name)
		}
		s.times = append(s.times, w.times[i])
		if first {
			if err := r.count(j.programs[i], w.times[i], s); err != nil {
				return err
			}
		}
	}
	return nil
}

// count adds a program's cost, and on a device without a clock for operations
// spreads its time over them: reading a byte costs about as much as 25
// operations.
func (r *profiler) count(p *program, d time.Duration, s *stage) error {
	g, err := passes.Simplify(p.Graph())
	if err != nil {
		return fmt.Errorf("gomps: profile: %w", err)
	}
	total := g.Cost()
	s.flops = total.FLOPs
	if _, ok := r.e.dev.(backend.Profiler); ok {
		return nil
	}
	whole := float64(total.FLOPs) + 25*float64(total.Bytes) + 1
	for _, n := range g.Nodes {
		c := n.Cost()
		if c.Bytes == 0 {
			continue
		}
		o := r.op(n.Op.Kind())
		o.Count++
		o.FLOPs += c.FLOPs
		o.Bytes += c.Bytes
		o.MS += ms(d) * (float64(c.FLOPs) + 25*float64(c.Bytes)) / whole
	}
	return nil
}

func (r *profiler) op(kind string) *OpTime {
	if r.ops[kind] == nil {
		r.ops[kind] = &OpTime{Name: kind}
	}
	return r.ops[kind]
}

// sample is told of every operation, on a device that can time them.
func (r *profiler) sample(s backend.Sample) {
	o := r.op(s.Op)
	o.Count++
	o.MS += ms(s.Time)
	o.FLOPs += s.FLOPs
	o.Bytes += s.Bytes
}

func (r *profiler) report(opt ProfileOptions) *Profile {
	i := r.e.Info()
	p := &Profile{
		Backend: i.Backend, Device: i.Device, Variant: i.Variant, Precision: i.Precision, Iterations: opt.Iterations, Wait: opt.Wait,
		Height1: r.pics[0].height, Width1: r.pics[0].width, Height2: r.pics[1].height, Width2: r.pics[1].width,
		WallMS: median(r.wall), PreprocessMS: median(r.preprocess), DeviceMS: median(r.device), CommandBuffers: r.buffers,
	}
	for _, name := range r.order {
		s := r.stages[name]
		d := Stage{Name: name, MS: median(s.times), FLOPs: s.flops}
		if d.MS > 0 {
			d.TFLOPS = float64(d.FLOPs) / d.MS / 1e9
		}
		p.Stages = append(p.Stages, d)
	}
	for _, o := range r.ops {
		if i.Backend == "cpu" { // sampled in every iteration
			n := opt.Iterations
			o.Count, o.MS, o.FLOPs, o.Bytes = o.Count/n, o.MS/float64(n), o.FLOPs/int64(n), o.Bytes/int64(n)
		}
		p.Ops = append(p.Ops, *o)
	}
	slices.SortFunc(p.Ops, func(a, b OpTime) int { return cmp.Or(cmp.Compare(b.MS, a.MS), cmp.Compare(a.Name, b.Name)) })
	return p
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func median(d []time.Duration) float64 {
	s := slices.Clone(d)
	slices.Sort(s)
	return ms(s[len(s)/2])
}
