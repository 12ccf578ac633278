// SPDX-License-Identifier: Apache-2.0

// Command cuda times the parts of a network on an NVIDIA GPU through XLA, with
// synthetic weights: encoder of two pictures, one pair, eight pairs. It prints a
// line of JSON for each measurement.
//
//	go run ./benchmarks/cuda -precision bf16 -attention fused
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/cuda"
	"github.com/mast3r-runtime/mast3r-runtime/internal/graph"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/mast3r"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

var (
	variant   = flag.String("variant", "mast3r_vit_large", "network")
	height    = flag.Int("height", 384, "rows of the pictures")
	width     = flag.Int("width", 512, "columns of the pictures")
	precision = flag.String("precision", "bf16", "bf16, fp16, tf32 or fp32; several with commas")
	attention = flag.String("attention", "fused", "unfused or fused; several with commas")
	what      = flag.String("what", "encoder,pair,batch,match", "what to time: also resize, whole, decoder, head, points, desc")
	batch     = flag.Int("batch", 8, "pairs at once")
	rounds    = flag.Int("n", 50, "runs")
	cache     = flag.String("cache", "off", "folder for compiled programs")
	plugin    = flag.String("plugin", "", "a PJRT plugin in place of CUDA's")
	flags     = flag.String("flags", "", "XLA's flags, name=value,name=value")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	pool := par.New(0)
	defer pool.Close()
	start := time.Now()
	set, err := synth.Model(pool, *variant)
	if err != nil {
		return err
	}
	m, err := mast3r.Open(set)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "weights made in %v\n", time.Since(start).Round(time.Millisecond))
	for _, a := range strings.Split(*attention, ",") {
		b, err := open(a)
		if err != nil {
			return err
		}
		for _, p := range strings.Split(*precision, ",") {
			t := &timer{b: b, m: m, row: map[string]any{"precision": p, "attention": a, "flags": *flags, "device": b.Device().Name}}
			t.p, err = precisionOf(p)
			if err == nil {
				err = t.all()
			}
			if err != nil {
				return err
			}
		}
		if err := b.Close(); err != nil {
			return err
		}
	}
	return nil
}

func precisionOf(name string) (backend.Precision, error) {
	for _, p := range []backend.Precision{backend.FP32, backend.FP16, backend.BF16, backend.TF32} {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("precision %q", name)
}

func open(attention string) (*xla.Backend, error) {
	f := map[string]any{}
	for _, s := range strings.Split(*flags, ",") {
		name, v, ok := strings.Cut(s, "=")
		if !ok {
			continue
		}
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			f[name] = n
		} else if v == "true" || v == "false" {
			f[name] = v == "true"
		} else {
			f[name] = strings.ReplaceAll(v, "+", ",")
		}
	}
	if *plugin != "" {
		folder := *cache
		if folder == "off" {
			folder = ""
		}
		return xla.New(xla.Config{Name: "xla", Plugin: *plugin, Cache: folder, Flags: f})
	}
	if err := os.Setenv(cuda.EnvAttention, attention); err != nil {
		return nil, err
	}
	return cuda.Open(cuda.Settings{Cache: *cache, Flags: f, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))})
}

// timer times graphs in one precision.
type timer struct {
	b   *xla.Backend
	m   *mast3r.Model
	p   backend.Precision
	row map[string]any
}

func (t *timer) all() error {
	g := t.m.GridOf(*height, *width)
	for _, w := range strings.Split(*what, ",") {
		var graphs []*graph.Graph
		var err error
		add := func(x *graph.Graph, e error) {
			if graphs = append(graphs, x); err == nil {
				err = e
			}
		}
		pair := func(n int) {
			add(t.m.Encoder(2*n, *height, *width))
			add(t.m.Decoder(n, g, g))
			add(t.m.Head(1, n, *height, *width, mast3r.AllOutputs))
			add(t.m.Head(2, n, *height, *width, mast3r.AllOutputs))
		}
		switch w {
		case "match":
			if err := t.match(); err != nil {
				return fmt.Errorf("match: %w", err)
			}
			continue
		case "resize":
			if err := t.resize(); err != nil {
				return fmt.Errorf("resize: %w", err)
			}
			continue
		case "encoder":
			add(t.m.Encoder(2, *height, *width))
		case "decoder":
			add(t.m.Decoder(1, g, g))
		case "head":
			add(t.m.Head(1, 1, *height, *width, mast3r.AllOutputs))
		case "points":
			add(t.m.Head(1, 1, *height, *width, mast3r.Points|mast3r.Conf))
		case "desc":
			add(t.m.Head(1, 1, *height, *width, mast3r.Desc|mast3r.DescConf))
		case "pair":
			pair(1)
		case "batch":
			pair(*batch)
		case "whole":
			add(t.m.Pair(*height, *width, *height, *width))
		default:
			return fmt.Errorf("cannot time %q", w)
		}
		if err != nil {
			return err
		}
		if err := t.time(w, graphs); err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	return nil
}

// time runs the graphs one after the other, each on inputs of its own.
func (t *timer) time(name string, graphs []*graph.Graph) error {
	ctx := context.Background()
	var ins, outs [][]backend.Buffer
	start := time.Now()
	programs, err := t.compile(ctx, graphs)
	for _, p := range programs {
		defer p.Close()
	}
	if err != nil {
		return err
	}
	compile := time.Since(start)
	defer func() {
		for _, list := range append(ins, outs...) {
			for _, x := range list {
				x.Release()
			}
		}
	}()
	for _, g := range graphs {
		in, err := t.buffers(g.Inputs)
		if err != nil {
			return err
		}
		var nodes []*graph.Node
		for _, o := range g.Outputs {
			nodes = append(nodes, o.Node)
		}
		out, err := t.buffers(nodes)
		if err != nil {
			return err
		}
		for i, x := range in {
			fill(x.Bytes(), g.Inputs[i])
		}
		ins, outs = append(ins, in), append(outs, out)
	}
	submit := func() (backend.Pending, error) {
		w, err := t.b.Begin(backend.First)
		if err != nil {
			return nil, err
		}
		for i, p := range programs {
			if err := w.Run(ctx, p, ins[i], outs[i]); err != nil {
				return nil, err
			}
		}
		return w.Submit()
	}
	var times []time.Duration
	stages := make([][]time.Duration, len(programs))
	var dispatch []time.Duration
	for i := range *rounds + 5 {
		start := time.Now()
		p, err := submit()
		if err != nil {
			return err
		}
		dispatch = append(dispatch, time.Since(start))
		d, err := p.Wait(ctx)
		if err != nil {
			return err
		}
		if i < 5 {
			continue
		}
		times = append(times, time.Since(start))
		for k, s := range d {
			stages[k] = append(stages[k], s)
		}
	}
	start = time.Now()
	var last backend.Pending
	for range *rounds {
		var err error
		if last, err = submit(); err != nil {
			return err
		}
	}
	if _, err := last.Wait(ctx); err != nil {
		return err
	}
	t.print(map[string]any{"what": name, "compile_s": compile.Seconds(), "median_ms": median(times), "dispatch_ms": median(dispatch), "min_ms": ms(slices.Min(times)),
		"pipelined_ms": ms(time.Since(start)) / float64(*rounds)}, stages)
	return nil
}

// compile compiles the graphs, one after the other: XLA's compiler was seen to
// hang when several threads called it at once.
func (t *timer) compile(ctx context.Context, graphs []*graph.Graph) (programs []backend.Program, err error) {
	for _, g := range graphs {
		p, err := t.b.Compile(ctx, g, backend.Options{Precision: t.p})
		if err != nil {
			return programs, err
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// print writes a row.
func (t *timer) print(row map[string]any, stages [][]time.Duration) {
	var parts []float64
	for _, s := range stages {
		parts = append(parts, median(s))
	}
	row["stages_ms"] = parts
	if m, err := t.b.Memory(); err == nil {
		row["memory_mb"], row["peak_mb"] = m.InUse>>20, m.Peak>>20
	}
	for k, v := range t.row {
		row[k] = v
	}
	text, err := json.Marshal(row)
	if err != nil {
		panic(err) // numbers and texts
	}
	fmt.Println(string(text))
}

func (t *timer) buffers(nodes []*graph.Node) ([]backend.Buffer, error) {
	var out []backend.Buffer
	for _, n := range nodes {
		x, err := t.b.Alloc(n.Bytes())
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// fill writes numbers that are not all the same: pixels, or floats of about one.
func fill(b []byte, n *graph.Node) {
	seed := uint32(n.ID + 1)
	for i := range b {
		seed = seed*1664525 + 1013904223
		b[i] = byte(seed >> 24)
		if n.DType.Float() && i%4 == 3 {
			b[i] = 0x3f&^0x40 | b[i]&0x80
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func median(d []time.Duration) float64 {
	s := slices.Clone(d)
	slices.Sort(s)
	return ms(s[len(s)/2])
}
